"""A PyTorch network in a file: how it is described, made again, and checked."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lim2.representation import torch_optimizers
from lim2.representation.optimizers import PATIENCE
from lim2.representation.text import TextCNN
from lim2.representation.torch_arrays import array_of, type_of
from lim2.representation.torch_optimizers import OptimizerSettings
from lim2.representation.torch_workspace import TorchNetwork, Workspace
from lim2.state import MODERATE

if TYPE_CHECKING:
    from lim2.representation.torch import Torch

Shape = tuple[int, ...]
Kind = tuple[Shape, np.dtype[Any]]

NAMES = ("object", "module", "drawn", "optimizer", "width", "device", "dtype", "n_tokens", "init_range")

# How many values a context may have
LARGEST_CONTEXT = 2**26

# What an embedding takes
TOKEN_TYPES = ("int32", "int64")


def description(net: Torch) -> dict[str, Any]:
    """Return a JSON description for :func:`settings`; {} if the module or optimizer is not lim2's."""
    module, rule = net.template, net.rule
    if type(module) is not TextCNN or not isinstance(rule, OptimizerSettings):
        return {}
    return {
        "object": "Torch",
        "module": module.description(),
        "drawn": not isinstance(net.module, nn.Module),
        "optimizer": torch_optimizers.description(rule),
        "width": net.width,
        "device": str(net.device),
        "dtype": None if net.dtype is None else np.dtype(net.dtype).name,
        "n_tokens": net.n_tokens,
        "init_range": net.init_range,
    }


