"""The optimizers of :mod:`lim2.representation.optimizers` on tensors, and any optimizer of PyTorch."""

from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn

from lim2.representation.optimizers import SGD, Adam, Optimizer, RMSProp

# What makes an optimizer from parameters: a class of torch.optim, or a partial of one.
Factory = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


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


def make(optimizer: Optimizer | Factory, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """Return the PyTorch optimizer that takes the steps; clipping and rate decay of ours are left to the caller."""
    if not isinstance(optimizer, Optimizer):
        made = optimizer(parameters)
        if not isinstance(made, torch.optim.Optimizer):
            raise TypeError(
                f"optimizer must make a torch.optim.Optimizer from parameters, as torch.optim.Adam does, or be one of "
                f"lim2's, e.g. Adam(1e-3); got {made!r}"
            )
        return made
    rate = optimizer.learning_rate
    if isinstance(optimizer, RMSProp):
        return PaperRMSProp(parameters, rate, optimizer.keep, optimizer.start, optimizer.epsilon)
    if isinstance(optimizer, Adam):
        # One pass over memory instead of six; older versions of PyTorch have it on GPUs only.
        fused = all(p.device.type in ("cpu", "cuda") for p in parameters) and _fused_on_cpu()
        return torch.optim.Adam(parameters, lr=rate, betas=optimizer.keep, eps=optimizer.epsilon, fused=fused or None)
    if isinstance(optimizer, SGD):
        return torch.optim.SGD(parameters, lr=rate)
    raise TypeError(
        f"{type(optimizer).__name__} has no form for tensors: give lim2's RMSProp, Adam or SGD, or a class of "
        "torch.optim, or a function from parameters to an optimizer"
    )


def _fused_on_cpu() -> bool:
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) >= (2, 4)


def norm_of(gradients: list[Tensor]) -> float:
    """Return the global norm of gradients, dense or sparse."""
    values = [g.coalesce().values() if g.is_sparse else g for g in gradients]
    norms = torch.stack([torch.linalg.vector_norm(v) for v in values])
    return float(torch.linalg.vector_norm(norms))


def resize(optimizer: torch.optim.Optimizer, parameter: Tensor, change: Callable[[Tensor, float], Tensor]) -> None:
    """Change the rows of a parameter, and of its running statistics with it; ``change`` is told where new ones start.

    That is 0 but for the published RMSProp, whose mean squares start elsewhere.
    """
    shape = parameter.shape
    starts = {id(p): group.get("start", 0.0) for group in optimizer.param_groups for p in group["params"]}
    for name, value in optimizer.state.get(parameter, {}).items():
        if isinstance(value, Tensor) and value.shape == shape:
            optimizer.state[parameter][name] = change(value, starts[id(parameter)])
    # The same object with other values: optimizers know parameters by identity.
    parameter.data = change(parameter.data, 0.0)


def statistics(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the running statistics of an optimizer, named by parameter; counts become tensors too."""
    state: dict[int, dict[str, Any]] = optimizer.state_dict()["state"]
    return {
        f"{index}.{name}": value if isinstance(value, Tensor) else torch.tensor(value)
        for index, values in state.items()
        for name, value in values.items()
        if value is not None
    }


def restore_statistics(optimizer: torch.optim.Optimizer, named: dict[str, Tensor]) -> None:
    """Take over what :func:`statistics` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in named.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def describe(optimizer: Optimizer | Factory) -> str:
    """Return a short name without addresses, for a ``repr``."""
    if isinstance(optimizer, Optimizer):
        return repr(optimizer)
    inner = getattr(optimizer, "func", optimizer)
    name = cast(str, getattr(inner, "__qualname__", type(inner).__name__))
    settings = getattr(optimizer, "keywords", {})
    return f"{name}({', '.join(f'{k}={v!r}' for k, v in settings.items())})" if settings else name
