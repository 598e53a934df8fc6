"""Between tensors and arrays: values, types, and pickles."""

import io
import pickle
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lim2.state import Array


def floats_of(tensor: Tensor) -> Array:
    """Return a copy of a tensor's values as float64."""
    return cast(Array, tensor.detach().to("cpu", torch.float64, copy=True).numpy())


def array_of(tensor: Tensor) -> NDArray[Any]:
    """Return a tensor's values as a new array; bfloat16, which NumPy lacks, becomes float32 exactly."""
    dtype = torch.float32 if tensor.dtype == torch.bfloat16 else tensor.dtype
    return tensor.detach().to("cpu", dtype).numpy().copy()


def type_of(dtype: torch.dtype) -> np.dtype[Any]:
    """Return the type in which :func:`array_of` gives values of some type.

    Examples
    --------
    >>> type_of(torch.bfloat16), type_of(torch.int32)
    (dtype('float32'), dtype('int32'))
    """
    return array_of(torch.empty(0, dtype=dtype)).dtype


def assign(tensor: Tensor, array: NDArray[Any]) -> None:
    """Write the values of an array, which may be read-only, to a tensor."""
    with torch.no_grad():
        tensor.copy_(torch.tensor(array))


def converted(array: NDArray[Any], dtype: np.dtype[Any], what: str) -> NDArray[Any]:
    """Return contexts in another type; refuse where that would change them, except for the precision of floats."""
    if array.dtype == dtype:
        return array
    if dtype.kind == "f":
        with np.errstate(over="ignore"):  # infinities are refused by the agent
            return array.astype(dtype)
    if not array.size:
        return array.astype(dtype)
    whole = array.dtype.kind in "iub"
    bounds = np.iinfo(dtype) if dtype.kind in "iu" else None
    if not whole or bounds is None or array.min() < bounds.min or array.max() > bounds.max:
        raise ValueError(
            f"{what} must hold {dtype} values, as the network and the contexts before do, got {array.dtype} from "
            f"{array.min()} to {array.max()}. Other contexts need dtype= in Torch(...)"
        )
    return array.astype(dtype)


def pickled(value: Any) -> bytes:
    """Return a pickle that has tensors as arrays: PyTorch pickles their addresses, so equal networks would differ."""
    stream = io.BytesIO()
    _Pickler(stream).dump(value)
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    """Pickles tensors as arrays."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) in (Tensor, nn.Parameter) and value.is_leaf and not value.is_sparse:
            kind, dtype = type(value) is nn.Parameter, str(value.dtype).removeprefix("torch.")
            return _rebuilt, (array_of(value), dtype, kind, value.requires_grad, str(value.device))
        return NotImplemented


def _rebuilt(array: NDArray[Any], dtype: str, is_parameter: bool, requires_grad: bool, device: str) -> Tensor:
    tensor = torch.tensor(array).to(device, getattr(torch, dtype))
    return nn.Parameter(tensor, requires_grad) if is_parameter else tensor.requires_grad_(requires_grad)