def settings(described: Any, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the arguments of a Torch as described; a ValueError unless the arrays are those of such a network."""
    if not isinstance(described, Mapping) or set(described) != set(NAMES):
        raise ValueError(f"a Torch must be described by {', '.join(NAMES)}")
    module, width, n_tokens = described["module"], described["width"], described["n_tokens"]
    shapes = TextCNN.described_shapes(module)
    if described["object"] != "Torch" or type(width) is not int or width != module["width"]:
        raise ValueError(f"the width of a Torch must be that of its module, {module['width']}, got {width!r}")
    if type(n_tokens) is not int or not 1 <= n_tokens <= module["n_tokens"]:
        raise ValueError(f"n_tokens must be from 1 to {module['n_tokens']}, got {n_tokens!r}")
    if described["dtype"] not in (None, *TOKEN_TYPES):
        raise ValueError(f"the dtype of token ids must be one of {', '.join(TOKEN_TYPES)}, got {described['dtype']!r}")
    drawn, init_range = described["drawn"], described["init_range"]
    if type(drawn) is not bool or type(init_range) not in (int, float) or not 0.0 <= init_range < 1e30:
        raise ValueError(f"drawn must be true or false, and init_range a number from 0, got {drawn!r}, {init_range!r}")
    optimizer, device = torch_optimizers.from_description(described["optimizer"]), _device(described["device"])
    _check_shapes(shapes, getattr(torch, module["dtype"]), width, arrays)
    make = functools.partial(TextCNN.from_description, module)
    rest = {name: described[name] for name in ("width", "dtype", "n_tokens", "init_range")}
    return {"module": make if drawn else make(), "optimizer": optimizer, "device": device, **rest}


def _check_shapes(shapes: Mapping[str, Shape], dtype: torch.dtype, width: int, arrays: Mapping[str, Any]) -> None:
    """Raise a ValueError unless these are the arrays of a module with such parameters, and of its head."""
    prefix = next((name.removesuffix("head.bias") for name in arrays if name.endswith("tensors/head.bias")), "tensors/")
    named = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    n_arms = np.size(named.get("head.bias", ()))
    expected = {f"module.{name}": shape for name, shape in shapes.items()}
    expected |= {"head.weight": (n_arms, width), "head.bias": (n_arms,)}
    _check_arrays({name: (shape, type_of(dtype)) for name, shape in expected.items()}, named)


def _device(name: Any) -> str:
    """Return the name of a device if there is such a one."""
    try:
        if isinstance(name, str) and float(torch.zeros((), device=torch.device(name))) == 0.0:
            return name
    except (RuntimeError, AssertionError, ValueError) as error:  # AssertionError: PyTorch was built without it
        raise ValueError(f"the network is on the device {name!r}, which is not available here: {error}") from error
    raise ValueError(f"the device must be a name such as 'cpu', got {name!r}")


def check(net: Torch, f: TorchNetwork) -> None:
    """Raise a ValueError unless a network is one of this Torch."""
    if f.skipped_in_a_row > min(f.skipped, PATIENCE):
        raise ValueError(f"the optimizer cannot have skipped {f.skipped_in_a_row} steps in a row")
    if np.shape(f.tensors.get("head.bias", 0)) != (f.n_arms,):
        raise ValueError(f"the network should have a bias for each of its {f.n_arms} arms")
    shape, dtype = f.contexts.shape[1:], f.contexts.dtype
    if len(f.contexts) or dtype.kind not in "fiub" or math.prod(shape) > LARGEST_CONTEXT:
        raise ValueError(f"a network cannot take contexts of {dtype} of shape {shape}")
    if net.context_shape not in (None, shape) or (net.dtype is not None and not (f.typed and dtype == net.dtype)):
        raise ValueError(f"the network takes contexts of {dtype} of shape {shape}, which this {net!r} does not")
    if type(net.template) is TextCNN and dtype.name not in TOKEN_TYPES:
        raise ValueError(f"a TextCNN takes token ids, not {dtype} values")
    space = net.workspace(f)
    _check_arrays({name: (tuple(t.shape), type_of(t.dtype)) for name, t in space.named.items()}, f.tensors)
    for name, tensor in space.named.items():
        _check_values(name, f.tensors[name], tensor)
    _check_statistics(f.statistics, space)
    if type(net.template) is not TextCNN:
        space.load(f, training=True)
        refusal = net.refusal(space.module, shape, dtype)
        if refusal is not None:
            raise ValueError(f"the module does not take contexts of {dtype} of shape {shape}: {refusal}")


def _check_arrays(expected: Mapping[str, Kind], arrays: Mapping[str, NDArray[Any]]) -> None:
    if set(arrays) != set(expected):
        differing = ", ".join(sorted(set(arrays) ^ set(expected)))
        raise ValueError(f"the arrays are of another network: it differs in {differing}")
    for name, (shape, dtype) in expected.items():
        array = arrays[name]
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
            raise ValueError(f"{name} should be an array of {dtype} of shape {shape}, got {_kind(array)}")


def _kind(value: Any) -> str:
    return f"one of {value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)


def _check_values(name: str, array: NDArray[Any], tensor: Tensor) -> None:
    """Raise a ValueError unless values are finite; in a buffer, such as a mask, those may be infinite that were.

    A parameter of the module beyond the third root of the largest number has exploded.
    """
    good = np.isfinite(array)
    if not isinstance(tensor, nn.Parameter):
        good |= array == array_of(tensor)
    elif array.dtype.itemsize > 2 and name.startswith("module."):
        good &= np.abs(array) < min(MODERATE, float(np.finfo(array.dtype).max) ** (1.0 / 3.0))
    if not good.all():
        raise ValueError(f"{name} has values that are not finite or too large")
    if tensor.dtype == torch.bfloat16 and not np.array_equal(array_of(torch.tensor(array).bfloat16()), array):
        raise ValueError(f"{name} has values that are not bfloat16")


def _check_statistics(arrays: Mapping[str, NDArray[Any]], space: Workspace) -> None:
    """Raise a ValueError unless the optimizer keeps such statistics of each parameter: from the start, or by now."""
    first, after_step = torch_optimizers.statistics(space.optimizer, space.trained), _after_a_step(space)
    named: dict[str, dict[str, NDArray[Any]]] = {}
    for path, array in arrays.items():
        name, _, statistic = path.rpartition("/")
        if name not in space.trained or not isinstance(array, np.ndarray):
            raise ValueError(f"{path} should be an array, a statistic of one of {', '.join(space.trained)}")
        low, high = torch_optimizers.bounds(space.schedule, statistic)
        if not np.isfinite(array).all() or not ((array >= low) & (array <= high)).all():
            raise ValueError(f"{path} must be finite, from {low:g} to {high:g}")
        named.setdefault(name, {})[path] = array
    for name, parameter in space.trained.items():
        parts = named.get(name, {})
        if after_step is None:
            if not all(array.shape in ((), tuple(parameter.shape)) for array in parts.values()):
                raise ValueError(f"a statistic of {name} has another shape than it")
        elif set(parts) != {path for path in first if path.rpartition("/")[0] == name}:
            after = {path: (a.shape, a.dtype) for path, a in after_step.items() if path.rpartition("/")[0] == name}
            _check_arrays(after, parts)
        else:
            _check_arrays({path: (after_step[path].shape, after_step[path].dtype) for path in parts}, parts)


def _after_a_step(space: Workspace) -> dict[str, NDArray[Any]] | None:
    """Return the optimizer's statistics after a step with zero gradients; None if it takes no dense gradients."""
    for parameter in space.trained.values():
        parameter.grad = torch.zeros_like(parameter)
    try:
        space.optimizer.step()
    except (RuntimeError, TypeError):
        return None
    return torch_optimizers.statistics(space.optimizer, space.trained)
