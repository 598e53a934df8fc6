"""The compiled loop of :mod:`lim2.representation.blocks`: stochastic gradient descent, one sample per step.

A step depends on the one before it, so this loop cannot be BLAS calls. Importing this module imports numba;
the first call of a process compiles the loop, or loads it from numba's cache.
"""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numba.core import event
from numpy.typing import NDArray

Array = NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])

# Below this the scale is multiplied into the weights, long before anything can underflow.
SMALLEST_SCALE = 1e-6


class _Announce(event.Listener):
    """Log that this module's loop is being compiled; nothing is logged when it is loaded from the cache."""

    def on_start(self, what: Any) -> None:
        if what.data["dispatcher"] is descend_by_samples:
            logging.getLogger("lim2").warning(
                "lim2 is compiling its training loop for NeuralUCB and NeuralTS; this takes a few seconds, "
                "and is skipped next time where numba can write its cache (see NUMBA_CACHE_DIR)"
            )

    def on_end(self, what: Any) -> None:
        """Nothing: the line before is enough."""


def _compiled(function: Function) -> Function:
    # Sums may be reordered and products fused, so that the loops run on vectors; infinities and NaN keep their meaning.
    options: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "contract", "nsz"}}
    try:
        made: Function = njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no directory that it may write to: the loop is compiled in every process
        made = njit(**options)(function)
    return made


@_compiled
def descend_by_samples(
    weights: Array,
    bias: Array,
    head: Array,
    head_bias: Array,
    contexts: Array,
    arms: NDArray[np.intp],
    rewards: Array,
    steps: int,
    rate: float,
    keep: float,
    stop_loss: float,
) -> tuple[int, float]:
    """Go through the samples again and again, one gradient step each; the parameters change in place.

    Weight decay shrinks all parameters by the factor ``keep`` in every step. The weights (n_arms, n_features, hidden)
    are held as ``scale * weights``, so that shrinking them is one product, and a step touches only its arm's block.

    Returns the number of steps taken, and the mean loss of the last pass.
    """
    hidden = len(bias)
    flow = np.empty(hidden)
    n_features = contexts.shape[1]
    fours = n_features - n_features % 4
    scale = 1.0
    out_bias = head_bias[0]
    taken = 0
    loss = 0.0
    while taken < steps:
        total = 0.0
        seen = 0
        for i in range(len(rewards)):
            block = weights[arms[i]]
            context = contexts[i]

            # Forward: four rows at a time, so that the sums are written a quarter as often.
            for j in range(hidden):
                flow[j] = 0.0
            for f in range(0, fours, 4):
                x0, x1, x2, x3 = context[f], context[f + 1], context[f + 2], context[f + 3]
                row0, row1, row2, row3 = block[f], block[f + 1], block[f + 2], block[f + 3]
                for j in range(hidden):
                    flow[j] += x0 * row0[j] + x1 * row1[j] + x2 * row2[j] + x3 * row3[j]
            for f in range(fours, n_features):
                x0 = context[f]
                row0 = block[f]
                for j in range(hidden):
                    flow[j] += x0 * row0[j]
            output = out_bias
            for j in range(hidden):
                flow[j] = max(scale * flow[j] + bias[j], 0.0)
                output += head[j] * flow[j]
            error = output - rewards[i]
            total += error * error
            seen += 1

            # Backward: `flow` turns from activations into what is subtracted from the rows, per unit of the feature.
            slope = 2.0 * rate * error
            scale *= keep
            inverse = 1.0 / scale
            out_bias = keep * out_bias - slope
            for j in range(hidden):
                inner = slope * head[j] if flow[j] > 0.0 else 0.0
                head[j] = keep * head[j] - slope * flow[j]
                bias[j] = keep * bias[j] - inner
                flow[j] = inner * inverse
            for f in range(n_features):
                x0 = context[f]
                row0 = block[f]
                for j in range(hidden):
                    row0[j] -= x0 * flow[j]
            if scale < SMALLEST_SCALE:
                weights *= scale
                scale = 1.0

            taken += 1
            if taken == steps:
                break
        loss = total / seen
        if loss <= stop_loss:
            break
    weights *= scale
    head_bias[0] = out_bias
    return taken, loss


event.register("numba:compile", _Announce())  # type: ignore[no-untyped-call]
