"""Every regular expression of the package takes time linear in a text, because texts and replies may be hostile."""

import ast
import importlib
import inspect
import pkgutil
import re
import time
from contextlib import suppress
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]

import comparo
from comparo import Prompt
from comparo.judges.refusals import read_complaint
from inside import read_logprobs, token_positions

LENGTH = 10_000  # characters: a quadratic search takes 0.2 s and more, a linear one a few ms
MOST = 0.1  # seconds of CPU time
TRIED = 300  # texts for a pattern
USES = "search match fullmatch findall finditer sub split"


def modules():
    for found in pkgutil.walk_packages(comparo.__path__, "comparo."):
        if not found.name.endswith("__main__"):
            with suppress(ImportError):  # of a library that is not installed
                yield importlib.import_module(found.name)


def project_patterns():
    """(place, pattern, method) of compiled patterns in modules, and of calls of `re` with a text as the pattern."""
    for module in modules():
        source = inspect.getsource(module)
        for name, value in vars(module).items():
            for pattern in [each for each in _flat(value) if isinstance(each, re.Pattern)]:
                used = set(re.findall(rf"\b{name}\.({USES.replace(' ', '|')})\b", source)) or {"search"}
                yield from ((f"{module.__name__}.{name}", pattern, method) for method in used)
        for call in ast.walk(ast.parse(source)):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args:
                place, given = ast.unparse(call.func), call.args[0]
                if place.startswith("re.") and isinstance(given, ast.Constant) and call.func.attr in USES.split():
                    yield f"{module.__name__}:{call.lineno}", re.compile(given.value), call.func.attr


def _flat(value):
    if isinstance(value, dict):
        value = [*value.values()]
    return [each for part in value for each in _flat(part)] if isinstance(value, (list, tuple)) else [value]


def samples(tree):
    """Short texts that a parsed pattern matches, one or more for each of its branches."""
    found = [""]
    for code, value in tree:
        parts = [""]
        if code is codes.LITERAL:
            parts = [chr(value)]
        elif code is codes.NOT_LITERAL:
            parts = ["x" if value != ord("x") else "y"]
        elif code is codes.ANY:
            parts = ["x"]
        elif code is codes.IN:
            parts = _members(value)
        elif code is codes.BRANCH:
            parts = [text for branch in value[1] for text in samples(branch)]
        elif code is codes.SUBPATTERN:
            parts = samples(value[3])
        elif code is codes.ATOMIC_GROUP:
            parts = samples(value)
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            least, _, inner = value
            parts = [text * max(least, 1) for text in samples(inner)] + [""] * (least == 0)
        elif code is codes.ASSERT and value[0] > 0:
            parts = samples(value[1])
        found = [begun + part for begun in found for part in parts][:200]
    return found


def _members(members):
    known = {codes.CATEGORY_DIGIT: "1", codes.CATEGORY_SPACE: " ", codes.CATEGORY_WORD: "a"}
    found = []
    for code, value in members:
        if code is codes.LITERAL:
            found.append(chr(value))
        elif code is codes.RANGE:
            found.append(chr(value[0]))
        elif code is codes.CATEGORY:
            found.append(known.get(value, "-"))
    negated = members[0][0] is codes.NEGATE
    return [next(each for each in "xy;1" if each not in found)] if negated else found[:3]


def hostile(pattern, length=LENGTH):
    """Texts that begin like a match again and again: each part of a sample, repeated, alone and after its beginning."""
    texts = set()
    for sample in samples(_parser.parse(pattern.pattern, pattern.flags))[:40]:
        for end in range(1, min(len(sample), 40) + 1):
            texts |= {(sample[:end], ""), (sample[end - 1 : end], sample[: end - 1])}
    for part, begun in sorted(texts, key=lambda text: (len("".join(text)), text))[:TRIED]:
        yield begun + part * (length // len(part)) + "\0x"


def seconds(pattern, method, text):
    call, text = getattr(pattern, method), text.encode("latin-1") if isinstance(pattern.pattern, bytes) else text
    start = time.process_time()
    if method == "sub":
        call("", text)
    elif method == "finditer":
        [*call(text)]
    else:
        call(text)
    return time.process_time() - start


def test_a_hostile_text_takes_linear_time():
    found = [*project_patterns()]
    for place, pattern, method in found:
        for text, longer in zip(hostile(pattern), hostile(pattern, 2 * LENGTH), strict=True):
            if seconds(pattern, method, text) > MOST:  # else it is not quadratic
                ratios = (seconds(pattern, method, longer) / seconds(pattern, method, text) for _ in range(5))
                assert min(ratios) < 3, (place, text[:20])  # quadratic: 4
    places = {place for place, _, _ in found}
    judges = "comparo.judges."
    assert {f"{judges}refusals._TOO_MANY", f"{judges}refusals._WISHES", f"{judges}verdicts._WINS"} <= places
    assert any(place.startswith(f"{judges}openai:") for place in places)


def test_a_complaint_that_repeats_a_limit_is_read_at_once():
    start = time.process_time()
    assert not read_complaint("max_tokens " * 100_000).too_many
    assert time.process_time() - start < 0.5
    assert not read_complaint("max_tokens is\nat most").too_many
    assert read_complaint("max_tokens, max_tokens!\nmax_tokens: at most 5").too_many


def test_a_reply_of_many_tokens_is_read_at_once():
    rows = [("no", -0.1, [("A", -1.0), ("B", -2.0)])] * 200_000
    start = time.process_time()
    assert read_logprobs(token_positions(rows), Prompt("{first}{second}")) is None
    assert time.process_time() - start < 2
