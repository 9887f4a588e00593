"""hf/MODEL: a model of the Hugging Face Hub, of a local folder or of a GGUF file, run by transformers.

    p = P(A) / (P(A) + P(B)),   mass = P(A) + P(B)

with both probabilities from one softmax over the whole vocabulary at the last position. The output head runs in float32
whatever the body's type: bfloat16 logits move in steps of 0.06 to 0.125, as large as a small model's preference.

Rows are padded on the right. In a causal model nothing later touches what came before, so the padding needs no mask and
no shifted positions; only the head must be told where each row ends. The same holds after a shared prefix.
"""

from __future__ import annotations

import inspect
import logging
import math
import re
import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from comparo.judges.chat import Chat, Encoded, common_prefix
from comparo.judges.judgement import JudgeError, Judgement
from comparo.prompts import Prompt, Question

if TYPE_CHECKING:
    import torch

KEPT_PREFIXES = 8
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
    network = _Network(transformer)
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
    _network: _Network = field(repr=False)
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


class _Network:
    """The model itself: from rows of tokens to the probabilities of the labels."""

    def __init__(self, model: Any) -> None:
        self._model = model.eval()
        self.parameters: int = model.num_parameters()
        self.encodes = bool(model.config.is_encoder_decoder)
        self.reusable = _reusable(model)
        self._ends: torch.Tensor
        self._prefixes: OrderedDict[tuple[int, ...], Any] = OrderedDict()
        self._sharpen_head()

    def _sharpen_head(self) -> None:
        import torch

        head = self._model.get_output_embeddings()
        if head.weight.is_meta:
            raise JudgeError("the devices have no room for the model's output head; use a smaller model or dtype")
        # A parameter of its own: where the head is tied to the embedding, the embedding keeps the body's type.
        head.weight = torch.nn.Parameter(head.weight.detach().float(), requires_grad=False)
        if getattr(head, "bias", None) is not None:
            head.bias = torch.nn.Parameter(head.bias.detach().float(), requires_grad=False)
        head.register_forward_pre_hook(self._last_positions)

    def _last_positions(self, head: object, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Lets the head see the last position of each row alone, in float32; the model scales and caps as ever."""
        import torch

        hidden = arguments[0]
        rows = torch.arange(len(hidden), device=hidden.device)
        return (hidden[rows, self._ends.to(hidden.device)].unsqueeze(1).float(),)

    def keeps(self, prefix: list[int]) -> bool:
        """Whether the prefix has been computed before."""
        return tuple(prefix) in self._prefixes

    def probabilities(
        self, shared: int, rows: list[list[int]], answer: list[int], labels: tuple[list[int], list[int]]
    ) -> list[tuple[float, float, int]] | None:
        """p, mass and the likeliest token for each row; None where the device's memory does not hold them."""
        import torch

        try:
            with torch.inference_mode():
                logits = self._logits(shared, rows, answer).float()
                logs = torch.log_softmax(logits, dim=-1).double()
                first, second = (torch.logsumexp(logs[:, ids], dim=-1) for ids in labels)
                masses = (first.exp() + second.exp()).clamp(max=1.0)
                p, mass = torch.sigmoid(first - second).tolist(), masses.tolist()
                return list(zip(p, mass, logits.argmax(dim=-1).tolist(), strict=True))
        except torch.OutOfMemoryError:
            self._prefixes.clear()
            return None

    def _logits(self, shared: int, rows: list[list[int]], answer: list[int]) -> torch.Tensor:
        import torch

        ends = [len(row) - shared - 1 for row in rows]
        options: dict[str, Any] = {"use_cache": False}
        if self.encodes:
            start = [self._model.generation_config.decoder_start_token_id, *answer]
            options["decoder_input_ids"] = self._tensor([start] * len(rows))
            options["attention_mask"] = self._tensor([[1] * (end + 1) + [0] * (max(ends) - end) for end in ends])
            self._ends = torch.tensor([len(answer)] * len(rows))
        elif shared:
            options = {"use_cache": True, "past_key_values": self._prefix(rows[0][:shared])}
        padded = [row[shared:] + [0] * (max(ends) - end) for row, end in zip(rows, ends, strict=True)]
        if not self.encodes:
            self._ends = torch.tensor(ends)
        logits: torch.Tensor = self._model(input_ids=self._tensor(padded), **options).logits
        return logits[:, -1]

    def _prefix(self, ids: list[int]) -> Any:
        """What every layer remembers of the prefix; the last few prefixes are kept."""
        import torch

        key = tuple(ids)
        if key not in self._prefixes:
            cache = _shared_cache()
            self._ends = torch.tensor([len(ids) - 1])
            self._model(input_ids=self._tensor([ids]), past_key_values=cache, use_cache=True)
            cache.complete = True
            self._prefixes[key] = cache
            if len(self._prefixes) > KEPT_PREFIXES:
                self._prefixes.popitem(last=False)
        self._prefixes.move_to_end(key)
        return self._prefixes[key]

    def _tensor(self, rows: list[list[int]]) -> torch.Tensor:
        import torch

        return torch.tensor(rows, device=self._model.device)


def _shared_cache() -> Any:
    """A cache that, once complete, lends its one row of keys and values to any number of rows and keeps none of theirs.

    An ordinary cache would hold the prefix as often as there are rows, in every layer at once. Without the model's
    configuration, every layer keeps all keys, also one that looks back over a window only.
    """
    import torch
    from transformers import DynamicCache

    class SharedCache(DynamicCache):
        complete = False

        def update(self, key_states: Any, value_states: Any, layer_idx: int, *args: Any, **kwargs: Any) -> Any:
            if not self.complete:
                return super().update(key_states, value_states, layer_idx, *args, **kwargs)
            layer: Any = self.layers[layer_idx]
            return tuple(
                torch.cat([kept.expand(len(new), -1, -1, -1), new], dim=-2)
                for kept, new in ((layer.keys, key_states), (layer.values, value_states))
            )

    return SharedCache()


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


def _reusable(model: Any) -> bool:
    """Whether all that the model remembers of a prefix are keys and values that can be shared by a batch."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    if model.config.is_encoder_decoder or getattr(model, "_is_stateful", False):
        return False
    if "past_key_values" not in inspect.signature(model.forward).parameters:
        return False
    layers = DynamicCache(config=model.config).layers
    return all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)
