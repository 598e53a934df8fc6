"""Scania Trucks: whether a failure is that of the air pressure system."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from lim2.problems.cache import parsed
from lim2.problems.classification import classification
from lim2.problems.draw import Standardize
from lim2.problems.errors import DataError
from lim2.problems.facts import LABEL, Facts, Rows
from lim2.problems.files import Folder, plain
from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.table import Column, Layout, read

if TYPE_CHECKING:
    import polars as pl

ARMS = ("neg", "pos")
HISTOGRAMS = ["ag", "ay", "az", "ba", "cn", "cs", "ee"]
MISNAMED = {"am_000": "am_0", "ec_000": "ec_00"}
_LETTERS = "abcdefghijklmnopqrstuvxyz"  # Swedish: no w


def _names() -> list[str]:
    pairs = [first + second for first in "abcde" for second in _LETTERS]
    pairs = pairs[: pairs.index("eg") + 1]
    names = [f"{pair}_{i:03d}" for pair in pairs for i in range(10 if pair in HISTOGRAMS else 1)]
    return [MISNAMED.get(name, name) for name in names]


FEATURES = _names()
LAYOUT = Layout(
    (Column("class", "text", values=ARMS), *(Column(name, "float", missing="na") for name in FEATURES)),
    header=True,
)
# What the challenge charges: 10 for checking a truck in vain, 500 for missing a faulty one. Rows are classes.
COSTS = np.array([[0.0, -10.0], [-500.0, 0.0]])
FACTS = Facts(
    title="Scania Trucks",
    files=("aps_failure_training_set.csv",),
    n_features=170,
    n_arms=2,
    paper_features="170",
    published=Rows(60_000, (59_000, 1_000)),
    copies=(Rows(9_000, (8_827, 173)),),
    preprocessing="the training file, with or without its preamble; a missing value (na) is the mean of its "
    'column. Reward 1 for the right class; `rewards="costs"` for the challenge\'s costs of 10 and 500',
)


def parse(paths: list[Path]) -> pl.DataFrame:
    """Return the table of the file.

    Parameters
    ----------
    paths
        aps_failure_training_set.csv, as published or without the lines before its header.
    """
    import polars as pl

    with plain(paths[0]) as path:
        layout = Layout(LAYOUT.columns, header=True, skip=_preamble(path, paths[0]))
        frame = read(path, layout, shown=paths[0])
    label = (pl.col("class") == "pos").cast(pl.UInt8).alias(LABEL)
    return frame.with_columns(label).drop("class")


def _preamble(path: Path, shown: Path) -> int:
    with path.open() as file:
        for number, line in enumerate(file):
            if line.startswith(("class,", '"class",')):
                return number
            if number == 100:
                break
    if path.stat().st_size == 0:
        return 0
    raise DataError(
        shown, "no header that starts with 'class,' in the first 100 lines; download the file again", line=1
    )


@register("scania", summary="Is a truck's failure that of the air pressure system?", facts=FACTS, parse=parse)
def scania(
    rounds: int | Literal["all"],
    seed: int,
    rewards: Literal["right", "costs"] = "right",
    missing: Literal["mean", "zero"] = "mean",
    standardize: Standardize = "sample",
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Scania Trucks.

    Parameters
    ----------
    rounds
        Number of rows to draw.
    seed
        The same seed gives the same arrays.
    rewards
        `"right"`: 1 for the right class, else 0. `"costs"`: the challenge's, -10 for a check in vain and -500
        for a faulty truck that is missed.
    missing
        A missing value is the `"mean"` of its column (over the same rows as are used to standardise), or
        `"zero"`.
    standardize
        `"sample"` (as in the paper), `"online"` or None.
    replace
        Whether a row may come again.
    data
        The folder with the file; None for `LIM2_DATA`, then the user's cache.
    verify
        Whether a file that is not a known one is an error.
    """
    import polars as pl

    if rewards not in ("right", "costs") or missing not in ("mean", "zero"):
        raise ValueError(
            f"rewards must be 'right' or 'costs' and missing 'mean' or 'zero', not {rewards!r} and {missing!r}"
        )
    table = parsed("scania", FACTS, parse, data=data, verify=verify)
    if missing == "zero":
        filled = table.codes.with_columns(pl.col(FEATURES).fill_null(0.0))
        table = dataclasses.replace(table, codes=filled)
    return classification(
        "scania",
        table,
        ARMS,
        rounds,
        seed,
        standardize=standardize,
        replace=replace,
        rewards=COSTS if rewards == "costs" else None,
        settings={"rewards": rewards, "missing": missing},
    )
