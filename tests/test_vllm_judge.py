"""The vllm judge in vLLM itself, on a tiny model with random weights; `make slow` runs it where vLLM is installed."""

import math
import re
from dataclasses import replace

import pytest
import torch
import transformers

from comparo import JudgeError, Prompt, Question, load_judge
from inside import TextSpellings, label_probability
from test_hf_judge import PROMPT, SMALL, answers, make_tokenizer, next_tokens, some_questions
from test_label_tokens import Engine

# vLLM's imports warn of what others will change one day.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("vllm")
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(path)
    torch.manual_seed(0)
    # Heads of 64: vLLM's attention has kernels for few sizes.
    size = {"vocab_size": len(tokenizer), "hidden_size": 128, "num_attention_heads": 2, "initializer_range": 0.1}
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL | size)).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def judge(path):
    return load_judge(f"vllm/{path}", dtype="float32", gpu_memory_utilization=0.3, window=256)


def test_it_answers_from_the_20_likeliest_tokens_as_the_model_does_one_at_a_time(judge, path):
    questions = some_questions(24)
    kinds = set()
    for judgement, tokens in zip(answers(judge, questions), next_tokens(path, questions), strict=True):
        likeliest = sorted(tokens.items(), key=lambda entry: entry[1], reverse=True)[:20]
        expected = label_probability({(): [(token, math.log(p)) for token, p in likeliest]}, TextSpellings(("A", "B")))
        kinds.add(expected is None)
        if expected is None:
            assert re.search("'A'.*'B'.*20 likeliest", judgement.error)
        else:
            assert (judgement.p, judgement.mass) == pytest.approx(expected[:2], abs=1e-4)
        assert judgement.reply == judge._chat.tokenizer.convert_tokens_to_string([likeliest[0][0]])
        assert judgement.tokens_out == 1
    assert kinds == {True, False}


def test_labels_of_two_tokens_are_scored_by_both_as_the_model_does_one_at_a_time(judge, path):
    questions, prompt = some_questions(24), replace(PROMPT, labels=("1", "2"))
    alone = Engine(transformers.AutoModelForCausalLM.from_pretrained(path))
    expected = answers(replace(judge, _engine=alone, _sampling="sampling"), questions, prompt)
    for mine, other in zip(answers(judge, questions, prompt), expected, strict=True):
        assert mine.error == other.error
        assert mine.reply == other.reply
        if not mine.failed:
            assert (mine.p, mine.mass) == pytest.approx((other.p, other.mass), abs=1e-4)
    assert len(judge._chat.spellings(prompt).nodes) == 2


def test_a_long_context_is_cut_to_the_window(judge):
    prompt = Prompt("{context} {first} or {second}, A or B?")
    [judgement] = judge.judge([Question(1, 2, 0, "the cat", "the sea", "old house " * 400)], prompt)
    assert judgement.cut > 2000
    assert judgement.tokens_in <= 255


def test_its_settings_say_what_changes_an_answer(judge, path):
    assert judge.name == f"vllm/{path}"
    assert {"model": str(path), "dtype": "float32", "window": 256}.items() <= judge.settings.items()


def test_a_model_that_is_nowhere_is_named(tmp_path):
    with pytest.raises(JudgeError, match=r"vLLM .*nothing"):
        load_judge(f"vllm/{tmp_path}/nothing")
