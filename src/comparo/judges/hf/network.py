"""A transformers model for the hf/ judge: from batches of questions to the probabilities of the next token.

The CPU launches the kernels of a pass while the GPU computes, so a pass takes as long as the slower of the two. If
launching a pass takes as long as computing `pass_tokens` tokens, then in units of tokens

    cost = max(pass_tokens · launches, tokens)

Questions run as rows or as a tree. A row has all tokens of a question or, after a pass over the common prefix of a
context, the rest of them. A tree reads every common prefix once, with more launches and an attention of its own.

Rows are padded on the right. In a causal model later tokens have no effect on earlier ones, so the padding needs no
mask and no shifted positions; only the head needs to know where each row ends. The same holds after a shared prefix.
"""

from __future__ import annotations

import inspect
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from comparo.errors import JudgeError
from comparo.judges.chat import Encoded, first_line
from comparo.judges.hf.tree import DEEPEST, NAME, Tree, grow, packs, place, register
from comparo.judges.labels import Spellings

if TYPE_CHECKING:
    import torch

KEPT_PREFIXES = 8  # a 7B model in bfloat16 keeps 0.5 MB per token, 0.25 GB for a context of 500 tokens
TREE_ERROR, TREE_ERROR_HALF = 1e-3, 0.1  # relative to the logits; rounding in 24 layers makes 1e-6, in bfloat16 0.02
EXCLUDED = -700.0  # log P of a token that the model excludes; e^−700 is above 0
ONE_TOKEN = Spellings((), ((),), {})  # reads a row only at its end
READING = 0.22  # launches that one more reading adds, as a share of a pass's launches; measured with 24 layers
DEARER = 1.1  # cost of a token in a tree relative to one in a row; measured 1.02 with 7B, 1.16 with 0.5B
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PromptBatch:
    """Questions that run at once, as a tree or as rows whose first `shared` tokens are read once for all.

    The first `outer` tokens are shared with other batches too. The rows of a tree are the sorted sequences of the
    questions; `order` is the tree's row of each sequence.
    """

    rows: list[Encoded]
    shared: int = 0
    tree: Tree | None = None
    order: list[int] = field(default_factory=list)
    outer: int = 0

    @property
    def tokens(self) -> int:
        """The number of tokens in the pass, including padding."""
        return self.tree.size if self.tree else len(self.rows) * max(row.size for row in self.rows)


