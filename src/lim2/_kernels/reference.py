"""The kernels in NumPy: what the compiled ones are compared with, and used where there are none."""

import numpy as np

from lim2.state import Array, Ints

# Below this the scale is multiplied into the weights, long before anything can underflow.
SMALLEST_SCALE = 1e-6


def descend(
    weights: Array,
    bias: Array,
    head: Array,
    head_bias: Array,
    contexts: Array,
    arms: Ints,
    rewards: Array,
    steps: int,
    rate: float,
    keep: float,
    stop_loss: float,
) -> tuple[Array, Array, Array, Array, int, float]:
    """Return parameters after gradient steps of one sample each, the number of steps, and the loss of the last pass.

    Passes end when the mean squared error of one is at most ``stop_loss``. Weight decay shrinks all parameters by the
    factor ``keep`` in every step. The weights (n_arms, n_features, hidden) are held as ``scale * weights``, so that
    shrinking them is one product, and a step touches only its arm's block.
    """
    weights, bias, head, output_bias = weights.copy(), bias.copy(), head.copy(), float(head_bias[0])
    scale, taken, loss = 1.0, 0, 0.0
    while taken < steps and len(rewards):
        total, count = 0.0, min(len(rewards), steps - taken)
        for context, arm, reward in zip(contexts[:count], arms[:count].tolist(), rewards[:count].tolist(), strict=True):
            block = weights[arm]
            hidden = np.maximum(scale * np.dot(context, block) + bias, 0.0)
            error = output_bias + float(np.dot(head, hidden)) - reward
            total += error * error
            slope = 2.0 * rate * error
            scale *= keep
            output_bias = keep * output_bias - slope
            inner = slope * head * (hidden > 0.0)
            head = keep * head - slope * hidden
            bias = keep * bias - inner
            block -= np.multiply.outer(context, inner / scale)
            if scale < SMALLEST_SCALE:
                weights *= scale
                scale = 1.0
        taken += count
        loss = total / count
        if loss <= stop_loss:
            break
    weights *= scale
    return weights, bias, head, np.array([output_bias]), taken, loss
