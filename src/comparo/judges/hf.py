"""hf/MODEL: a model of the Hugging Face Hub, of a local folder or of a GGUF file, run by transformers.

    p = P(A) / (P(A) + P(B)),   mass = P(A) + P(B)

with both probabilities from one softmax over the whole vocabulary at the last position. The output head runs in float32
whatever the body's type: bfloat16 logits move in steps of 0.06 to 0.125, as large as a small model's preference.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from comparo.judges.chat import Chat, Encoded, common_prefix
from comparo.judges.judgement import JudgeError, Judgement
from comparo.judges.network import Network
from comparo.prompts import Prompt, Question

if TYPE_CHECKING:
    pass

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_logger = logging.getLogger(__name__)


def load(
    model: str,
    *,
    dtype: str = "auto",
    device: str | None = None,
    device_map: str | dict[str, Any] | None = None,
    batch: int | None = None,
    reuse: Literal["auto"] | bool = "auto",
    window: int | None = None,
    revision: str | None = None,
) -> HfJudge:
    """The judge that asks a model through transformers; `model` is a name on the Hub, a folder or a .gguf file.

    `dtype` is the type of the model's body: "auto" is bfloat16 on a GPU and float32 elsewhere. `batch` is how many
    questions run at once, by default as many as make a fixed number of tokens. `reuse` says whether what the questions
    of a context begin with is computed once for all of them; "auto" does so where it saves time. `window` is how many
    tokens the model may read, by default as many as it can.

    >>> load("no/such/folder")
    Traceback (most recent call last):
    comparo.judges.judgement.JudgeError: there is no folder or file no/such/folder; hf/ takes a name on the Hub ...
    """
    torch, transformers = _libraries()
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    on_cpu = device.startswith("cpu")
    if dtype == "auto":
        dtype = "float32" if on_cpu else "bfloat16"
    if not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise ValueError(f"dtype = {dtype!r} is no type of number; use float32, bfloat16, float16 or auto")
    tokenizer, transformer = _open(transformers, model, revision, dtype=getattr(torch, dtype), device_map=device_map)
    if device_map is None:
        transformer.to(device)
    chat = Chat(
        tokenizer, _window(transformer.config, tokenizer, window), encoder=transformer.config.is_encoder_decoder
    )
    settings = {
        "model": Path(model).name if model.endswith(".gguf") else model,
        "dtype": dtype,
        "window": chat.window,
        "revision": getattr(transformer.config, "_commit_hash", None) or revision,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    network = Network(transformer)
    # A GPU starts a pass in 25 ms, in which it does 1e13 operations, or 1e12 in float32, two a parameter and token.
    pass_tokens = (1e9 if on_cpu else 6e11 if dtype == "float32" else 5e12) / network.parameters
    batches = _Batches(batch, 2_048 if on_cpu else 32_768, pass_tokens, reuse if network.reusable else False)
    return HfJudge(f"hf/{model}", settings, 4 * batch if batch else 32 if on_cpu else 256, chat, network, batches)


@dataclass(frozen=True)
class HfJudge:
    """A judge that runs a model by transformers; made by `load`."""

    name: str
    settings: Mapping[str, Any]
    ahead: int
    _chat: Chat = field(repr=False)
    _network: Network = field(repr=False)
    _batches: _Batches = field(repr=False)

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        """An answer to every question, `ahead` of them at a time."""
        labels, answer = self._chat.label_ids(prompt), self._chat.answer(prompt)
        stream = iter(questions)
        while pulled := list(islice(stream, self.ahead)):
            rows = []
            for encoded in self._chat.encode(pulled, prompt):
                if isinstance(encoded, Judgement):
                    yield encoded
                else:
                    rows.append(encoded)
            for shared, batch in self._plan(rows, prompt):
                yield from self._answer(shared, batch, answer, labels)

    def _plan(self, rows: list[Encoded], prompt: Prompt) -> Iterator[tuple[int, list[Encoded]]]:
        """Batches, each with the number of tokens that its rows begin with and that are computed once for all."""
        contexts: defaultdict[str | None, list[Encoded]] = defaultdict(list)
        for row in rows:
            contexts[row.question.context_text if prompt.has_context else None].append(row)
        single = []
        for group in contexts.values():
            shared = self._shared(group, prompt) if self._batches.reuse else 0
            if shared and self._batches.pays(len(group), shared, self._network.keeps(group[0].ids[:shared])):
                for batch in self._batches.of(group):
                    yield shared, batch
            else:
                single += group
        for batch in self._batches.of(single):
            yield 0, batch

    def _shared(self, group: Sequence[Encoded], prompt: Prompt) -> int:
        # The same question without its texts ends what is shared where the texts begin, so that later questions about
        # this context find the same prefix, whatever these ones have in common besides.
        bare = self._chat.encode([replace(group[0].question, first_text="", second_text="")], prompt)
        sequences = [row.ids for row in [*group, *bare] if isinstance(row, Encoded)]
        return min(common_prefix(sequences), min(len(row.ids) for row in group) - 1)

    def _answer(
        self, shared: int, batch: list[Encoded], answer: list[int], labels: tuple[list[int], list[int]]
    ) -> Iterator[Judgement]:
        started = time.perf_counter()
        found = self._network.probabilities(shared, [row.ids for row in batch], answer, labels)
        if found is None:
            size, longest = len(batch), len(batch[0].ids)
            if size == 1:
                raise JudgeError(
                    f"{self.name}: the device's memory does not hold one question of {longest} tokens; "
                    "use a smaller window, dtype='bfloat16' or device_map='auto'"
                )
            _logger.warning("%s: out of memory at %d questions at once; going on with half of that", self.name, size)
            self._batches.halve(size, longest)
            for half in (batch[: size // 2], batch[size // 2 :]):
                yield from self._answer(shared, half, answer, labels)
            return
        seconds = (time.perf_counter() - started) / len(batch)
        for row, (p, mass, likeliest) in zip(batch, found, strict=True):
            yield Judgement(
                row.question,
                p=p,
                mass=mass,
                reply=self._chat.tokenizer.decode([likeliest]),
                tokens_in=len(row.ids) + (len(answer) if self._network.encodes else 0),
                tokens_out=1,
                seconds=seconds,
                cut=row.cut,
                error=None if math.isfinite(p) else "the model's logits are not numbers; use dtype='float32'",
            )


@dataclass
class _Batches:
    """How many questions run at once: `size`, or as many as make `tokens` tokens.

    `pass_tokens` is what one more pass through the model costs, in tokens that it could have read meanwhile.
    """

    size: int | None
    tokens: int
    pass_tokens: float
    reuse: Literal["auto"] | bool

    def of(self, rows: Iterable[Encoded]) -> Iterator[list[Encoded]]:
        """The rows in batches of similar length, the longest first."""
        batch: list[Encoded] = []
        for row in sorted(rows, key=lambda row: len(row.ids), reverse=True):
            if batch and len(batch) >= (self.size or self.tokens // len(batch[0].ids)):
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def pays(self, questions: int, shared: int, kept: bool) -> bool:
        """Whether to compute the shared tokens once: it takes a pass for them, unless kept, and one for the rest."""
        passes = 1 if kept else 2
        return self.reuse is True or shared * (questions + 1 - passes) > passes * self.pass_tokens

    def halve(self, size: int, longest: int) -> None:
        """From now on, half of a batch that the device's memory did not hold."""
        self.size, self.tokens = self.size and size // 2, size * longest // 2


