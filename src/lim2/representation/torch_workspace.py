"""Workspaces of PyTorch: modules change in place inside, while networks outside are values."""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lim2.representation import torch_optimizers
from lim2.representation.optimizers import LARGEST_UNCLIPPED, Descent, skip
from lim2.representation.torch_arrays import array_of, assign
from lim2.representation.torch_optimizers import Factory, OptimizerSettings
from lim2.state import Count

ADVICE = "Lower the learning rate, clip gradients, or scale contexts and rewards."

_NONE = np.empty((0, 0))


class TorchNetwork(NamedTuple):
    """A PyTorch network as a value. The names in the dictionaries are those of the module, behind a prefix."""

    tensors: dict  # type: ignore[type-arg]  # module.<name>: its parameters and buffers; head.weight, head.bias
    statistics: dict  # type: ignore[type-arg]  # <parameter>/<statistic>: what the optimizer keeps from step to step
    contexts: Annotated[NDArray[Any], "none *context"]  # no rows: the shape of a context, and its type
    typed: bool  # whether that type is decided, or the first context will do so
    n_arms: Count
    steps: Count = 0
    skipped: Count = 0  # steps left out because their gradient was not finite
    skipped_in_a_row: Count = 0


class Workspace:
    """A module with its head and its optimizer, for one thread. It holds one network at a time, or none."""

    def __init__(self, module: nn.Module, head: nn.Linear, optimizer: OptimizerSettings | Factory) -> None:
        self.module, self.head = module, head
        named = {f"module.{name}": p for name, p in module.named_parameters()}
        named |= {f"head.{name}": p for name, p in head.named_parameters()}
        self.trained = {name: p for name, p in named.items() if p.requires_grad}
        # What a step, or the module itself, may change
        self.changing: dict[str, Tensor] = {**self.trained, **{f"module.{n}": b for n, b in module.named_buffers()}}
        self.named: dict[str, Tensor] = {**named, **self.changing}
        self.schedule = optimizer if isinstance(optimizer, OptimizerSettings) else None
        self.optimizer = torch_optimizers.make(optimizer, list(self.trained.values()))
        self.tensors: dict[str, NDArray[Any]] | None = None
        self.statistics: dict[str, NDArray[Any]] | None = None

    def load(self, f: TorchNetwork, training: bool) -> None:
        """Load a network, unless it is loaded already; load statistics only for training."""
        if self.tensors is not f.tensors:
            before = self.tensors or {}
            for name, tensor in self.named.items():
                array = f.tensors[name]
                if before.get(name) is not array:
                    assign(tensor, array)
            self.tensors = f.tensors
        if training and self.statistics is not f.statistics:
            self.optimizer.zero_grad(set_to_none=True)
            torch_optimizers.load_statistics(self.optimizer, self.trained, f.statistics)
            self.statistics = f.statistics

    def descend(self, f: TorchNetwork, loss: Tensor) -> tuple[TorchNetwork, float]:
        """Return the network after a step down the gradient, and the norm; skip gradients that are not finite."""
        self.tensors = self.statistics = None
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = [p.grad for p in self.trained.values() if p.grad is not None]
        norm = torch_optimizers.norm_of(gradients)
        schedule = self.schedule
        if not norm < (LARGEST_UNCLIPPED if schedule is not None and schedule.clip is None else math.inf):
            self.optimizer.zero_grad(set_to_none=True)
            counts = skip(Descent(_NONE, f.steps, f.skipped, f.skipped_in_a_row), norm, ADVICE)
            self.tensors, self.statistics = f.tensors, f.statistics
            return f._replace(skipped=counts.skipped, skipped_in_a_row=counts.skipped_in_a_row), norm
        if schedule is not None:
            if schedule.clip is not None and norm > schedule.clip:
                for gradient in gradients:
                    gradient.mul_(schedule.clip / norm)
            for group in self.optimizer.param_groups:
                group["lr"] = schedule.learning_rate / (1.0 + schedule.decay * f.steps)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return self.read_out(f._replace(steps=f.steps + 1, skipped_in_a_row=0)), norm

    def read_out(self, f: TorchNetwork) -> TorchNetwork:
        """Return a network with the values that are here now; what cannot change is shared with the one before."""
        tensors = {**f.tensors, **{name: array_of(tensor) for name, tensor in self.changing.items()}}
        statistics = torch_optimizers.statistics(self.optimizer, self.trained)
        self.tensors, self.statistics = tensors, statistics
        return f._replace(tensors=tensors, statistics=statistics)


def new_head(width: int, n_arms: int, precision: torch.dtype, device: torch.device) -> nn.Linear:
    """Return a linear layer with one output per arm, whose values are still to be set."""
    head: Any = nn.utils.skip_init(nn.Linear, width, n_arms, dtype=precision)  # type: ignore[no-untyped-call]
    moved: nn.Linear = head.to(device)
    return moved
