"""One-hot columns of fields with many values, a few of which are frequent."""

from __future__ import annotations

import numpy as np

from lim2.problems.draw import stream
from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.worlds.truth import click_rates, clicks_of


@register(
    "sparse-columns", summary="2,000 one-hot columns: five fields of 400 values (Zipf).", kind="world", rounds=4000
)
def sparse_columns(
    rounds: int, seed: int, n_arms: int = 4, fields: int = 5, values: int = 400, rate: float = 0.27
) -> Problem:
    """Draw contexts with one value in every field; the k-th value is 1 / k times as frequent as the first.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("sparse-columns", seed=0)
    >>> problem.contexts.shape, set(problem.contexts.sum(axis=1).tolist())
    ((4000, 2000), {5.0})
    """
    if fields < 1 or values < 1:
        raise ValueError(f"fields and values must be at least 1, got {fields} and {values}")
    edges = np.cumsum(1.0 / np.arange(1, values + 1))
    ranks = edges[:-1].searchsorted(stream(seed, "contexts").random((rounds, fields)) * edges[-1], side="right")
    columns = ranks + values * np.arange(fields)
    contexts = np.zeros((rounds, fields * values))
    np.put_along_axis(contexts, columns, 1.0, axis=1)
    effects = stream(seed, "weights").standard_normal((fields * values, n_arms))
    scores = np.zeros((rounds, n_arms))
    for field in range(fields):
        scores += 0.7 * effects[columns[:, field]]
    rates = click_rates(rate, scores)
    return Problem(
        "sparse-columns",
        contexts,
        clicks_of(seed, rates),
        rates,
        seed=seed,
        usual_rewards=(0.0, 1.0),
        settings={"n_arms": n_arms, "fields": fields, "values": values, "rate": rate},
    )
