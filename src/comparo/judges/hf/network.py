"""A transformers model as the hf/ judge needs it: from rows of tokens to the probabilities of the next ones.

Rows are padded on the right. In a causal model later tokens have no effect on earlier ones, so the padding needs no
mask and no shifted positions; only the head needs to know where each row ends.

A tree of rows is one sequence with its own attention: every token reads its own node up to itself, and the whole of the
nodes above it. Each reading is a separate attention, by a kernel for groups of several lengths, which returns its
output o and the log-sum-exp l of its scores. Two readings of the same queries combine to one attention over both sets
of keys:

    o = o₁ + w·(o₂ − o₁),   w = σ(l₂ − l₁),   l = log(e^l₁ + e^l₂)

This is exact, and needs no mask. transformers calls `attend` in every layer of a model whose attention is set to NAME;
the readings come along as an argument of the model.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from comparo.errors import JudgeError
from comparo.judges.chat import first_line
from comparo.judges.hf.batching import Batch, Reading, Tree, grow
from comparo.judges.labels import Spellings

if TYPE_CHECKING:
    import torch

NAME = "comparo_tree"  # of the attention in a tree
# Arguments of a layer to its attention that do not change what is computed here; no row of a tree exceeds a window.
_HARMLESS = frozenset(
    "dropout is_causal position_ids cache_position position_embeddings use_cache sliding_window".split()
)
TREE_ERROR, TREE_ERROR_HALF = 1e-3, 0.1  # of the logits' size; rounding in 24 layers makes 1e-6, in bfloat16 0.02
LEAST = -700.0  # log P of a token that the model excludes; e^−700 is above 0
ONE_TOKEN = Spellings((), ((),), {})  # reads a row at its end alone
_logger = logging.getLogger(__name__)


class Network:
    """The model itself: from rows of tokens to the probabilities of the next ones."""

    def __init__(self, model: Any) -> None:
        self._model = model.eval()
        self.encodes = bool(model.config.is_encoder_decoder)
        self.longest_in_tree = math.inf  # tokens of a row: those of the model's window
        self._ends: tuple[torch.Tensor, torch.Tensor] | None = None
        self._sharpen_head()
        if self.overlaps:
            fuse(model)

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

    def _last_positions(self, head: object, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...] | None:
        """Pass only the last position of each row to the head, in float32; what the model does next is unchanged."""
        if self._ends is None:  # another network runs this model
            return None
        hidden = arguments[0]
        rows, positions = (places.to(hidden.device) for places in self._ends)
        return (hidden[rows, positions].unsqueeze(1).float(),)

    def _run(self, rows: list[int], ends: list[int], **inputs: Any) -> torch.Tensor:
        """The logits, (R, vocabulary), at the positions `ends` of the batch's `rows`, R of each."""
        self._ends = self._tensor(rows), self._tensor(ends)  # copied now: a later copy would wait for the device
        try:
            logits: torch.Tensor = self._model(**inputs).logits
        finally:
            self._ends = None
        return logits[:, -1].float()

    @property
    def overlaps(self) -> bool:
        """Whether the device computes while the next batch is prepared."""
        return bool(self._model.device.type == "cuda")

    def reads_trees(self) -> bool:
        """Whether the model gives a tree the same logits as its rows, tried on a few tokens; if not, log why."""
        try:
            reason = self._unreadable()
        except Exception as problem:  # of any kind: trees are then not used
            reason = first_line(problem)
        if reason:
            _logger.info("questions are not laid out as a tree: %s", reason)
        return not reason

    def _unreadable(self) -> str | None:
        import torch
        from transformers import DynamicCache
        from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

        if self.encodes or not getattr(self._model, "_supports_attention_backend", False):
            return "the model's attention cannot be set"
        layers: list[Any] = DynamicCache(config=self._model.config).layers
        if not all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers):
            return "the model does not keep the keys and values of what it reads"
        windows = [layer.sliding_window for layer in layers if type(layer) is DynamicSlidingWindowLayer]
        self.longest_in_tree = min(windows, default=math.inf)
        rows = [[*range(3, 9), *row] for row in ([9, 10, 3], [9, 10, 4, 5, 6, 7], [11, 12, 13, 3], [11, 12, 13, 4, 5])]
        rows = sorted([*rows, [8, 7, 6]])
        with torch.inference_mode():
            single = torch.cat([self._logits([row], ONE_TOKEN) for row in rows])
            tree = grow(rows)
            together = self._tree_logits(tree, tree.ends)
            apart = ((single - together).norm() / (single - single.mean(dim=-1, keepdim=True)).norm()).item()
        allowed = TREE_ERROR if self._model.dtype == torch.float32 else TREE_ERROR_HALF
        return None if apart < allowed else f"the logits would differ by {apart:.2g} of their size"

    def log_probabilities(self, batch: Batch, labels: Spellings) -> torch.Tensor | None:
        """log P of the W wanted groups of tokens, then the likeliest token after each node: (R, W + N) on the device.

        None where its memory does not hold them. A GPU may still be computing them.
        """
        import torch

        try:
            with torch.inference_mode():
                # Copied before the model runs: a later copy would wait for the device.
                wanted = [(node, self._tensor(tokens)) for node, tokens in labels.wanted]
                if batch.tree:
                    ends = batch.tree.ends
                    logits = self._tree_logits(batch.tree, [ends[place] for place in batch.order])
                else:
                    logits = self._logits([row.ids for row in batch.rows], labels)
                logs = torch.log_softmax(logits.reshape(len(batch.rows), len(labels.nodes), -1), dim=-1)
                sums = [logs[:, node, tokens].double().logsumexp(dim=-1) for node, tokens in wanted]
                found = torch.stack(sums, dim=-1).clamp(min=LEAST)
                return torch.cat([found, logs.argmax(dim=-1).double()], dim=-1)
        except torch.OutOfMemoryError:
            return None

    def _tree_logits(self, tree: Tree, ends: list[int]) -> torch.Tensor:
        from transformers import AttentionInterface

        inputs = {"input_ids": self._tensor([tree.tokens]), "position_ids": self._tensor([tree.positions])}
        readings, usual = place(tree.readings, self._model.device), self._model.config._attn_implementation
        AttentionInterface.register(NAME, attend)
        self._model.set_attn_implementation(NAME)
        try:
            return self._run([0] * len(ends), ends, use_cache=False, readings=readings, **inputs)
        finally:
            self._model.set_attn_implementation(usual)

    def _logits(self, rows: list[list[int]], labels: Spellings) -> torch.Tensor:
        """The logits of the rows after each node, (R · N, vocabulary), row by row."""
        options: dict[str, Any] = {"use_cache": False}
        if self.encodes:
            start = [self._model.generation_config.decoder_start_token_id, *labels.begun]
            written = [[*start, *node] for _ in rows for node in labels.nodes]
            read = [row for row in rows for _ in labels.nodes]
            options["decoder_input_ids"] = self._padded(written)
            options["attention_mask"] = self._padded([[1] * len(row) for row in read])
        else:
            read = written = [[*row, *node] for row in rows for node in labels.nodes]
        ends = [len(row) - 1 for row in written]
        return self._run([*range(len(ends))], ends, input_ids=self._padded(read), **options)

    def _padded(self, rows: list[list[int]]) -> torch.Tensor:
        longest = max(map(len, rows))
        return self._tensor([row + [0] * (longest - len(row)) for row in rows])

    def _tensor(self, numbers: list[int] | list[list[int]]) -> torch.Tensor:
        import torch

        return torch.tensor(numbers, device=self._model.device)


