"""The optimizers of :mod:`lim2.representation.optimizers` on tensors, and any optimizer of PyTorch."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lim2.representation.optimizers import SGD, Adam, RMSProp
from lim2.representation.torch_arrays import array_of

OptimizerSettings = RMSProp | SGD | Adam

# What makes an optimizer from parameters: a class of torch.optim, or a partial of one.
Factory = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

_SETTINGS: dict[str, type[OptimizerSettings]] = {kind.__name__: kind for kind in (RMSProp, SGD, Adam)}

# Statistics that cannot be negative: means and sums of squares, and counts.
_NOT_NEGATIVE = ("mean_square", "exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum", "step")


class PaperRMSProp(torch.optim.Optimizer):
    """RMSProp as in the published runs, which PyTorch's is not: mean squares start at 1, epsilon is inside the root."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float, keep: float, start: float, epsilon: float) -> None:
        super().__init__(params, {"lr": lr, "keep": keep, "start": start, "epsilon": epsilon})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # noqa: ARG002
        """Take one step along the gradients that the parameters hold."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["mean_square"] = torch.full_like(p, group["start"])
                mean_square = state["mean_square"]
                mean_square.mul_(group["keep"]).addcmul_(p.grad, p.grad, value=1.0 - group["keep"])
                p.addcdiv_(p.grad, (mean_square + group["epsilon"]).sqrt_(), value=-group["lr"])


def make(optimizer: OptimizerSettings | Factory, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """Return the PyTorch optimizer that takes the steps; clipping and rate decay of lim2's are left to the caller."""
    if isinstance(optimizer, RMSProp):
        rest = optimizer.keep, optimizer.start, optimizer.epsilon
        return PaperRMSProp(parameters, optimizer.learning_rate, *rest)
    if isinstance(optimizer, Adam):
        # One pass over memory instead of six; older versions of PyTorch have it on GPUs only.
        fused = all(p.device.type in ("cpu", "cuda") for p in parameters) and _fused_on_cpu()
        rate, keep, epsilon = optimizer.learning_rate, optimizer.keep, optimizer.epsilon
        return torch.optim.Adam(parameters, lr=rate, betas=keep, eps=epsilon, fused=fused or None)
    if isinstance(optimizer, SGD):
        return torch.optim.SGD(parameters, lr=optimizer.learning_rate)
    instance: Any = optimizer(parameters) if callable(optimizer) else None
    if not isinstance(instance, torch.optim.Optimizer):
        raise TypeError(
            f"optimizer must make a torch.optim.Optimizer from parameters, as torch.optim.Adam does, or be lim2's "
            f"RMSProp, Adam or SGD; got {optimizer!r}"
        )
    return instance


def _fused_on_cpu() -> bool:
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) >= (2, 4)


def norm_of(gradients: list[Tensor]) -> float:
    """Return the global norm of gradients, dense or sparse."""
    values = [g.coalesce().values() if g.is_sparse else g for g in gradients]
    norms = torch.stack([torch.linalg.vector_norm(v) for v in values])
    return float(torch.linalg.vector_norm(norms))


def statistics(optimizer: torch.optim.Optimizer, named: Mapping[str, nn.Parameter]) -> dict[str, NDArray[Any]]:
    """Return a copy of an optimizer's running statistics, each called ``parameter/statistic``."""
    return {
        f"{name}/{key}": array_of(value) if isinstance(value, Tensor) else np.array(value)
        for name, parameter in named.items()
        for key, value in optimizer.state.get(parameter, {}).items()
        if value is not None
    }


def load_statistics(
    optimizer: torch.optim.Optimizer, named: Mapping[str, nn.Parameter], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Replace the statistics of an optimizer by a copy of the result of :func:`statistics`."""
    places = {id(p): place for place, p in enumerate(p for group in optimizer.param_groups for p in group["params"])}
    state: dict[int, dict[str, Tensor]] = {}
    for path, array in arrays.items():
        name, _, key = path.rpartition("/")
        state.setdefault(places[id(named[name])], {})[key] = torch.tensor(array)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def start_of(optimizer: OptimizerSettings | Factory | None) -> float:
    """Return the initial running statistics: 0, except for the mean squares of the published RMSProp."""
    return optimizer.start if isinstance(optimizer, RMSProp) else 0.0


def bounds(optimizer: OptimizerSettings | None, statistic: str) -> tuple[float, float]:
    """Return between which values a running statistic must be; those of clipped gradients cannot be large."""
    clip = None if optimizer is None else optimizer.clip
    if clip is not None:
        clip *= 1.1  # for rounding, of bfloat16 too
        if statistic == "exp_avg":
            return -clip, clip
        if statistic in ("mean_square", "exp_avg_sq"):
            return 0.0, max(clip**2, 1.1 * start_of(optimizer))
    return 0.0 if statistic in _NOT_NEGATIVE else -math.inf, math.inf


def describe(optimizer: OptimizerSettings | Factory) -> str:
    """Return a short name without addresses, for a ``repr``."""
    if isinstance(optimizer, OptimizerSettings):
        return repr(optimizer)
    inner = getattr(optimizer, "func", optimizer)
    name = cast(str, getattr(inner, "__qualname__", type(inner).__name__))
    settings = getattr(optimizer, "keywords", {})
    return f"{name}({', '.join(f'{k}={v!r}' for k, v in settings.items())})" if settings else name


def description(optimizer: OptimizerSettings) -> dict[str, Any]:
    """Return a JSON description for :func:`from_description`."""
    settings = dataclasses.asdict(optimizer)
    listed = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
    return {"object": type(optimizer).__name__, "settings": listed}


def from_description(described: Any) -> OptimizerSettings:
    """Return the optimizer of a description; raise a ValueError if it is invalid."""
    if not isinstance(described, Mapping) or set(described) != {"object", "settings"}:
        raise ValueError("an optimizer must be described by object and settings")
    name, settings = described["object"], described["settings"]
    if not isinstance(name, str) or name not in _SETTINGS:
        raise ValueError(f"the optimizer {name!r} is not one of {', '.join(_SETTINGS)}")
    defaults = {field.name: field.default for field in dataclasses.fields(_SETTINGS[name])}
    if not isinstance(settings, Mapping) or set(settings) != set(defaults):
        raise ValueError(f"the settings of {name} must be {', '.join(defaults)}")
    values: dict[str, Any] = {}
    for key, value in settings.items():
        pair = isinstance(defaults[key], tuple)
        parts = value if pair else [value]
        if not isinstance(parts, list) or len(parts) != (2 if pair else 1) or not all(map(_is_setting, parts)):
            raise ValueError(f"{key} of {name} cannot be {value!r}")
        values[key] = tuple(parts) if pair else value
    return _SETTINGS[name](**values)


def _is_setting(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and abs(value) < 1e300)
