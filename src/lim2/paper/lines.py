"""A row of the paper's tables, from runs: what each method earned, shuffle by shuffle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lim2.experiments.summary import REFERENCE, Row, normalized
from lim2.experiments.tables import Tables
from lim2.paper.published import DATASETS, METHODS, Dataset, dataset

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Line:
    """The runs on a dataset.

    Examples
    --------
    Scores are of the seeds that all methods have played, so that no method has an easier draw:

    >>> rewards = {"LiM2": {0: 90.0, 1: 50.0}, "LinearTS": {0: 60.0}, "Uniform": {0: 10.0, 1: 10.0}}
    >>> line = Line(dataset("statlog"), "statlog", 9, {}, rewards)
    >>> line.seeds, line.scores["LinearTS"]
    ((0,), 0.625)
    """

    published: Dataset
    problem: str  # may be a variant of the paper's dataset
    features: int
    cells: dict[str, Row]
    rewards: dict[str, dict[int, float]]  # by method, and the random policy's under its name, then by seed

    @property
    def title(self) -> str:
        """What the paper calls the dataset."""
        return self.published.title

    @property
    def methods(self) -> list[str]:
        """The paper's methods that have played, in the paper's order."""
        return [method for method in METHODS if method in self.rewards]

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """The shuffles that all methods and the random policy have played."""
        return tuple(sorted(set.intersection(*(set(seeds) for seeds in self.rewards.values()))))

    @cached_property
    def scores(self) -> dict[str, float]:
        """The paper's normalised score of each method over the common shuffles."""
        if REFERENCE not in self.rewards or not self.seeds:
            return {}
        means = [self._mean(method) for method in self.methods]
        scores = normalized(means, self._mean(REFERENCE))
        return {method: s for method, s in zip(self.methods, scores, strict=True) if s is not None}

    @cached_property
    def span(self) -> float:
        """From the random policy to the best method, in rewards, over the common shuffles."""
        return max(self._mean(method) for method in self.methods) - self._mean(REFERENCE)

    def _mean(self, method: str) -> float:
        return float(np.mean([self.rewards[method][seed] for seed in self.seeds]))

    def has(self, *methods: str) -> bool:
        """Say whether all of these have played."""
        return all(method in self.rewards for method in methods)

    def differences(self, first: str, second: str) -> Array:
        """Return what one method earned more than another, on every shuffle that both have played."""
        both = sorted(set(self.rewards[first]) & set(self.rewards[second]))
        return np.array([self.rewards[first][seed] - self.rewards[second][seed] for seed in both])


def lines_of(tables: Tables) -> list[Line]:
    """Return the datasets that were played, in the paper's order."""
    found: dict[str, Line] = {}
    for row in tables.rows:
        if row["agent"] not in (*METHODS, REFERENCE) or not _known(row["problem"]):
            continue
        published = dataset(row["problem"])
        group = tables.group(row["problem"], row["agent"])
        line = found.setdefault(published.title, Line(published, row["problem"], group["n_features"][0], {}, {}))
        line.cells[row["agent"]] = row
        line.rewards[row["agent"]] = dict(group.select("seed", "reward").iter_rows())
    return [found[row.title] for row in DATASETS if row.title in found and found[row.title].methods]


def _known(problem: str) -> bool:
    return any(problem == row.problem or problem.startswith(f"{row.problem}-") for row in DATASETS)


def averages_of(lines: Sequence[Line], methods: Sequence[str] = METHODS) -> dict[str, float]:
    """Return each method's mean score over the datasets that it has played."""
    played = {method: [line.scores[method] for line in lines if method in line.scores] for method in methods}
    return {method: float(np.mean(scores)) for method, scores in played.items() if scores}


def medians_of(lines: Sequence[Line], methods: Sequence[str] = METHODS) -> dict[str, float]:
    """Return each method's median score over the datasets that it has played."""
    played = {method: [line.scores[method] for line in lines if method in line.scores] for method in methods}
    return {method: float(np.median(scores)) for method, scores in played.items() if scores}


def alike(lines: Sequence[Line], methods: Sequence[str]) -> list[Line]:
    """Return the datasets on which all of these methods have a score: averages over them compare."""
    return [line for line in lines if set(methods) <= set(line.scores)]