class UnreadableError(ValueError):
    """The model's attention has a part that is not computed here: a window, a cap, a bias, a mask."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A reading on the device: the stretches of queries and keys, the bounds within them, the longest groups."""

    causal: bool
    queries: slice
    query_bounds: torch.Tensor
    longest_query: int
    keys: slice
    key_bounds: torch.Tensor
    longest_key: int


def place(readings: list[Reading], device: torch.device) -> list[Piece]:
    """The readings with their bounds on the device, as `attend` takes them."""
    import torch

    pieces = []
    for reading in readings:
        sides: list[Any] = []
        for bounds in (reading.query_bounds, reading.key_bounds):
            within = torch.tensor([bound - bounds[0] for bound in bounds], dtype=torch.int32, device=device)
            longest = max(end - begin for begin, end in pairwise(bounds))
            sides += [slice(bounds[0], bounds[-1]), within, longest]
        pieces.append(Piece(reading.causal, *sides))
    return pieces


def attend(
    module: Any,  # noqa: ARG001 - the layer, which transformers hands over first
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    *,
    scaling: float | None = None,
    readings: list[Piece] | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """The attention of a layer: query (1, H, T, D), key and value (1, G, T, D) with G | H, output (1, T, H, D).

    Further arguments of a layer are refused unless they are known to have no effect.
    """
    import torch

    unknown = sorted(name for name, said in others.items() if said is not None and name not in _HARMLESS)
    if readings is None or attention_mask is not None or unknown or others.get("is_causal") is False:
        raise UnreadableError(f"the model's attention takes {', '.join(unknown) or 'a mask of its own'}")
    q, k, v = (states[0].transpose(0, 1) for states in (query, key, value))
    scale = q.shape[-1] ** -0.5 if scaling is None else scaling
    one = _by_flash if q.is_cuda and q.dtype in (torch.float16, torch.bfloat16) else _by_hand
    own, *above = readings
    output, total = one(q, k, v, own, scale)
    for piece in above:
        read, weight = one(q[piece.queries], k[piece.keys], v[piece.keys], piece, scale)
        before = total[:, piece.queries]
        share = torch.sigmoid(weight - before).transpose(0, 1).unsqueeze(-1)
        output[piece.queries].lerp_(read, share.to(read.dtype))
        total[:, piece.queries] = torch.logaddexp(before, weight)
    return output.unsqueeze(0), None


def _by_flash(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, piece: Piece, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output (T, H, D) and log-sum-exp (H, T) by the kernel for sequences of several lengths."""
    import torch

    bounds = [
        ends.to(q.device) for ends in (piece.query_bounds, piece.key_bounds)
    ]  # a model may be spread over devices
    longest = piece.longest_query, piece.longest_key
    output, total, *_ = torch.ops.aten._flash_attention_forward(
        q, k, v, *bounds, *longest, 0.0, piece.causal, False, scale=scale
    )
    return output, total


def _by_hand(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, piece: Piece, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same one group after another, for devices and types of number that the kernel does not support."""
    import torch

    output, total = torch.empty_like(q), q.new_empty(q.shape[1], q.shape[0], dtype=torch.float32)
    sides = (pairwise(bounds.tolist()) for bounds in (piece.query_bounds, piece.key_bounds))
    for ours, theirs in ((slice(*one), slice(*other)) for one, other in zip(*sides, strict=True)):
        heads = (q[ours], *(states[theirs].repeat_interleave(q.shape[1] // k.shape[1], dim=1) for states in (k, v)))
        queries, keys, values = (states.transpose(0, 1) for states in heads)
        scores = (queries @ keys.transpose(1, 2)).float() * scale
        if piece.causal:
            scores += torch.full_like(scores[0], -torch.inf).triu(1)
        total[:, ours] = scores.logsumexp(dim=-1)
        output[ours] = (scores.softmax(dim=-1).to(values.dtype) @ values).transpose(0, 1)
    return output, total


def fuse(model: Any) -> int:
    """Replace every norm of the model that computes the formula by torch's kernel; return how many were replaced.

        norm(x) = weight · x / √(mean(x²) + ε)

    transformers computes it by six operations, each of which reads and writes all of x: a ninth of a 7B model's time on
    a GPU, in a pass over many tokens.

    A norm computes the formula if its result on random numbers is that of the kernel, up to the rounding of the type.
    Other norms (Gemma's add one to the weight) are not changed, nor are those whose forward was replaced before.
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
        if x.dtype != module.weight.dtype:  # the kernel takes one type
            return usual(x)  # type: ignore[no-any-return]
        return torch.nn.functional.rms_norm(x, module.weight.shape, module.weight, epsilon)

    return forward