@dataclass
class PromptBatcher:
    """Makes batches of `size` questions or, if that is None, of about `tokens` tokens.

    >>> from comparo.data.prompts import Question
    >>> rows = [Encoded(Question(1, 2), [7] * length) for length in (2, 5, 4)]
    >>> [[len(row.ids) for row in batch.rows] for batch in PromptBatcher(None, tokens=10, pass_tokens=0).of(rows)]
    [[5, 4], [2]]
    """

    size: int | None
    tokens: int
    pass_tokens: float

    def trees(self, rows: Iterable[Encoded], *, always: bool = False, deepest: int = DEEPEST) -> Iterator[PromptBatch]:
        """Yield trees of rows with common prefixes; without `always`, batches of rows where these are cheaper."""
        ordered, single = sorted(rows, key=lambda row: row.ids), []
        branches = max((len(row.after) for row in ordered), default=1)
        for part in packs([row.ids for row in ordered], self.tokens // branches, self.size):
            batch = _tree(ordered[part.start : part.stop], deepest)
            if always or self._cheaper(batch, sum(row.size for row in batch.rows)):
                yield batch
            else:
                single += batch.rows
        for batch in self.of(single):  # a tree has no padding, so it may be cheaper
            tree = _tree(batch.rows, deepest)
            yield tree if self._cheaper(tree, batch.tokens) else batch

    def _cheaper(self, batch: PromptBatch, tokens: int) -> bool:
        depth = len(batch.tree.levels) if batch.tree else 1
        launched = self.pass_tokens * (1 + READING * depth * (depth - 1) / 2)  # each level reads each above it
        return max(launched, DEARER * batch.tokens) < max(self.pass_tokens, tokens)

    def of(self, rows: Iterable[Encoded], shared: int = 0) -> Iterator[PromptBatch]:
        """Yield batches of rows of similar length, the longest first."""
        batch: list[Encoded] = []
        for row in sorted(rows, key=lambda row: len(row.ids), reverse=True):
            if batch and len(batch) >= (self.size or self.tokens // batch[0].size):
                yield PromptBatch(batch, shared)
                batch = []
            batch.append(row)
        if batch:
            yield PromptBatch(batch, shared)

    def pays(self, questions: int, shared: int, kept: bool) -> bool:
        """Whether reading the shared tokens once is cheaper; unless `kept`, that takes a pass of its own."""
        passes = 1 if kept else 2
        return shared * (questions + 1 - passes) > passes * self.pass_tokens

    def halve(self, batch: PromptBatch) -> tuple[PromptBatch, PromptBatch]:
        """Split a batch that exceeded the device's memory; later batches have half of its size."""
        self.size, self.tokens = self.size and len(batch.rows) // 2, batch.tokens // 2
        return split(batch)


def split(batch: PromptBatch) -> tuple[PromptBatch, PromptBatch]:
    """The two halves of a batch, in the same layout."""
    middle = len(batch.rows) // 2
    first, second = batch.rows[:middle], batch.rows[middle:]
    if batch.tree:
        return _tree(first, batch.tree.deepest), _tree(second, batch.tree.deepest)
    return replace(batch, rows=first), replace(batch, rows=second)


def _tree(rows: list[Encoded], deepest: int) -> PromptBatch:
    ordered = sorted(rows, key=lambda row: row.ids)
    sequences = [sequence for row in ordered for sequence in row.sequences]
    ranked = sorted(range(len(sequences)), key=sequences.__getitem__)
    order = sorted(range(len(ranked)), key=ranked.__getitem__)
    return PromptBatch(ordered, tree=grow([sequences[number] for number in ranked], deepest), order=order)


class Network:
    """The model: from rows of tokens to the probabilities of the next token."""

    def __init__(self, model: Any) -> None:
        self._model = model.eval()
        self.parameters: int = model.num_parameters()
        self.encodes = bool(model.config.is_encoder_decoder)
        self._memory = _memory(model)
        self.reusable = self._memory is not None
        self._ends: tuple[torch.Tensor, torch.Tensor] | None = None
        self._prefixes: OrderedDict[tuple[int, ...], Any] = OrderedDict()
        self._sharpen_head()
        if self.overlaps:
            fuse(model)

    def _sharpen_head(self) -> None:
        import torch

        head = self._model.get_output_embeddings()
        if head.weight.is_meta:
            raise JudgeError("the devices have no room for the model's output head; use a smaller model or dtype")
        # A new parameter: if the head is tied to the embedding, the embedding keeps the body's dtype.
        head.weight = torch.nn.Parameter(head.weight.detach().float(), requires_grad=False)
        if getattr(head, "bias", None) is not None:
            head.bias = torch.nn.Parameter(head.bias.detach().float(), requires_grad=False)
        head.register_forward_pre_hook(self._last_positions)

    def _last_positions(self, head: object, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...] | None:
        """Pass only the positions `_ends` to the head, in float32."""
        if self._ends is None:  # another network runs this model
            return None
        hidden = arguments[0]
        rows, positions = (places.to(hidden.device) for places in self._ends)
        return (hidden[rows, positions].unsqueeze(1).float(),)

    def _run(self, rows: list[int], ends: list[int], **inputs: Any) -> torch.Tensor:
        """The logits (R, vocabulary) at the R positions (rows[r], ends[r]) of the batch."""
        self._ends = self._tensor(rows), self._tensor(ends)  # copied now: a later copy would wait for the device
        try:
            logits: torch.Tensor = self._model(**inputs).logits
        finally:
            self._ends = None
        return logits[:, -1].float()

    def keeps(self, prefix: list[int]) -> bool:
        """Whether the prefix is in the cache."""
        return tuple(prefix) in self._prefixes

    @property
    def overlaps(self) -> bool:
        """Whether the device computes while the next batch is prepared."""
        return bool(self._model.device.type == "cuda")

    def reads_trees(self) -> bool:
        """Whether the model gives a tree the same logits as its rows, tested on a few tokens; if not, log why."""
        try:
            reason = self._unreadable()
        except Exception as problem:  # of any kind: trees are then not used
            reason = first_line(problem)
        if reason:
            _logger.info("questions are not laid out as a tree: %s", reason)
        return not reason

    def _unreadable(self) -> str | None:
        import torch
        from transformers.cache_utils import DynamicLayer

        if self._memory != {DynamicLayer}:
            return "the model does not keep the keys and values of all that it reads"
        if not getattr(self._model, "_supports_attention_backend", False):
            return "the model's attention cannot be set"
        if len({weights.device for weights in self._model.parameters()}) > 1:
            return "the model is spread over devices"
        ends = [9, 10, 3], [9, 10, 4, 5, 6, 7], [11, 12, 13, 3], [11, 12, 13, 4, 5]
        rows = [[*range(3, 9), *end] for end in ends]
        rows = sorted([*rows, [8, 7, 6]])
        with torch.inference_mode():
            single = torch.cat([self._logits(0, [row], ONE_TOKEN) for row in rows])
            tree = grow(rows)
            together = self._tree_logits(tree, tree.ends)
            spread = single - single.mean(dim=-1, keepdim=True)
            apart = ((single - together).norm() / spread.norm()).item()
        allowed = TREE_ERROR if self._model.dtype == torch.float32 else TREE_ERROR_HALF
        return None if apart < allowed else f"the logits would differ by {apart:.2g} of their size"

    def log_probabilities(self, batch: PromptBatch, labels: Spellings) -> torch.Tensor | None:
        """log P of the W wanted groups of tokens, then the likeliest token after each node: (R, W + N) on the device.

        None if the device is out of memory. A GPU may still be computing the result.
        """
        import torch

        try:
            with torch.inference_mode():
                # Copied before the model runs: a later copy would wait for the device.
                wanted = [(node, self._tensor(tokens)) for node, tokens in labels.wanted]
                if batch.tree:
                    count = len(labels.paths)
                    ends = batch.tree.places(
                        (batch.order[number * count + path], len(row.ids) - 1 + length)
                        for number, row in enumerate(batch.rows)
                        for path, length in labels.places
                    )
                    logits = self._tree_logits(batch.tree, ends)
                else:
                    logits = self._logits(batch.shared, [row.ids for row in batch.rows], labels, batch.outer)
                logs = torch.log_softmax(logits.reshape(len(batch.rows), len(labels.nodes), -1), dim=-1)
                sums = [logs[:, node, tokens].double().logsumexp(dim=-1) for node, tokens in wanted]
                found = torch.stack(sums, dim=-1).clamp(min=EXCLUDED)
                return torch.cat([found, logs.argmax(dim=-1).double()], dim=-1)
        except torch.OutOfMemoryError:
            self._prefixes.clear()
            return None

    def _tree_logits(self, tree: Tree, ends: list[int]) -> torch.Tensor:
        inputs = {"input_ids": self._tensor([tree.tokens]), "position_ids": self._tensor([tree.positions])}
        readings, usual = place(tree.readings, self._model.device), self._model.config._attn_implementation
        register()
        self._model.set_attn_implementation(NAME)
        try:
            return self._run([0] * len(ends), ends, use_cache=False, readings=readings, **inputs)
        finally:
            self._model.set_attn_implementation(usual)

    def _logits(self, shared: int, rows: list[list[int]], labels: Spellings, outer: int = 0) -> torch.Tensor:
        """The logits (R · N, vocabulary) after each of N nodes of each of R rows, row by row."""
        count = len(labels.paths)
        places = [(number, *place) for number in range(len(rows)) for place in labels.places]
        options: dict[str, Any] = {"use_cache": False}
        if self.encodes:
            start = [self._model.generation_config.decoder_start_token_id, *labels.begun]
            ends = [len(start) - 1 + length for _, _, length in places]
            options["decoder_input_ids"] = self._padded([[*start, *path] for _ in rows for path in labels.paths])
            read = [row for row in rows for _ in labels.paths]
            options["attention_mask"] = self._padded([[1] * len(row) for row in read])
        else:
            ends = [len(rows[row]) - shared - 1 + length for row, _, length in places]
            read = [[*row[shared:], *path] for row in rows for path in labels.paths]
            if shared:
                options = {"use_cache": True, "past_key_values": self._prefix(rows[0][:shared], outer)}
        numbers = [row * count + path for row, path, _ in places]
        return self._run(numbers, ends, input_ids=self._padded(read), **options)

    def _prefix(self, ids: list[int], outer: int = 0) -> Any:
        """The key–value cache of a prefix, extended from that of its first `outer` tokens; `KEPT_PREFIXES` are kept."""
        key = tuple(ids)
        if key not in self._prefixes:
            cache = _shared_cache()
            for number, layer in enumerate(self._prefix(ids[:outer]).layers if outer else ()):
                cache.update(layer.keys, layer.values, number)
            new = ids[outer:]
            self._run([0], [len(new) - 1], input_ids=self._tensor([new]), past_key_values=cache, use_cache=True)
            cache.complete = True
            self._prefixes[key] = cache
            if len(self._prefixes) > KEPT_PREFIXES:
                self._prefixes.popitem(last=False)
        self._prefixes.move_to_end(key)
        return self._prefixes[key]

    def _padded(self, rows: list[list[int]]) -> torch.Tensor:
        longest = max(map(len, rows))
        return self._tensor([row + [0] * (longest - len(row)) for row in rows])

    def _tensor(self, numbers: list[int] | list[list[int]]) -> torch.Tensor:
        import torch

        return torch.tensor(numbers, device=self._model.device)


def _shared_cache() -> Any:
    """A key–value cache that, once complete, expands its one row to any number of rows and stores no further keys.

    An ordinary cache would have a copy of the prefix per row, in all layers at once. The cache ignores the model's
    configuration: every layer keeps all keys, even one with a sliding window.
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


def _memory(model: Any) -> set[type] | None:
    """The types of the layers' caches; None if rows cannot share a prefix in them."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    if model.config.is_encoder_decoder or getattr(model, "_is_stateful", False):
        return None
    if "past_key_values" not in inspect.signature(model.forward).parameters:
        return None
    kinds = {type(layer) for layer in DynamicCache(config=model.config).layers}
    return kinds if kinds <= {DynamicLayer, DynamicSlidingWindowLayer} else None


def fuse(model: Any) -> int:
    """Replace every RMS norm of the model by torch's kernel; return how many were replaced.

        norm(x) = weight · x / √(mean(x²) + ε)

    transformers computes it by six operations, each of which reads and writes all of x: a ninth of a 7B model's time on
    a GPU, in a pass over many tokens.

    A norm is replaced if its result on random numbers is that of the kernel, up to the rounding of the dtype. Other
    norms (Gemma's add one to the weight) are not changed, nor are those whose forward was replaced before.
    """
    import torch

    fused = 0
    for module in model.modules():
        weight = getattr(module, "weight", None)
        epsilon = getattr(module, "variance_epsilon", getattr(module, "eps", None))
        if not type(module).__name__.endswith("RMSNorm") or weight is None or epsilon is None:
            continue
        if weight.is_meta or "forward" in vars(module):
            continue
        numbers = torch.randn(4, *weight.shape, generator=torch.Generator().manual_seed(0))
        tried = numbers.to(weight.device, weight.dtype)
        kernel, near = _kernel(module, epsilon), 4 * torch.finfo(weight.dtype).eps
        with torch.inference_mode():
            if torch.allclose(module(tried), kernel(tried), rtol=near, atol=near):
                module.forward = kernel
                fused += 1
    return fused


def _kernel(module: Any, epsilon: float) -> Callable[[torch.Tensor], torch.Tensor]:
    import torch

    usual = module.forward

    def forward(x: torch.Tensor) -> torch.Tensor:
        if x.dtype != module.weight.dtype:  # the kernel needs one dtype
            return usual(x)  # type: ignore[no-any-return]
        return torch.nn.functional.rms_norm(x, module.weight.shape, module.weight, epsilon)

    return forward
