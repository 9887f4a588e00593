"""How fast the transformers judge is on a GPU: `python -m benchmarks.gpu_judge`.

With real weights, `python -m benchmarks.gpu_judge hf/FOLDER summeval.jsonl relevance`, texts are ranked by pairs and by
line-ups: calls, tokens, seconds, and Spearman × 100 with people.

Models with random weights in two shapes, built here from their configurations, and prompts in the shape of SummEval's:
a context of 500 tokens, candidates of 80, a question of 30, all 240 ordered pairs of 16 candidates. Nothing is
downloaded. Every way of asking goes through the judge, so that writing and tokenizing the prompts is counted.
"""

from __future__ import annotations

import copy
import gc
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from comparo import Items, load_judge, rank
from comparo.analysis.correlations import spearman_within
from comparo.data.prompts import Question, Rest, criterion_prompt
from comparo.judges import hf
from comparo.judges.chat import Chat, Encoded
from comparo.judges.hf import HfJudge
from comparo.log.store import read_judgements

CANDIDATES, CONTEXT, CANDIDATE = 16, 492, 75  # the prompt's own words are the rest of the 500, 80 and 30 tokens
CRITERION = "more coherent and relevant to the article and easier to follow for a reader from its beginning to its end"
PROMPT = criterion_prompt(CRITERION, kind="Summary", context="Article")
COMPARED = 40  # questions whose p is compared with that of the model in float32
WAYS: dict[str, dict[str, Any]] = {
    "judge, one at a time": {"batch": 1, "reuse": False},
    "judge, plain batches": {"reuse": False},
    "judge, contexts kept": {"reuse": True},
    "judge, as it picks": {"reuse": "auto"},
}


@dataclass(frozen=True)
class Timed:
    """Comparisons a second, and p of each question by its names."""

    rate: float
    p: dict[Any, float]


def words() -> list[str]:
    """Words that the tokenizer knows as one token each, with the space before them."""
    draw = random.Random(0)
    syllables = [consonant + vowel for consonant in "bcdfgklmnprstv" for vowel in "aeiou"]
    return sorted({"".join(draw.choices(syllables, k=draw.randint(2, 4))) for _ in range(3000)})


def make_tokenizer() -> Any:
    """Byte-level BPE, trained on the spot."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=16_000,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" " + " ".join(words()), PROMPT.template] * 3, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>", model_max_length=4096
    )


def questions(count: int, *, shared: bool) -> Iterator[Question]:
    """All ordered pairs of one context after another, or every pair with a context and texts of its own."""
    draw, known = random.Random(1), words()

    def text(length: int) -> str:
        return " ".join(draw.choices(known, k=length))

    for number in range(count):
        if not shared:
            yield Question(number, -number, number, text(CANDIDATE), text(CANDIDATE), text(CONTEXT))
            continue
        pair = number % (CANDIDATES * (CANDIDATES - 1))
        if not pair:
            context, texts = text(CONTEXT), [text(CANDIDATE) for _ in range(CANDIDATES)]
            pairs = [*permutations(range(CANDIDATES), 2)]
        first, second = pairs[pair]
        yield Question(number, -number, number // len(pairs), texts[first], texts[second], context)


def configurations() -> dict[str, Any]:
    """The shapes: launches dominate in the small one, arithmetic in the large one."""
    from transformers import LlamaConfig, Qwen2Config

    return {
        "7B, Llama-shaped": LlamaConfig(
            hidden_size=4096,
            num_hidden_layers=32,
            num_attention_heads=32,
            intermediate_size=11008,
            vocab_size=32000,
            max_position_embeddings=4096,
        ),
        "0.5B, Qwen2-shaped": Qwen2Config(
            hidden_size=896,
            num_hidden_layers=24,
            num_attention_heads=14,
            num_key_value_heads=2,
            intermediate_size=4864,
            vocab_size=151936,
            max_position_embeddings=4096,
            tie_word_embeddings=True,
        ),
    }


def build(configuration: Any, dtype: Any, device: str = "cuda") -> Any:
    """The model with random weights, made on the device."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    with torch.device(device):
        return AutoModelForCausalLM.from_config(configuration, dtype=dtype)


def copied(transformer: Any) -> Any:
    """The model again, after the copies of earlier judges are freed, whose hooks refer back to them."""
    gc.collect()
    return copy.deepcopy(transformer)


def by_hand(transformer: Any, tokenizer: Any, asked: list[Question]) -> Timed:
    """Plain transformers, one prompt at a time, the output head in the type of the body."""
    import torch

    chat = Chat(tokenizer, 4096)
    ends = chat.spellings(PROMPT).ends  # A and B are one token each
    first, second = ([path[0] for path, label in ends.items() if label == number] for number in (0, 1))
    answers = {}
    for warm in (True, False):
        begin = time.perf_counter()
        for question in asked[:3] if warm else asked:
            [row] = chat.encode([question], PROMPT)
            assert isinstance(row, Encoded)
            with torch.inference_mode():
                ids = torch.tensor([row.ids], device=transformer.device)
                logits = transformer(ids, use_cache=False, logits_to_keep=1).logits[0, -1].double()
            answers[question.first] = torch.sigmoid(logits[first].logsumexp(0) - logits[second].logsumexp(0)).item()
        seconds = time.perf_counter() - begin
    return Timed(len(asked) / seconds, answers)


def timed(judge: HfJudge, asked: list[Question]) -> Timed:
    """One run over the questions, after a short one that loads what is loaded once."""
    for _ in judge.judge(asked[: judge.ahead], PROMPT):
        pass
    begin = time.perf_counter()
    answers = list(judge.judge(iter(asked), PROMPT))
    seconds = time.perf_counter() - begin
    assert len(answers) == len(asked)
    assert not any(answer.failed for answer in answers)
    return Timed(len(asked) / seconds, {answer.question.first: answer.p for answer in answers})


