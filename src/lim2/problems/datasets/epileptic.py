"""Epileptic: what a brain was doing during one second of an EEG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lim2.problems.cache import parsed
from lim2.problems.classification import classification
from lim2.problems.draw import Standardize
from lim2.problems.facts import LABEL, Facts, Rows
from lim2.problems.files import Folder, plain
from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.table import Column, Layout, compact, read

if TYPE_CHECKING:
    import polars as pl

ARMS = ("seizure", "tumour area", "healthy area", "eyes closed", "eyes open")
LAYOUT = Layout(
    (
        Column("", "text"),
        *(Column(f"X{i}", "int", -10_000, 10_000) for i in range(1, 179)),
        Column("y", "int", 1, 5),
    ),
    header=True,
)
FACTS = Facts(
    title="Epileptic",
    files=("data.csv",),
    n_features=178,
    n_arms=5,
    paper_features="178",
    published=Rows(11_500, (2_300,) * 5),
    preprocessing="the first column, an identifier, is dropped",
)


def parse(paths: list[Path]) -> pl.DataFrame:
    """Return the table of the file.

    Parameters
    ----------
    paths
        data.csv. Its first column has no name, or the name that some copies give it.
    """
    import polars as pl

    with plain(paths[0]) as path:
        with path.open() as file:
            named = file.readline().lstrip('"').startswith("Unnamed")
        layout = Layout((Column("Unnamed", "text"), *LAYOUT.columns[1:]), header=True) if named else LAYOUT
        frame = read(path, layout, shown=paths[0])
    return compact(frame.drop(frame.columns[0]).with_columns(pl.col("y") - 1).rename({"y": LABEL}))


@register("epileptic", summary="What a brain was doing during one second of an EEG.", facts=FACTS, parse=parse)
def epileptic(
    rounds: int | Literal["all"],
    seed: int,
    standardize: Standardize = "sample",
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Epileptic.

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
    table = parsed("epileptic", FACTS, parse, data=data, verify=verify)
    return classification("epileptic", table, ARMS, rounds, seed, standardize=standardize, replace=replace)
