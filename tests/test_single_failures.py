"""One question that fails takes no other with it, what is cut is counted, and nothing leaves this machine."""

import math
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from comparo import JudgeError, Question, load_judge
from comparo.judges import hf
from comparo.judges.local import LlamaChat, LlamaCpp
from inside import criterion_prompt
from servers import Api, Reply
from test_hf_judge import DECODERS, PROMPT, SMALL, answers, make_tokenizer, some_questions

LOCAL = criterion_prompt("longer", kind="Text", context="Article")


def tiny(**options):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(DECODERS["llama"]())
    return hf.judge_with(model, make_tokenizer(), "tiny", **options)


@pytest.fixture(scope="module")
def llama():
    return load_judge("local/smollm2", runtime="llama.cpp", window=256, threads=1)


@pytest.mark.parametrize("options", [{"reuse": False}, {"reuse": True, "batch": 4}, {"reuse": "tree"}])
def test_what_a_model_cannot_read_fails_alone(options):
    judge, questions = tiny(**options), some_questions(9)
    expected = [answer.p for answer in answers(judge, questions)]
    tokenizer = judge._chat.tokenizer
    tokenizer.add_tokens([f"filler{number}" for number in range(len(tokenizer), SMALL["vocab_size"])])
    tokenizer.add_tokens(["zyzzyva"])  # of a number that the model has no embedding for
    questions[4] = replace(questions[4], first_text="the zyzzyva sat")
    tokenizer.chat_template = (
        "{% if 'unspeakable' in messages[0].content %}{{ raise_exception('no such word') }}{% endif %}"
        + tokenizer.chat_template
    )
    questions[5] = replace(questions[5], second_text="the unspeakable cat")  # cannot be written as tokens
    found = answers(judge, questions)
    assert found[5].error.endswith("no such word")
    assert "out of range" in found[4].error
    assert math.isnan(found[4].p)
    assert [a.p for a in found[:4] + found[6:]] == pytest.approx(expected[:4] + expected[6:], abs=1e-4)


HOSTILE = ["\ud83d", "half \udc00 a pair", "", "\0", "\x1b[31m", "<|im_end|>", "‮abc", "a" * 20, "\n\n\n", "🧑‍🚀" * 9]


@pytest.mark.long
def test_no_text_stops_a_local_judge(llama):
    questions = [Question(number, -1, None, text, "A text.", text) for number, text in enumerate(HOSTILE)]
    for judge, prompt in ((tiny(), PROMPT), (llama, LOCAL)):
        found = answers(judge, questions, prompt)
        assert [answer.error for answer in found] == [None] * len(HOSTILE)
        assert all(0 <= answer.p <= 1 for answer in found)


@pytest.mark.long
def test_a_question_that_does_not_fit_fails_alone(llama):
    template = "x " * 230
    long, short = (replace(LOCAL, template=LOCAL.template + words) for words in (template, ""))
    [failed] = llama.judge([Question(1, 2, None, "A.", "B.", "C.")], long)
    assert "255 tokens" in failed.error
    [answered] = llama.judge([Question(1, 2, None, "A.", "B.", "C.")], short)
    assert answered.error is None


@pytest.mark.long
def test_what_llama_cpp_refuses_fails_alone(llama):
    class Refusing:
        listening_address = llama.server.listening_address

        def handle_completions(self, body):
            said = llama.chat.decode(body["prompt"])
            if "refuse" in said:
                return {"error": {"code": 500, "message": "the model\nrefused"}}
            if "raise" in said:
                raise RuntimeError("parse error")
            if "odd" in said:
                return {"choices": [{"logprobs": None}]}
            return llama.server.handle_completions(body)

    judge = replace(llama, server=Refusing())
    texts = ["A good text.", "refuse this", "raise this", "this is odd", "Another text."]
    found = answers(judge, [Question(text, -1, None, text, "A text.", "") for text in texts], LOCAL)
    assert [answer.failed for answer in found] == [False, True, True, True, False]
    assert [one.error.partition(": ")[2] for one in found[1:3]] == ["the model refused", "parse error"]