def table(transformer: Any, tokenizer: Any, *, count: int, shared: bool) -> None:
    """A line for each way: comparisons a second, that over one at a time, and how far p is from float32's."""
    asked = [*questions(count, shared=shared)]
    precise = copied(transformer).float()
    exact = by_hand(precise, tokenizer, asked[:COMPARED]).p
    alone = by_hand(transformer, tokenizer, asked[: count // 16])
    results = {"transformers, one at a time": alone}
    for way, options in WAYS.items():
        if options["reuse"] is True and not shared:
            continue
        judge = hf.judge_with(copied(transformer), tokenizer, "random", **options)
        results[way] = timed(judge, asked[: count // 16] if options.get("batch") == 1 else asked)
    for way, result in results.items():
        print(f"  {way:28}{result.rate:8.1f} a second{result.rate / alone.rate:7.2f} x   {apart(result.p, exact)}")
    judge = hf.judge_with(precise, tokenizer, "random")
    print(
        f"  p from {min(exact.values()):.3f} to {max(exact.values()):.3f}; the judge, as it picks, in float32:", end=""
    )
    print(f"{'':13}{apart(timed(judge, asked[:COMPARED]).p, exact)}")


def lineups(transformer: Any, tokenizer: Any, contexts: int = 8) -> None:
    """A line for each number of texts: calls, tokens and observations of differences a second, in one wave of n calls.

    A call about k texts gives k − 1 observations (docs/lineups.md).
    """
    draw, known = random.Random(2), words()
    texts = [[" ".join(draw.choices(known, k=CANDIDATE)) for _ in range(CANDIDATES)] for _ in range(contexts)]
    shared = [" ".join(draw.choices(known, k=CONTEXT)) for _ in range(contexts)]
    for size in (2, 3, 4, 6):
        prompt, asked = PROMPT.resized(size), []
        for context in range(contexts):
            for number in range(4 * CANDIDATES):
                shown = draw.sample(range(CANDIDATES), size)
                second = shown[1] if size == 2 else Rest(shown[1:])
                question = Question(shown[0], second, (context, number // CANDIDATES), context_text=shared[context])
                asked.append(question.with_texts([texts[context][place] for place in shown]))
        judge = hf.judge_with(copied(transformer), tokenizer, "random")
        for _ in judge.judge(asked[: judge.ahead], prompt):
            pass
        begin = time.perf_counter()
        answers = list(judge.judge(iter(asked), prompt))
        seconds = time.perf_counter() - begin
        assert not any(answer.failed for answer in answers)
        tokens = sum(answer.tokens_in for answer in answers)
        calls, seen = len(asked) / seconds, (size - 1) * len(asked)
        print(
            f"  {size} texts {calls:8.1f} calls a second, {tokens / len(asked):6.0f} tokens a call, "
            f"{seen / seconds:8.1f} observations a second, {1000 * seen / tokens:.2f} per 1000 tokens"
        )


def apart(p: dict[Any, float], exact: dict[Any, float]) -> str:
    differences = [abs(p[name] - value) for name, value in exact.items()]
    return f"|p - p in float32|: mean {sum(differences) / len(exact):.1e}, largest {max(differences):.1e}"


def rank_by_both(name: str, file: str, attribute: str) -> None:
    """Print what pairs and line-ups of a real model take, and how far they agree with people."""
    items = Items.of(file, scores=attribute)
    people, judge = items.scores[attribute], load_judge(name)
    contexts = len(items.contexts)
    print("| one call is about | calls | tokens read | seconds | Spearman × 100 with people |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for size, budget in ((2, "2n"), (2, "4n"), (2, "100%"), (4, "1n"), (4, "2n"), (6, "1n"), (6, "2n")):
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            how: dict[str, Any] = {"kind": "Summary", "least_mass": 0.0, "estimate": "judge", "plain": size == 2}
            found = rank(items, f"better in {attribute}", judge=judge, budget=budget, lineup=size, out=folder, **how)
            seconds = time.monotonic() - begin
            tokens = sum(one.tokens_in for one in read_judgements(Path(folder)))
            calls = len(read_judgements(Path(folder)))
        row = dict(zip(found.graph.labels(found.comparisons), found.scores, strict=True))
        scores = np.array([row[label] for label in items.labels])
        rho = 100 * float(np.nanmean(spearman_within(scores, people, items.context, contexts)))
        print(f"| {size} | {calls:,} ({budget}) | {tokens:,} | {seconds:.1f} | {rho:.1f} |", flush=True)


def main() -> None:
    if len(sys.argv) > 3:
        rank_by_both(*sys.argv[1:4])
        return
    if find_spec("torch") is None or find_spec("transformers") is None:
        print("This benchmark needs torch and transformers: pip install '.[hf]' in the checkout of comparo")
        return
    import torch
    import transformers

    if not torch.cuda.is_available():
        print("This benchmark needs a GPU that torch can use; docs/measurements/speed.md has its figures.")
        return
    transformers.logging.set_verbosity_error()
    tokenizer = make_tokenizer()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, transformers {transformers.__version__}")
    for name, configuration in configurations().items():
        transformer = build(configuration, torch.bfloat16)
        for shared, kind in ((True, "all 240 pairs of a context"), (False, "each pair with its own context")):
            print(f"\n{name}, {kind}")
            table(transformer, tokenizer, count=1920, shared=shared)
        print(f"\n{name}, line-ups of 16 texts in each of 8 contexts")
        lineups(transformer, tokenizer)
        del transformer
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
