"""The kernels in NumPy: what the compiled ones are compared with, and used where there are none."""

import math

import numpy as np
from scipy.linalg import blas

from lim2.state import Array, Ints

# Below this the scale is multiplied into the weights, long before anything can underflow.
SMALLEST_SCALE = 1e-6

FEW_ARMS = 16  # up to here the draws of one context are quicker one by one, from the same stream

_dger, _ddot = blas.dger, blas.ddot


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


def score(mu: Array, root: Array, a: Array, b: Array, z: Array) -> tuple[Array, Array, Array]:
    """Return mean, scale and degrees of freedom of the score z'w of every arm, of square-root posteriors."""
    whitened = np.dot(root.reshape(-1, len(z)), z).reshape(mu.shape)
    return np.dot(mu, z), np.sqrt(np.vecdot(whitened, whitened) * (b / a)), a + a


def predicted(mu: Array, root: Array, arm: int, z: Array, reward: float) -> tuple[Array, Array, float, float]:
    """Return an arm's mean and root after one more reward.

    And what was predicted of it: half the squared error, in units of its variance, and this variance, in units of the
    noise.
    """
    mean, factor = mu[arm], root[arm]
    whitened = np.dot(factor, z)  # f
    scale = 1.0 + _ddot(whitened, whitened)
    direction = np.dot(whitened, factor)  # S f = cov z
    error = reward - _ddot(mean, z)
    # factor.T is S by columns: its transpose's update is f (S f)'
    changed = _dger(-1.0 / (scale + math.sqrt(scale)), direction, whitened, a=factor.T)
    direction *= error / scale
    direction += mean
    return direction, changed.T, 0.5 * error * error / scale, scale


def sample(
    uniforms: Array,
    batches: int,
    held: int,
    order: Ints | None,
    arms: Ints,
    n_arms: int,  # noqa: ARG001
) -> tuple[Ints, Ints, Ints]:
    """Return slots, rows and arms of tuples, from uniform numbers: each batch sorted by arm, as drawn within an arm.

    ``order`` has the row of every slot; None: a slot's row is the slot.
    """
    slots = (uniforms * held).astype(np.intp)  # a double in [0, 1) times n never rounds up to n
    rows = slots if order is None else order.take(slots)
    played = arms.take(rows)
    if batches == 1:
        by_arm = played.argsort(kind="stable")
    else:
        by_arm = played.reshape(batches, -1).argsort(axis=1, kind="stable")
        by_arm += np.arange(0, len(slots), len(slots) // batches)[:, None]
        by_arm = by_arm.ravel()
    return slots.take(by_arm), rows.take(by_arm), played.take(by_arm)


def draw(
    rng: np.random.Generator, mean: Array, scale: Array, freedom: Array, optimism: float, temperature: float
) -> Array:
    """Return mean + scale * (optimism + temperature * t) of every arm, with t Student-t."""
    drawn = _standard(rng, freedom)
    if temperature != 1.0 or optimism:
        drawn = optimism + temperature * drawn
    drawn *= scale
    drawn += mean
    return drawn


def _standard(rng: np.random.Generator, freedom: Array) -> Array:
    if freedom[0] == math.inf:
        return rng.standard_normal(len(freedom))
    if len(freedom) > FEW_ARMS:
        return rng.standard_t(freedom)
    each = freedom.tolist()
    if each.count(each[0]) == len(each):  # as of items, which share one posterior
        return rng.standard_t(each[0], len(each))
    return np.array(list(map(rng.standard_t, each)))
