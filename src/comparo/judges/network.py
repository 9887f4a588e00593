"""A transformers model as the hf/ judge needs it: from rows of tokens to the probabilities of two labels.

Rows are padded on the right. In a causal model nothing later touches what came before, so the padding needs no mask and
no shifted positions; only the head must be told where each row ends. The same holds after a shared prefix.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from comparo.judges.judgement import JudgeError

if TYPE_CHECKING:
    import torch

KEPT_PREFIXES = 8


class Network:
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
