"""The floor of a LiM2 round: the BLAS and LAPACK calls that its arithmetic needs, and nothing else.

``calls_of_a_round`` lists them for an agent as it stands (its sizes, what its buffer holds of each arm, a batch drawn
from it), on arrays of their own that are laid out like the agent's, so that caches are as warm or as cold. Element-wise
work, random numbers, validation and Python are not in the list: they are what the ratio to the floor shows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

import lim2
from lim2.memory import sample

Array = NDArray[np.float64]
Call = Callable[[], Any]


def calls_of_a_round(agent: lim2.Agent, played: int, rng: np.random.Generator) -> list[tuple[str, Call]]:
    """Return (what it is for, the call) for each BLAS or LAPACK call of one act and update."""
    algorithm, posterior, memory = agent.algorithm, agent.state.posterior, agent.state.memory
    assert isinstance(algorithm, lim2.algorithms.LiM2)
    d, g, n_arms, size = agent.n_features, posterior.mu.shape[1], agent.n_arms, algorithm.batch_size(agent.n_arms)
    counts = memory.counts.tolist()
    batch = sample(memory, size, rng)
    contexts = memory.contexts[memory.rows()]
    features = rng.random((len(contexts), g))
    covs, mu = posterior.cov.copy(), posterior.mu.copy()
    layer, head = rng.random((d, g)), rng.random((n_arms, g))
    x, z = rng.random(d), rng.random(g)
    hidden, flow, outputs = (rng.random((size, k)) for k in (g, g, n_arms))
    ones = np.ones(size)

    calls: list[tuple[str, Call]] = [
        ("act: features", lambda: np.dot(x[None], layer)),
        ("act: means", lambda: np.dot(mu, z)),
        ("act: variances", lambda: np.dot(np.dot(covs.reshape(-1, g), z).reshape(n_arms, g), z)),
        ("train: forward", lambda: np.dot(batch.contexts, layer)),
        ("train: gradient of the head", lambda: np.dot(outputs.T, hidden)),
        ("train: gradient of the head's bias", lambda: np.dot(ones, outputs)),
        ("train: gradient of the layer", lambda: np.dot(batch.contexts.T, flow)),
        ("train: gradient of the layer's bias", lambda: np.dot(ones, flow)),
        ("features of the buffer", lambda: np.dot(contexts, layer)),
    ]
    ends = np.cumsum(counts).tolist()
    for arm, own in batch.groups:
        calls += _matching_calls(hidden[own], flow[own], covs[arm])
    for arm, (count, end) in enumerate(zip(counts, ends, strict=True)):
        rows = features[end - count : end]
        if 0 < count < g:
            calls += _few_calls(rows, covs[arm])
        elif count:
            calls += _many_calls(rows, covs[arm])
        if arm == played:
            calls += _mean_calls(rows, covs[arm], head[arm])
    return calls


def _matching_calls(new: Array, weighted: Array, cov: Array) -> list[tuple[str, Call]]:
    target = cov.copy()
    return [
        ("match: variances", lambda: np.dot(new, cov)),
        ("match: step", lambda: blas.dgemm(-1e-9, weighted.T, new.T, 1.0, target.T, trans_b=1, overwrite_c=1)),
    ]


def _few_calls(rows: Array, cov: Array) -> list[tuple[str, Call]]:
    projected = np.dot(rows, cov)
    inner = np.dot(projected, rows.T) + np.eye(len(rows))
    factor, _ = lapack.dpotrf(inner.T, lower=1, clean=0)
    return [
        ("refit, few rows: Z A", lambda: np.dot(rows, cov)),
        ("refit, few rows: Z A Z'", lambda: np.dot(projected, rows.T)),
        ("refit, few rows: factor", lambda: lapack.dpotrf(inner.T, lower=1, clean=0)),
        ("refit, few rows: solve", lambda: blas.dtrsm(1.0, factor, projected.T, side=1, lower=1, trans_a=1)),
        ("refit, few rows: W'W", lambda: np.dot(projected.T, projected)),
    ]


def _many_calls(rows: Array, cov: Array) -> list[tuple[str, Call]]:
    gram = np.dot(rows.T, rows)
    root, _ = lapack.dpotrf(cov.T, lower=1, clean=1)
    inner = root.T @ gram @ root + np.eye(len(cov))
    factor, _ = lapack.dpotrf(inner, lower=1, clean=0)
    return [
        ("refit, many rows: Z'Z", lambda: np.dot(rows.T, rows)),
        ("refit, many rows: factor of A", lambda: lapack.dpotrf(cov.T, lower=1, clean=1)),
        ("refit, many rows: L'G", lambda: blas.dtrmm(1.0, root, gram.T, side=0, lower=1, trans_a=1)),
        ("refit, many rows: (L'G) L", lambda: blas.dtrmm(1.0, root, gram.T, side=1, lower=1)),
        ("refit, many rows: factor", lambda: lapack.dpotrf(inner, lower=1, clean=0)),
        ("refit, many rows: solve", lambda: blas.dtrsm(1.0, factor, root, side=1, lower=1, trans_a=1)),
        ("refit, many rows: W'W", lambda: np.dot(root, root.T)),
    ]


def _mean_calls(rows: Array, cov: Array, weights: Array) -> list[tuple[str, Call]]:
    residual = np.ones(len(rows))
    return [
        ("mean: Z mu0", lambda: np.dot(rows, weights)),
        ("mean: Z'e", lambda: np.dot(residual, rows)),
        ("mean: A Z'e", lambda: np.dot(cov, weights)),
        ("mean: Z step", lambda: np.dot(rows, weights)),
        ("mean: Z'(r - Z mu)", lambda: np.dot(residual, rows)),
    ]