@pytest.mark.long
@pytest.mark.parametrize("context", ["old house </s> " * 80, ""])
def test_what_is_cut_is_counted_in_characters_by_every_local_judge(llama, context):
    """The prompt is read back from the tokens, and what is missing of the texts is counted there."""
    judge = tiny(window=120)
    texts = ["the cat <s> sat " * 30, "on a mat " * 50]
    [answer] = judge.judge([Question(1, 2, 0, *texts, context)], PROMPT)
    [encoded] = judge._chat.encode([Question(1, 2, 0, *texts, context)], PROMPT)
    assert answer.cut == encoded.cut == missing(judge._chat.tokenizer.decode(encoded.ids), PROMPT, texts, context)
    [answer] = llama.judge([Question(1, 2, 0, *texts, context)], LOCAL)
    [encoded] = llama.chat.encode([Question(1, 2, 0, *texts, context)], LOCAL)
    assert answer.cut == encoded.cut == missing(llama.chat.decode(encoded.ids), LOCAL, texts, context)
    assert answer.tokens_in <= 255


def missing(prompt: str, asked, texts: list[str], context: str) -> int:
    """How many characters of the texts are not in a prompt, the spaces that break its markers aside."""
    plain = prompt.replace("< s>", "<s>").replace("< /s>", "</s>")
    kind = asked.answer
    shown = [
        plain.partition(": ")[2].partition(f"\n\n{kind} A: ")[0],
        plain.partition(f"{kind} A: ")[2].partition(f"\n\n{kind} B: ")[0],
        plain.partition(f"{kind} B: ")[2].partition("\n\nWhich")[0],
    ]
    lost = 0
    for whole, part in zip([context, *texts], shown, strict=True):
        kept = part.removesuffix("…")
        assert whole.startswith(kept)
        lost += len(whole) - len(kept)
    assert lost
    return lost


@given(st.integers(5, 60), st.text("ab \n", max_size=80), st.text("ab \n", max_size=80), st.text("ab \n", max_size=80))
def test_a_cut_counts_what_is_gone(room, first, second, context):
    asked = criterion_prompt("x", context="C")
    frame = len(asked.text(Question(1, 2, 3, "", "", "")))
    text, cut = asked.fit(Question(1, 2, 3, first, second, context), frame + room, len)
    whole = len(asked.text(Question(1, 2, 3, first, second, context)))
    assert len(text) <= frame + room
    assert cut == whole - len(text) + text.count("…")


def test_very_long_texts_are_cut_to_the_window_and_not_to_nothing():
    lengths = []

    def measure(text):
        lengths.append(len(text))
        return len(text) // 4

    long = "word " * 2_000_000
    text, cut = LOCAL.fit(Question(1, 2, None, long, long, "c"), 4096, measure)
    assert 4000 < len(text) // 4 <= 4096
    assert cut + len(text) > 2 * len(long)
    assert sorted(lengths)[-3] < 100_000  # the whole is measured with its context and without


@pytest.mark.long
def test_a_local_judge_uses_no_proxy():
    code = """
from comparo.judges import load_judge
from comparo.data.prompts import Question, criterion_prompt
judge = load_judge("local/smollm2", runtime="llama.cpp", window=256, threads=1)
[answer] = judge.judge([Question(1, 2, None, "A.", "B.")], criterion_prompt("longer"))
print(answer.error)
"""
    with Api(Reply(status=502)) as proxy:
        address = proxy.url.removesuffix("/v1")
        proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"), address)
        environment = {name: value for name, value in os.environ.items() if name.lower() != "no_proxy"} | proxies
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert proxy.requests == []
    assert done.stdout == "None\n", done.stderr


def test_a_server_that_is_gone_is_one_sentence(tmp_path):
    class Gone:
        listening_address = "http://127.0.0.1:9"

    judge = LlamaCpp("local/x", tmp_path / "x.gguf", 256, Gone(), LlamaChat(Gone(), "key", 256))
    with pytest.raises(JudgeError, match="local/x"):
        next(judge.judge([Question(1, 2)], LOCAL))
