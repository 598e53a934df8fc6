"""The runs behind a report, for the page's script: what each run reached, and the mean course of each agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lim2.experiments.report.charts import Unit, rounded
from lim2.experiments.stats import band
from lim2.experiments.tables import Tables

Array = NDArray[np.float64]

NUMBERS = 80_000  # in all curves of a page together: about 0.5 MB
MAX_POINTS, MIN_POINTS = 100, 8  # of a curve
BINS = 25  # of what happens in a round, at most


@dataclass(frozen=True)
class Metric:
    """What can be chosen to be shown."""

    key: str
    title: str
    unit: Unit
    higher: bool


METRICS = (
    Metric("reward", "Cumulative reward", "", True),
    Metric("regret", "Cumulative regret", "", False),
    Metric("normalised", "Normalised score", "", True),
    Metric("optimal", "Optimal arm played", "%", True),
    Metric("time", "Time per round", "s", False),
    Metric("memory", "Memory", "B", False),
)


def points_of_curves(cells: int) -> int:
    """Return how many points each curve may have, so that a page stays small whatever was run.

    Examples
    --------
    >>> points_of_curves(72), points_of_curves(200), points_of_curves(5000)
    (100, 40, 8)
    """
    return max(MIN_POINTS, min(MAX_POINTS, NUMBERS // (10 * max(cells, 1))))


def data_of(tables: Tables, shades: Mapping[str, int], points: int) -> dict[str, Any]:
    """Return the runs of some tables."""
    numbers = {agent: i for i, agent in enumerate(tables.agents)}
    grids: dict[tuple[float, ...], int] = {}  # rounds of curves, each once
    agents = [{"name": a, "shade": shades[a], "reference": a in tables.references} for a in tables.agents]
    problems = [
        {
            "name": problem,
            "range": tables.range_of(problem),
            "cells": {numbers[agent]: _cell(group, points, grids) for agent, group in _groups(tables, problem)},
        }
        for problem in tables.problems
    ]
    data: dict[str, Any] = rounded({"agents": agents, "problems": problems, "grids": [np.array(at) for at in grids]})
    return data


def _groups(tables: Tables, problem: str) -> Iterator[tuple[str, pl.DataFrame]]:
    for agent in tables.agents:
        group = tables.group(problem, agent)
        if len(group):
            yield agent, group


def _cell(group: pl.DataFrame, points: int, grids: dict[tuple[float, ...], int]) -> dict[str, Any]:
    sizes = group.select(pl.coalesce("agent_mb", "process_mb") * 1e6).to_series()
    return {
        "seeds": group["seed"].to_list(),
        "reward": group["reward"].to_numpy(),
        "regret": group["regret"].to_numpy(),
        "optimal": 100 * group["optimal_rate"].to_numpy(),
        "time": group["us_per_round"].to_numpy() / 1e6,
        "memory": sizes.to_numpy() if not sizes.null_count() else None,
        "curves": {
            key: [grids.setdefault(tuple(at.tolist()), len(grids)), mean, _few_digits(half)]
            for key, (at, mean, half) in _curves(group, points)
        },
    }


def _few_digits(half: Array) -> Array:
    """Return half widths with two digits: more would be noise, and take room."""
    return np.array([float(f"{value:.2g}") for value in half])


def _curves(group: pl.DataFrame, points: int) -> Iterator[tuple[str, tuple[Array, Array, Array]]]:
    """Give rounds, mean and half width of each metric so far, and of reward and regret per round."""
    for key, column, at in (
        ("reward", "curve_reward", "curve_round"),
        ("regret", "curve_regret", "curve_round"),
        ("optimal", "curve_optimal", "curve_round"),
        ("time", "curve_seconds", "curve_round"),
        ("memory", "memory_mb", "memory_round"),
    ):
        curves = curves_of(group, column, at)
        if curves is None:
            continue
        rounds, values = curves
        if key == "optimal":
            values = 100 * values / rounds
        if key == "memory":
            values = 1e6 * values
        some = np.unique(np.linspace(0, len(rounds) - 1, points).round().astype(int))
        yield key, (rounds[some], *band(values[:, some]))
        if key in ("reward", "regret"):
            yield f"{key}/round", per_round(rounds, values, min(BINS, points))


def curves_of(group: pl.DataFrame, column: str, at: str = "curve_round") -> tuple[Array, Array] | None:
    """Return the rounds and the curves of some runs, (runs, points); None where they have none in common."""
    curves, rounds = group[column].to_list(), group[at].to_list()
    if not rounds or not rounds[0] or any(one != rounds[0] for one in rounds):
        return None
    if any(curve is None or len(curve) != len(rounds[0]) for curve in curves):
        return None
    return np.asarray(rounds[0], dtype=float), np.asarray(curves, dtype=float)


def per_round(rounds: Array, values: Array, bins: int = BINS) -> tuple[Array, Array, Array]:
    """Return the middle of each of some bins, and mean and half width of what happens in a round of it."""
    edges = np.unique(np.linspace(0, len(rounds), min(bins, len(rounds)) + 1).astype(int))[1:] - 1
    at = np.concatenate([[0.0], rounds[edges]])
    reached = np.concatenate([np.zeros((len(values), 1)), values[:, edges]], axis=1)
    return (at[1:] + at[:-1]) / 2, *band(np.diff(reached, axis=1) / np.diff(at))
