"""A model's root mean square norms in one kernel each.

    norm(x) = weight · x / √(mean(x²) + ε)

transformers computes it by six operations, each of which reads and writes all of x: a ninth of a 7B model's time on a
GPU, in a pass over many tokens. torch has one kernel for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def fuse(model: Any) -> int:
    """Replace every norm of the model that computes the formula by torch's kernel; return how many were replaced.

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