def _libraries() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as problem:
        raise ImportError(f"hf/ judges need {problem.name}: pip install 'comparo[hf]'") from problem
    return torch, transformers


def _open(transformers: Any, model: str, revision: str | None, **options: Any) -> tuple[Any, Any]:
    """The tokenizer and the model, from a folder, a GGUF file or the Hub."""
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
    try:
        config = transformers.AutoConfig.from_pretrained(source, **place)
        kind = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, **place)
        return tokenizer, kind.from_pretrained(source, config=config, **place, **options)
    except (OSError, ValueError) as problem:  # transformers raises either for what it does not find or know
        reason = str(problem).strip().partition("\n")[0]
        remedy = (
            "check that the folder holds config.json, the tokenizer and the weights"
            if known
            else "check its name and the network, and for a gated model set HF_TOKEN"
        )
        raise JudgeError(f"the model {model} could not be loaded: {reason} ({remedy})") from problem


def _window(config: Any, tokenizer: Any, asked: int | None) -> int | None:
    """How many tokens the model reads at most.

    Positions that the model was not made for end it; what the tokenizer or a T5 recommends can be asked away.
    """
    limit: int | None = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    if limits := [length for length in (asked, limit) if length]:
        return min(limits)
    if tokenizer.model_max_length < 1_000_000:
        return int(tokenizer.model_max_length)
    return getattr(config, "n_positions", 512) if config.is_encoder_decoder else None
