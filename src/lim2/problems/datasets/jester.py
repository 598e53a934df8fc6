"""Jester: recommend one of eight jokes, knowing how a user liked 32 others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lim2.problems.dataset import Dataset, Rounds
from lim2.problems.draw import Standardize, draw_rows, standardized, stream
from lim2.problems.errors import DataError
from lim2.problems.facts import FACTS
from lim2.problems.files import Folder, find, opened, plain
from lim2.problems.problem import Problem
from lim2.problems.table import Column, Layout, read

if TYPE_CHECKING:
    import polars as pl

DENSE = "jester_data_40jokes_19181users.npy"
SOURCE = "jester-data-1.csv"
JOKES = 40
NOT_RATED = 99.0


def parse(paths: Sequence[Path], layout: Layout) -> pl.DataFrame:
    """Return the table of 40 ratings a user, from the array or from all ratings."""
    import polars as pl

    path = paths[0]
    ratings = _from_dense(path) if ".npy" in path.suffixes else _from_source(path, layout)
    return pl.DataFrame(ratings, schema=[f"joke {i}" for i in range(1, JOKES + 1)], orient="row")


def _from_dense(path: Path) -> NDArray[np.float64]:
    with opened(path) as file:
        try:
            ratings = np.load(file, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise DataError(path, f"not a whole NumPy file ({error}); download it again", line=1) from error
    if ratings.ndim != 2 or ratings.shape[1] != JOKES or not np.issubdtype(ratings.dtype, np.number):
        raise DataError(path, f"an array {ratings.dtype} {ratings.shape}, expected numbers (users, {JOKES})")
    bad = np.argwhere(~(np.abs(ratings) <= 10))
    if len(bad):
        user, joke = bad[0]
        raise DataError(
            path,
            f"a rating of {ratings[user, joke]}, expected -10 .. 10; the file is damaged",
            line=int(user) + 1,
            column=int(joke) + 1,
        )
    dense: NDArray[np.float64] = ratings.astype(np.float64)
    return dense


def _from_source(path: Path, layout: Layout) -> NDArray[np.float64]:
    with plain(path) as copy:
        table = read(copy, layout, shown=path).to_numpy()
    ratings = table[:, 1:]
    rated = ratings != NOT_RATED
    odd = np.flatnonzero(rated.sum(axis=1) != table[:, 0])
    if len(odd):
        raise DataError(
            path,
            f"{rated[odd[0]].sum()} ratings where the count says {table[odd[0], 0]:.0f}; the file is damaged",
            line=int(odd[0]) + 1,
            column="count",
        )
    most_rated = np.sort(np.argsort(-rated.sum(axis=0), kind="stable")[:JOKES])
    dense: NDArray[np.float64] = ratings[rated[:, most_rated].all(axis=1)][:, most_rated]
    return dense


JESTER = Dataset(
    "jester",
    "Recommend one of eight jokes to a user who rated 32 others.",
    arms=(),
    layout=Layout(
        (Column("count", "int", 0, 100), *(Column(f"joke {i}", "float", -10, NOT_RATED) for i in range(1, 101)))
    ),
    facts=FACTS["jester"],
    parse=parse,
)


@JESTER.register
def jester(
    rounds: Rounds,
    seed: int,
    n_arms: int = 8,
    shuffle_jokes: bool = True,
    standardize: Standardize = None,
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Jester. Contexts and rewards are ratings from -10 to 10.

    Of the 40 jokes `n_arms` are arms: the seed decides which, or they are the last ones (`shuffle_jokes=False`).
    """
    if not 1 <= n_arms < JOKES:
        raise ValueError(f"n_arms must be from 1 to {JOKES - 1}, not {n_arms}")
    files = (SOURCE,) if find(DENSE, data) is None and find(SOURCE, data) else (DENSE,)
    table = JESTER.table(data, verify, files)
    rows = draw_rows(table.height, rounds, seed, replace=replace, name="jester")
    order = stream(seed, "jokes").permutation(JOKES) if shuffle_jokes else np.arange(JOKES)
    ratings = table.take(rows).to_numpy()[:, order]
    names = [f"joke {joke + 1}" for joke in order]
    return Problem(
        "jester",
        standardized(ratings[:, :-n_arms], standardize),
        ratings[:, -n_arms:].copy(),
        seed=seed,
        arm_names=tuple(names[-n_arms:]),
        feature_names=tuple(names[:-n_arms]),
        settings={
            "n_arms": n_arms,
            "shuffle_jokes": shuffle_jokes,
            "standardize": standardize,
            "replace": replace,
        },
        notes=table.notes,
    )
