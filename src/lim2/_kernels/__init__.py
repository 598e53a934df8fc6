"""The innermost functions of agents: pure, arrays in and new arrays out; compiled, or in NumPy.

Importing this module chooses one of the two: the extension for AVX2 and FMA where the processor has both, else the
extension for every processor, else NumPy. The variable ``LIM2_KERNELS`` names one: ``avx2``, ``baseline``, ``numpy``.
"""

import os
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from lim2._kernels import reference
from lim2.state import Array

INTERFACE = 2  # of extension.c: an extension of other sources is not used
CHOICES = {"avx2": "compiled, AVX2 and FMA", "baseline": "compiled", "numpy": "NumPy"}


def _choose(name: str | None) -> tuple[str, ModuleType]:
    """Return a description of the kernels, and their module."""
    if name and name not in CHOICES:
        raise ValueError(f"LIM2_KERNELS must be one of {', '.join(CHOICES)}, got {name!r}")
    if name == "numpy":
        return f"{CHOICES['numpy']}, as LIM2_KERNELS says", reference
    try:
        baseline = import_module("lim2._kernels.baseline")
        if baseline.INTERFACE != INTERFACE:
            raise ImportError("compiled from other sources, install lim2 again")
        if name == "avx2" or (not name and baseline.has_avx2()):
            return CHOICES["avx2"], import_module("lim2._kernels.avx2")
    except ImportError as error:
        if name:
            raise ImportError(f"LIM2_KERNELS is {name}, but these kernels cannot be used: {error}") from error
        missing = isinstance(error, ModuleNotFoundError)
        return f"{CHOICES['numpy']}; the extension is missing" if missing else f"{CHOICES['numpy']}; {error}", reference
    return CHOICES["baseline"], baseline


DESCRIPTION, _kernels = _choose(os.environ.get("LIM2_KERNELS"))

if TYPE_CHECKING:
    from lim2._kernels.reference import descend as descend
    from lim2._kernels.reference import draw as draw
    from lim2._kernels.reference import predicted as predicted
    from lim2._kernels.reference import sample as sample
    from lim2._kernels.reference import score as score
else:
    descend, predicted, sample, score = _kernels.descend, _kernels.predicted, _kernels.sample, _kernels.score
    if _kernels is reference:
        draw = reference.draw
    else:

        def draw(rng, *parts):
            source = rng.bit_generator
            with source.lock:
                return _kernels.draw(source.capsule, *parts)


# Special cases of what NumPy computes for networks and views of any kind; None where nothing is compiled.
# (parameters, units, center, factor, limit, contexts) -> features
features: Callable[[Array, int, Array, Array, float, Array], Array] | None = getattr(_kernels, "features", None)
# (parameters, mean_square, units, n_arms, contexts, arms, rewards, rate, clip, keep, epsilon)
# -> parameters', mean_square', norm, loss
train: Callable[..., tuple[Array, Array, float, float]] | None = getattr(_kernels, "train", None)
