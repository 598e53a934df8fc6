"""Shuttle Statlog: the state of a space shuttle's radiator from nine sensors."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np

from lim2.problems.draw import Standardize, draw_rows, one_per_right_arm, standardized
from lim2.problems.problem import Problem
from lim2.problems.registry import register


@register("statlog", summary="Shuttle Statlog: the state of a radiator from nine sensors.")
def statlog(rounds: int, seed: int, standardize: Standardize = "sample", data: str | None = None) -> Problem:
    """Draw Statlog.

    Parameters
    ----------
    rounds
        How many rounds to draw.
    seed
        The same seed gives the same arrays.
    standardize
        How contexts are standardised.
    data
        The folder with the file; None for `LIM2_DATA`.
    """
    path = Path(data or os.environ["LIM2_DATA"]) / "shuttle.trn.gz"
    with gzip.open(path, "rt") as file:
        table = np.loadtxt(file)
    rows = draw_rows(len(table), rounds, seed, name="statlog")
    contexts = standardized(table[rows, :9], standardize)
    labels = table[rows, 9].astype(np.int64) - 1
    return Problem("statlog", contexts, one_per_right_arm(labels, 7), seed=seed)
