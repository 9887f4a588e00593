"""The hf judge on tiny models with random weights, against a route of its own: one prompt, the model's own logits."""

import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedTokenizerFast

from comparo.judges import JudgeError, hf, load_judge
from comparo.judges.models import find_model
from comparo.prompts import Prompt, Question, criterion_prompt

PROMPT = criterion_prompt("more natural", kind="Response", context="Dialogue")
WORDS = "the cat sat on a mat and then it ran to see who was at the door of an old house by the sea".split()
CHAT = (
    "{{ bos_token }}{% for message in messages %}<|{{ message.role }}|>\n{{ message.content }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def make_tokenizer(*, end: bool = False, chat: str | None = CHAT) -> PreTrainedTokenizerFast:
    """Byte-level BPE trained on the spot; it begins every text with <s>, or ends it with </s> as T5's does."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<pad>", "<s>", "</s>", "<|user|>", "<|assistant|>"]
    lines = [PROMPT.template, *(" ".join(WORDS[start:]) for start in range(len(WORDS)))]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(lines * 3, trainer)
    single, token = ("$A </s>", ("</s>", 2)) if end else ("<s> $A", ("<s>", 1))
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=[token])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>", model_max_length=512
    )
    fast.chat_template = chat
    return fast


SMALL = {
    "vocab_size": 420,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
DECODERS = {
    "llama": lambda: transformers.LlamaConfig(**SMALL, tie_word_embeddings=False),
    "grouped": lambda: transformers.LlamaConfig(**SMALL, num_key_value_heads=2),
    "tied": lambda: transformers.Qwen2Config(**SMALL, num_key_value_heads=2, tie_word_embeddings=True),
    "window": lambda: transformers.MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=24),
    "capped": lambda: transformers.Gemma2Config(
        **SMALL, num_key_value_heads=2, head_dim=16, sliding_window=24, final_logit_softcapping=5.0
    ),
    "scaled": lambda: transformers.CohereConfig(**SMALL, logit_scale=2.0),
    "positions": lambda: transformers.GPT2Config(
        vocab_size=420, n_embd=64, n_layer=2, n_head=4, n_positions=512, initializer_range=0.3, bos_token_id=1
    ),
    "recurrent": lambda: transformers.MambaConfig(
        vocab_size=420, hidden_size=32, state_size=4, num_hidden_layers=2, initializer_range=0.3
    ),
}
ENCODERS = {"t5": None, "flan-t5": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the tiny model of that name lies; made once."""
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            torch.manual_seed(len(name))
            path = made[name] = tmp_path_factory.mktemp(name)
            if name in ENCODERS:
                config = transformers.T5Config(
                    vocab_size=420, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, initializer_factor=3.0,
                    decoder_start_token_id=0,
                    **({} if ENCODERS[name] is None else {"tie_word_embeddings": ENCODERS[name]}),
                )  # fmt: skip
                model = transformers.T5ForConditionalGeneration(config)
                make_tokenizer(end=True, chat=None).save_pretrained(path)
            else:
                model = AutoModelForCausalLM.from_config(DECODERS[name]())
                make_tokenizer().save_pretrained(path)
            model.save_pretrained(path)
        return made[name]

    return make


def some_questions(count: int = 12, contexts: int = 3) -> list[Question]:
    """Texts of very different lengths; the contexts take turns."""
    words = itertools.cycle(WORDS)

    def text(length: int) -> str:
        return " ".join(itertools.islice(words, length))

    shown = [text(9 + 13 * number) for number in range(contexts)]
    return [
        Question(number, -number, number % contexts, text(1 + number % 5 * 4), text(2 + number % 7), shown[number % contexts])
        for number in range(count)
    ]  # fmt: skip


def written(question: Question) -> str:
    return (
        f"Dialogue: {question.context_text}\n\nResponse A: {question.first_text}\n\nResponse B: {question.second_text}"
        "\n\nWhich Response is more natural, Response A or Response B?"
    )


def next_tokens(path: Path, questions: list[Question]) -> Iterator[dict[str, float]]:
    """The model's own probabilities of the next token, one prompt at a time, written by hand."""
    tokenizer = AutoTokenizer.from_pretrained(path)
    vocabulary = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    encoder = tokenizer.chat_template is None
    model = (AutoModelForSeq2SeqLM if encoder else AutoModelForCausalLM).from_pretrained(path)
    for question in questions:
        if encoder:
            start = [0, *tokenizer("Response", add_special_tokens=False)["input_ids"]]
            inputs = {"input_ids": tokenizer(written(question))["input_ids"], "decoder_input_ids": start}
        else:
            chat = f"<s><|user|>\n{written(question)}</s>\n<|assistant|>\nResponse"
            inputs = {"input_ids": tokenizer(chat, add_special_tokens=False)["input_ids"]}
        with torch.inference_mode():
            logits = model(**{name: torch.tensor([ids]) for name, ids in inputs.items()}).logits[0, -1]
        yield dict(zip(vocabulary, torch.softmax(logits.double(), dim=0).tolist(), strict=False))


def by_hand(path: Path, questions: list[Question]) -> np.ndarray:
    """A row of p and mass for each question."""
    rows = []
    for tokens in next_tokens(path, questions):
        first, second = (
            sum(tokens.get(word, 0.0) for word in (label, label.lower(), f"Ġ{label}", f"Ġ{label.lower()}"))
            for label in "AB"
        )
        rows.append((first / (first + second), first + second))
    return np.array(rows)


def asked(judge, questions, prompt=PROMPT) -> np.ndarray:
    """A row of p and mass for each question, in the order of the questions."""
    return np.array([(judgement.p, judgement.mass) for judgement in answers(judge, questions, prompt)])


def answers(judge, questions, prompt=PROMPT):
    found = {judgement.question.first: judgement for judgement in judge.judge(iter(questions), prompt)}
    return [found[question.first] for question in questions]


@pytest.mark.parametrize("name", [*DECODERS, *ENCODERS])
def test_batches_and_shared_prefixes_answer_as_the_model_does_one_at_a_time(name, folder):
    questions = some_questions()
    expected = by_hand(folder(name), questions)
    assert np.ptp(expected[:, 0]) > 0.1
    for options in ({"reuse": False}, {"reuse": True}, {"batch": 1, "reuse": False}, {"batch": 3, "reuse": True}):
        judge = load_judge(f"hf/{folder(name)}", device="cpu", **options)
        for part in (questions, questions[:5]):  # the second time, the prefixes are at hand
            got = asked(judge, part)
            np.testing.assert_allclose(got[:, 0], expected[: len(part), 0], atol=1e-4, err_msg=str(options))
            np.testing.assert_allclose(got[:, 1], expected[: len(part), 1], rtol=1e-3, err_msg=str(options))
