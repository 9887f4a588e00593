"""What replies say: never more than they do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparo import Prompt
from inside import LONGEST, criterion_prompt, ordering, read_order, read_verdict, reply_schema, soften

PROMPT = Prompt("{first}{second}", answer="Summary")
NUMBERS = Prompt("{first}{second}", labels=("1", "2"), answer="Essay")
FOUR = Prompt("{first}{second}{third}{fourth}", ("A", "B", "C", "D"), "Summary")
WORDS = Prompt("{first}{second}", labels=("first", "second"))

CLEAR = [
    "{x}",
    " {x}\n",
    "({x})",
    "[[{x}]]",
    "**{x}**",
    '"{x}"',
    "'{x}'.",
    "{x}!",
    "Summary {x}",
    "summary {x}.",
    "SUMMARY {x}",
    "**Summary {x}**",
    "The Summary {x}",
    "Option {x}",
    "Answer: {x}",
    "**Answer:** Summary {x}",
    "My final verdict is: {x}.",
    "The better Summary is Summary {x}.",
    '{{"better": "{x}"}}',
    '{{"better": "Summary {x}"}}',
    '```json\n{{"better": "Summary {x}", "why": "it is not dull"}}\n```',
    "<think>Hm, {y} looks better at first, or not?</think>\n\nSummary {x}",
    "Hm, {y} is good.</think>{x}",
    "Summary {x}\n\nSummary {y} is not as clear, and {x} is shorter.",
    "{x}. It flows well.",
    "{x}, because it flows well.",
    "I think {x} is better",
    "I think Summary {x} is the better one.",
    "{x} is better than {y}",
    "{x} is clearer than {y}.",
    "Summary {x} is more coherent than Summary {y}.",
    "Summary {y} is good, but Summary {x} is slightly better.",
    "I prefer {x} to {y}.",
    "I would go with {x}.",
    "{x} wins.",
    "{x} over {y}",
    "{x} > {y}",
]

UNCLEAR = [
    "",
    " \n ",
    "...",
    "I'm sorry, but I can't help with that.",
    "As a language model, I have no opinion.",
    "A good question!",
    "A Summary should be short.",
    "Both",
    "Neither {x} nor {y}.",
    "{x} or {y}",
    "{x}, {y}",
    "{x}\n{y}",
    "{x}/{y}",
    "{x} and {y} are both good.",
    "Either {x} or {y} is better.",
    "It's a tie.",
    "Not {x}",
    "{x} is not better.",
    "{x} isn't better than {y}",
    "{x} is worse",
    "{x} is less clear than {y}",
    "The worse one is {x}",
    "{x} is no better than {y}",
    "If you like cats, {x} is better.",
    "It is hard to say whether {x} is better than {y}",
    "Which is better, {x} or {y}?",
    "{x} is better in style. {y} is better overall.",
    "{x}? No, {y} is better.",
    "Summary {x}: cats purr.\n\nSummary {y}: dogs bark.",
    "{x}. Cats purr. {y}. Dogs bark.",
    "<think>{x} is better",
    '{{"better": "{x}',
    '{{"better": ["{x}"]}}',
    '{{"worse": "{x}"}}',
    "{x}{y}",
    "{x}1",
    "Plan{x}",
]


def put(reply, prompt, first):
    x, y = prompt.labels if first else prompt.labels[::-1]
    for write in (str.title, str.lower, str.upper):
        reply = reply.replace(write("summary"), write(prompt.answer))
    return reply.format(x=x, y=y)


@pytest.mark.parametrize(("first", "verdict"), [(True, 1.0), (False, 0.0)])
@pytest.mark.parametrize("reply", CLEAR)
def test_clear_verdicts_are_read(reply, first, verdict):
    assert read_verdict(put(reply, PROMPT, first), PROMPT) == verdict
    assert read_verdict(put(reply, NUMBERS, first), NUMBERS) == verdict


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("reply", UNCLEAR)
def test_unclear_ones_are_not_guessed(reply, first):
    for prompt in (PROMPT, NUMBERS):
        assert read_verdict(put(reply, prompt, first), prompt) is None


def test_labels_may_be_words():
    assert read_verdict("Second.", WORDS) == 0.0
    assert read_verdict("The FIRST is better than the second", WORDS) == 1.0
    assert read_verdict("First, let me think", WORDS) is None
    assert read_verdict("secondary", WORDS) is None


@pytest.mark.long
@given(st.text())
def test_any_text_is_read_without_complaint(reply):
    assert read_verdict(reply, PROMPT) in (None, 0.0, 1.0)


PARTS = "A B Summary is better than not the worse both or . , > >> = tie I prefer \n".split(" ")


@given(st.lists(st.sampled_from(PARTS), max_size=12))
def test_labels_that_change_places_change_the_verdict(parts):
    swap = {"A": "B", "B": "A"}
    reply, mirror = (" ".join(found) for found in (parts, [swap.get(part, part) for part in parts]))
    there, back = read_verdict(reply, PROMPT), read_verdict(mirror, PROMPT)
    assert (there is None) == (back is None)
    assert there is None or there + back == 1


@given(st.text(alphabet=st.characters(blacklist_characters="AB")))
def test_without_a_label_there_is_no_verdict(reply):
    assert read_verdict(reply, PROMPT) is None


@pytest.mark.parametrize(
    "part", '<think>|</think>|A |is |better one is |\'|{|Summary |C>|*|[|```a|{"order":| \n>'.split("|")
)
def test_a_reply_of_any_length_is_read_soon(part):
    for size in (9_000, LONGEST, 100_000):
        assert read_order(part * (size // len(part)), FOUR) is None
        assert size == LONGEST or read_verdict(part * (size // len(part)), PROMPT) is None


@pytest.mark.parametrize("prompt", [PROMPT, NUMBERS, WORDS])
def test_every_verdict_that_is_asked_for_is_read_back(prompt):
    verdicts = reply_schema(prompt)["properties"]["better"]["enum"]
    assert [read_verdict(verdict, prompt) for verdict in verdicts] == [1.0, 0.0]
    assert all(verdict in prompt.instruction for verdict in verdicts)


@given(st.lists(st.sampled_from([0.0, 1.0, None]), min_size=1, max_size=50))
def test_votes_are_softened(verdicts):
    a, b = verdicts.count(1.0), verdicts.count(0.0)
    found = soften(verdicts)
    if a + b == 0:
        assert found is None
    else:
        p, mass, weight = found
        assert p == pytest.approx((a + 0.5) / (a + b + 1))
        assert 0 < p < 1
        assert mass == (a + b) / len(verdicts)
        assert weight == a + b


@pytest.mark.parametrize(
    "reply",
    [
        "C>A>D>B",
        " C > A > D > B.\n",
        "C, A, D, B",
        "[C, A, D, B]",
        '["C", "A", "D", "B"]',
        "**c > a > d > b**",
        "Summary C > Summary A > Summary D > Summary B",
        "summary C,\nsummary A,\nsummary D,\nsummary B",
        '{"order": "C>A>D>B"}',
        '```json\n{"order": ["Summary C", "A", "Summary D", "B"]}\n```',
        "<think>A > B > C > D? No.</think>\n\nC > A > D > B",
    ],
)
def test_an_order_is_read(reply):
    assert read_order(reply, FOUR) == "C>A>D>B"


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "C",
        "C>A>D",
        "C>A>D>D",
        "C>A>D>B>A",
        "C>A>D>E",
        "C>A>D=B",
        "C<A<D<B",
        "C A D B",
        "CADB",
        "C>A>D>B>",
        "not C > A > D > B",
        "From the worst: C > A > D > B",
        "C>A>D>B or A>B>C>D",
        "C>A>D>B\nA>B>C>D",
        "Story C > Story A > Story D > Story B",
        "<think>C > A > D > B",
        '{"order": "C>A>D"}',
        '{"order": ["C", "A", ["D"], 3]}',
        '{"order": {"C": 1}}',
        '{"best": "C>A>D>B"}',
        '{"order": ' + "[" * 5000,
    ],
)
def test_what_is_no_order_is_not_guessed(reply):
    assert read_order(reply, FOUR) is None


def test_orders_name_the_slots_by_letters():
    prompt = Prompt("{first}{second}{third}", ("1", "2", "3"))
    assert read_order("3>1>2", prompt) == "C>A>B"
    assert read_order(ordering(prompt).rpartition(" ")[2], prompt) == "C>A>B"
    assert sorted(reply_schema(prompt)["properties"]["order"]["enum"]) == [
        "1>2>3", "1>3>2", "2>1>3", "2>3>1", "3>1>2", "3>2>1"
    ]  # fmt: skip
    assert all(read_order(order, FOUR) for order in reply_schema(FOUR)["properties"]["order"]["enum"])
    six = criterion_prompt("better").resized(6)
    assert reply_schema(six)["properties"] == {"order": {"type": "string"}}
    assert read_order("A>B>C>D>E>E", six) is None
