"""Attention in a tree of tokens: a token attends to its own node up to itself, and to all of the nodes above it.

Each reading is a separate attention, by a kernel for sequences of several lengths, which returns its output o and the
log-sum-exp l of its scores. Two readings of the same queries combine to one attention over both sets of keys:

    o = o₁ + w·(o₂ − o₁),   w = σ(l₂ − l₁),   l = log(e^l₁ + e^l₂)

This is exact, and needs no mask. transformers calls `attend` in every layer of a model whose attention is
set to NAME, and passes the readings, an argument of the model, on to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from comparo.judges.hf.batching import Reading

if TYPE_CHECKING:
    import torch

NAME = "comparo_tree"
# Arguments that a layer passes to `attend` and that do not change its result.
_HARMLESS = {"dropout", "is_causal", "position_ids", "cache_position", "position_embeddings", "use_cache"}


class UnreadableError(ValueError):
    """The model's attention has a part that `attend` does not support: a window, a cap, a bias, a mask."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A reading on the device: slices of queries and keys, the groups' bounds in them, and their longest groups."""

    causal: bool
    queries: slice
    query_bounds: torch.Tensor
    longest_query: int
    keys: slice
    key_bounds: torch.Tensor
    longest_key: int


def register() -> None:
    """Register `attend` with transformers under NAME."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attend)


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

    Any further argument raises an UnreadableError, unless it is None or known to have no effect.
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

    bounds = piece.query_bounds, piece.key_bounds, piece.longest_query, piece.longest_key
    output, total, *_ = torch.ops.aten._flash_attention_forward(q, k, v, *bounds, 0.0, piece.causal, False, scale=scale)
    return output, total


def _by_hand(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, piece: Piece, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Same result as `_by_flash`, one group after another, for devices and dtypes that the kernel does not support."""
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
