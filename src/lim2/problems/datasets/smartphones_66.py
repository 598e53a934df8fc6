"""Smartphones, only the 66 means and standard deviations among its 561 features."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lim2.problems.cache import parsed
from lim2.problems.classification import classification
from lim2.problems.datasets.smartphones import ARMS
from lim2.problems.draw import Standardize
from lim2.problems.facts import LABEL, Facts, Rows
from lim2.problems.files import Folder, plain
from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.table import Column, Layout, read

if TYPE_CHECKING:
    import polars as pl

_AXES = (
    "tBodyAcc tGravityAcc tBodyAccJerk tBodyGyro tBodyGyroJerk",
    "fBodyAcc fBodyAccJerk fBodyGyro",
)
_MAGNITUDES = (
    "tBodyAccMag tGravityAccMag tBodyAccJerkMag tBodyGyroMag tBodyGyroJerkMag",
    "fBodyAccMag fBodyBodyAccJerkMag fBodyBodyGyroMag fBodyBodyGyroJerkMag",
)
SIGNALS = [
    name
    for axes, magnitudes in zip(_AXES, _MAGNITUDES, strict=True)
    for name in [f"{signal}{axis}" for signal in axes.split() for axis in "XYZ"] + magnitudes.split()
]
FEATURES = [f"{moment}_{signal}" for moment in ("mean", "std") for signal in SIGNALS]
LAYOUT = Layout(
    (
        Column("subject", "int", 1, 30),
        Column("activity", "text", values=ARMS),
        *(Column(name, "float", -1, 1) for name in FEATURES),
    ),
    header=True,
)
FACTS = Facts(
    title="Smartphones, 66 features",
    files=("har_mean_std_66features.csv",),
    n_features=66,
    n_arms=6,
    paper_features="561",
    published=Rows(10_299, (1_722, 1_544, 1_406, 1_777, 1_906, 1_944)),
    preprocessing="training and test rows together; the subject is dropped",
    difference="only the features named mean and std of 33 signals; `smartphones` has all 561",
)


def parse(paths: list[Path]) -> pl.DataFrame:
    """Return the table of the file.

    Parameters
    ----------
    paths
        har_mean_std_66features.csv.
    """
    import polars as pl

    with plain(paths[0]) as path:
        frame = read(path, LAYOUT, shown=paths[0])
    label = pl.col("activity").cast(pl.Enum(ARMS)).to_physical().cast(pl.UInt8).alias(LABEL)
    return frame.with_columns(label).drop("subject", "activity")


@register("smartphones-66", summary="Smartphones with 66 of its 561 features.", facts=FACTS, parse=parse)
def smartphones_66(
    rounds: int | Literal["all"],
    seed: int,
    standardize: Standardize = "sample",
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Smartphones with 66 features.

    Parameters
    ----------
    rounds
        Number of rows to draw.
    seed
        The same seed gives the same arrays.
    standardize
        `"sample"` (as in the paper), `"online"` or None.
    replace
        Whether a row may come again.
    data
        The folder with the file; None for `LIM2_DATA`, then the user's cache.
    verify
        Whether a file that is not a known one is an error.
    """
    table = parsed("smartphones-66", FACTS, parse, data=data, verify=verify)
    return classification("smartphones-66", table, ARMS, rounds, seed, standardize=standardize, replace=replace)
