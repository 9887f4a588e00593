"""hf/MODEL: a model of the Hugging Face Hub, of a local folder or of a GGUF file, run by transformers.

    p = P(A) / (P(A) + P(B)),   mass = P(A) + P(B)

The probabilities, also those of all labels of a line-up, are from the softmax over the whole vocabulary at the last
position and, if a label has several tokens, at each of them. The output head runs in float32 for every dtype of the
body: bfloat16 logits change in steps of 0.06 to 0.125, as large as a small model's preference.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from comparo.data.criteria_prompt import CriteriaPrompt
from comparo.data.prompts import Prompt, Question
from comparo.errors import JudgeError, Message, pip_install
from comparo.judges.chat import Chat, Encoded, digest_of, first_line, gathered, pulls
from comparo.judges.hf.network import Network, PromptBatch, PromptBatcher, split
from comparo.judges.hf.tree import DEEPEST
from comparo.judges.labels import Spellings, TokenPath, common_prefix, likeliest_path
from comparo.judges.protocol import Judgement

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_logger = logging.getLogger(__name__)

# A batch, its result of `Network.log_probabilities` or an error, and its start time or, once done, its seconds.
_Batch = tuple[PromptBatch, Any, float]


def load(
    model: str,
    *,
    dtype: str = "auto",
    device: str | None = None,
    device_map: str | dict[str, Any] | None = None,
    batch: int | None = None,
    reuse: Literal["auto", "tree"] | bool = "auto",
    window: int | None = None,
    revision: str | None = None,
) -> HfJudge:
    """A judge that runs a model by transformers.

    Parameters
    ----------
    model
        A name on the Hub, a folder or a .gguf file.
    dtype
        The type of the model's body: "auto" is bfloat16 on a GPU and float32 elsewhere.
    device, device_map
        Where the model runs, such as "cuda:1"; `device_map="auto"` spreads it over several GPUs.
    batch, reuse, window
        As in `judge_with`.
    revision
        The revision on the Hub.

    Raises
    ------
    JudgeError
        The model cannot be found or loaded.

    Examples
    --------
    >>> load("no/such/folder")
    Traceback (most recent call last):
    comparo.errors.JudgeError: there is no folder or file no/such/folder; hf/ takes a name on the Hub ...
    """
    torch, transformers = _libraries()
    if device is None:
        device = "cpu"
        if torch.cuda.is_available():
            device = "cuda"
        elif torch.backends.mps.is_available():
            device = "mps"
    if dtype == "auto":
        dtype = "float32" if device.startswith("cpu") else "bfloat16"
    if not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise ValueError(f"dtype = {dtype!r} is no type of number; use float32, bfloat16, float16 or auto")
    if reuse not in ("auto", "tree", True, False):
        raise ValueError(f"reuse = {reuse!r} is not known; use auto, tree, true or false")
    tokenizer, transformer = _open(transformers, model, revision, dtype=getattr(torch, dtype), device_map=device_map)
    if device_map is None:
        transformer.to(device)
    judge = judge_with(transformer, tokenizer, model, batch=batch, reuse=reuse, window=window)
    found = getattr(transformer.config, "_commit_hash", None) or revision
    settings = {**judge.settings, "dtype": dtype, "revision": found}
    return replace(judge, settings=settings, weights=digest_of(model), cacheable=True)


def judge_with(
    transformer: Any,
    tokenizer: Any,
    name: str,
    *,
    batch: int | None = None,
    reuse: Literal["auto", "tree"] | bool = "auto",
    window: int | None = None,
) -> HfJudge:
    """A judge that runs a loaded transformers model with its tokenizer.

    The model's output head is changed to float32 and, on a GPU, each of its RMS norms to one kernel.

    Parameters
    ----------
    batch
        How many questions run at once; by default as many as fit in a fixed number of tokens.
    reuse
        Whether a common prefix of questions is computed once. "tree": all questions form one sequence, if the model's
        attention allows it. True: the prefix that the questions of a context share is computed and cached. "auto":
        "tree" on a GPU and True elsewhere, if that saves time.
    window
        How many tokens the model may read; by default as many as it can.

        judge = judge_with(model, tokenizer, "my-model", reuse="tree")
    """
    torch, transformers = _libraries()
    chat = Chat(
        tokenizer, _window(transformer.config, tokenizer, window), encoder=transformer.config.is_encoder_decoder
    )
    dtype = str(transformer.dtype).removeprefix("torch.")
    settings = {
        "model": Path(name).name if name.endswith(".gguf") else name,
        "dtype": dtype,
        "window": chat.window,
        "revision": None,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    network = Network(transformer)
    on_cpu, on_gpu = transformer.device.type == "cpu", transformer.device.type == "cuda"
    # Launching a pass takes 25 ms on a GPU, in which it does 1e13 operations, 1e12 in float32. A token takes two per
    # parameter. 32,768 tokens are enough for all 240 pairs of a context in SummEval's shape, 28,180 tokens as a tree.
    pass_tokens = (1e9 if on_cpu else 6e11 if dtype == "float32" else 5e12) / network.parameters
    batches = PromptBatcher(batch, 2_048 if on_cpu else 32_768, pass_tokens)
    trees = (reuse == "tree" or (reuse == "auto" and on_gpu)) and network.reads_trees()
    ahead = 4 * batch if batch else 32 if on_cpu else 256
    return HfJudge(f"hf/{name}", settings, ahead, chat, network, batches, reuse if network.reusable else False, trees)


@dataclass(frozen=True)
class HfJudge:
    """A judge that runs a model by transformers; made by `load` or `judge_with`."""

    name: str
    settings: Mapping[str, Any]
    ahead: int
    _chat: Chat = field(repr=False)
    _network: Network = field(repr=False)
    _batches: PromptBatcher = field(repr=False)
    _reuse: Literal["auto", "tree"] | bool = field(repr=False)
    _trees: bool = field(repr=False)
    weights: str | None = None
    cacheable: bool = False  # a model that was loaded elsewhere may have been changed in memory

    several = lines_up = True

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        """Yield an answer to every question; takes `ahead` questions at a time.

        While a GPU computes a batch, the next batch is prepared, if necessary from further questions. Each of several
        criteria is scored separately and reuses the cached texts.
        """
        yield from gathered(self._answers(questions, prompt), prompt)

    def _answers(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        labels = self._chat.spellings(prompt)
        running: list[_Batch] = []
        for rows, failed in pulls(self._chat, questions, prompt, self.ahead):
            yield from failed
            for batch in self._plan(rows, prompt):
                done = _waited(running)  # before the next batch starts: reading the results would wait for it too
                running = [*self._start(batch, labels)]
                if not self._network.overlaps:
                    done, running = _waited(running), []
                yield from self._judgements(done, labels, prompt)
        yield from self._judgements(_waited(running), labels, prompt)

    def _plan(self, rows: list[Encoded], prompt: Prompt) -> Iterator[PromptBatch]:
        is_several = isinstance(prompt, CriteriaPrompt)
        if self._trees:
            yield from self._batches.trees(rows, always=self._reuse == "tree", deepest=DEEPEST + is_several)
            return
        contexts: defaultdict[str | None, list[Encoded]] = defaultdict(list)
        for row in rows:
            contexts[row.question.context_text if prompt.has_context else None].append(row)
        single: list[Encoded] = []
        for group in contexts.values():
            shared = self._shared(group, prompt) if self._reuse else 0
            kept = self._network.keeps(group[0].ids[:shared])
            pays = shared and (self._reuse is True or self._batches.pays(len(group), shared, kept))
            if is_several and self._reuse:
                yield from self._calls(group, shared if pays else 0, single)
            elif pays:
                yield from self._batches.of(group, shared)
            else:
                single += group
        yield from self._batches.of(single)

    def _calls(self, group: Sequence[Encoded], outer: int, single: list[Encoded]) -> Iterator[PromptBatch]:
        """Yield a batch per call of a context, whose criteria share the texts; add rows to `single` if that is dearer.

        All calls of the context share the first `outer` tokens.
        """
        pairs: defaultdict[Any, list[Encoded]] = defaultdict(list)
        for row in group:
            pairs[row.question.context, row.question.first, row.question.second].append(row)
        for call in pairs.values():
            texts = min(common_prefix([row.ids for row in call]), min(len(row.ids) for row in call) - 1)
            if texts > outer and (self._reuse is True or self._batches.pays(len(call), texts - outer, kept=False)):
                yield from (replace(batch, outer=outer) for batch in self._batches.of(call, texts))
            elif outer:
                yield from self._batches.of(call, outer)
            else:
                single += call

    def _shared(self, group: Sequence[Encoded], prompt: Prompt) -> int:
        # The question without its texts ends the shared prefix before the texts. So later questions of this context
        # have the same prefix, even if these questions have a longer one in common.
        bare = self._chat.encode([group[0].question.with_texts([""] * len(group[0].question.texts))], prompt)
        sequences = [row.ids for row in [*group, *bare] if isinstance(row, Encoded)]
        return min(common_prefix(sequences), min(len(row.ids) for row in group) - 1)

    def _start(self, batch: PromptBatch, labels: Spellings) -> Iterator[_Batch]:
        """Start the batch or, if the device's memory is too small, its halves one after the other.

        If the model fails, the batch is halved too: only the question at fault gets the error.
        """
        started, size = time.perf_counter(), len(batch.rows)
        try:
            found = self._network.log_probabilities(batch, labels)
        except (LookupError, RuntimeError, ValueError) as problem:
            if size == 1:
                yield batch, f"the model failed: {first_line(problem)}", started
            else:
                for half in split(batch):
                    yield from self._start(half, labels)
            return
        if found is not None:
            yield batch, found, started
            return
        longest = max(len(row.ids) for row in batch.rows)
        if size == 1:
            remedy = Message("use a smaller window, {option.dtype:'bfloat16'} or {option.device_map:'auto'}")
            why = f"{self.name}: the device's memory does not hold one question of {longest} tokens; "
            raise JudgeError(why + remedy)
        _logger.warning("%s: out of memory at %d questions at once; going on with half of that", self.name, size)
        for half in self._batches.halve(batch):
            yield from self._start(half, labels)

    def _judgements(self, done: list[_Batch], labels: Spellings, prompt: Prompt) -> Iterator[Judgement]:
        for batch, found, seconds in done:
            if isinstance(found, str):
                yield from (Judgement(row.question, error=found, cut=row.cut, seconds=seconds) for row in batch.rows)
                continue
            for row, numbers in zip(batch.rows, found, strict=True):
                if any(map(math.isnan, numbers)):
                    error = Message("the model's logits are not numbers; use {option.dtype:'float32'}")
                    answer = Judgement(row.question, error=error, cut=row.cut)
                else:
                    read: defaultdict[TokenPath, list[tuple[Any, float]]] = defaultdict(list)
                    for (node, tokens), logprob in zip(labels.wanted, numbers, strict=False):
                        read[labels.nodes[node]].append((tokens[0], logprob))  # one token represents all of the group
                    likeliest = map(int, numbers[len(labels.wanted) :])
                    reply = likeliest_path(dict(zip(labels.nodes, likeliest, strict=True)))
                    answer = self._chat.read(read, row, prompt, reply)
                yield replace(answer, seconds=seconds / len(batch.rows))


def _waited(running: list[_Batch]) -> list[_Batch]:
    """Wait for the device; return each batch with its results as lists and its seconds."""
    done = []
    for batch, found, started in running:
        rows = found if isinstance(found, str) else found.tolist()
        done.append((batch, rows, time.perf_counter() - started))
    return done


def _libraries() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as problem:
        raise ImportError(f"hf/ judges need {problem.name}: {pip_install('hf')}") from problem
    return torch, transformers


def _open(transformers: Any, model: str, revision: str | None, **options: Any) -> tuple[Any, Any]:
    source, place = model, {"revision": revision} if revision else {}
    if model.endswith(".gguf"):
        path = Path(model).expanduser()
        source, place["gguf_file"] = str(path.parent), path.name
    elif Path(model).expanduser().is_dir():
        source = str(Path(model).expanduser())
    known = (Path(source) / place.get("gguf_file", "")).exists()
    if not known and not _HUB_NAME.fullmatch(source):
        raise JudgeError(
            f"there is no folder or file {model}; hf/ takes a name on the Hub (owner/model), a folder or a .gguf file"
        )
    auto = transformers.AutoModelForCausalLM, transformers.AutoModelForSeq2SeqLM
    try:
        with _no_progress_bars():
            config = transformers.AutoConfig.from_pretrained(source, **place)
            tokenizer = transformers.AutoTokenizer.from_pretrained(source, **place)
            kind = auto[bool(config.is_encoder_decoder)]
            return tokenizer, kind.from_pretrained(source, config=config, **place, **options)
    except ImportError:
        raise
    except Exception as problem:  # transformers and the readers of weights have no common base class of errors
        remedy = "check its name and the network, and for a gated model set HF_TOKEN"
        if known:
            remedy = "check that the folder holds config.json, the tokenizer and the weights, or download them again"
        if model.endswith(".gguf"):
            remedy = "the file is cut, damaged or no GGUF file: download it again"
        raise JudgeError(f"the model {model} could not be loaded: {first_line(problem)} ({remedy})") from problem


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Disable all tqdm bars in a `with` block: transformers' own switch does not cover the bar for GGUF files."""
    bar = import_module("tqdm").tqdm
    init = bar.__init__

    def disabled(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options | {"disable": True})

    bar.__init__ = disabled
    try:
        yield
    finally:
        bar.__init__ = init


def _window(config: Any, tokenizer: Any, asked: int | None) -> int | None:
    """The most tokens that the model reads; None: no limit.

    It is the smaller of `asked` and the model's number of positions. If both are None, it is the length that the
    tokenizer or T5 recommends.
    """
    limit: int | None = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    if limits := [length for length in (asked, limit) if length]:
        return min(limits)
    if tokenizer.model_max_length < 1_000_000:  # transformers writes 1e30 where there is no limit
        return int(tokenizer.model_max_length)
    return getattr(config, "n_positions", 512) if config.is_encoder_decoder else None
