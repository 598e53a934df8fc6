"""Shuttle Statlog: the state of a space shuttle's radiator from nine sensors."""

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

ARMS = ("Rad Flow", "Fpv Close", "Fpv Open", "High", "Bypass", "Bpv Close", "Bpv Open")
LAYOUT = Layout((*(Column(f"sensor {i}", "int") for i in range(1, 10)), Column("class", "int", 1, 7)), separator=" ")
FACTS = Facts(
    title="Statlog",
    files=("shuttle.trn",),
    alternatives=(("shuttle.tst",),),
    n_features=9,
    n_arms=7,
    paper_features="9",
    published=Rows(43_500, (34_108, 37, 132, 6_748, 2_458, 6, 11)),
    copies=(Rows(14_500, (11_478, 13, 39, 2_155, 809, 4, 2)),),
    preprocessing='the training file; `split="test"` for shuttle.tst',
)


def parse(paths: list[Path]) -> pl.DataFrame:
    """Return the table of one of the two files.

    Parameters
    ----------
    paths
        shuttle.trn or shuttle.tst.
    """
    import polars as pl

    with plain(paths[0]) as path:
        frame = read(path, LAYOUT, shown=paths[0])
    return compact(frame.with_columns(pl.col("class") - 1).rename({"class": LABEL}))


@register("statlog", summary="The state of a space shuttle's radiator from nine sensors.", facts=FACTS, parse=parse)
def statlog(
    rounds: int | Literal["all"],
    seed: int,
    split: Literal["train", "test"] = "train",
    standardize: Standardize = "sample",
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Statlog.

    Parameters
    ----------
    rounds
        Number of rows to draw.
    seed
        The same seed gives the same arrays.
    split
        `"train"`, shuttle.trn, as in the paper, or `"test"`, shuttle.tst.
    standardize
        `"sample"` (as in the paper), `"online"` or None.
    replace
        Whether a row may come again.
    data
        The folder with the file; None for `LIM2_DATA`, then the user's cache.
    verify
        Whether a file that is not a known one is an error.
    """
    files = {"train": "shuttle.trn", "test": "shuttle.tst"}
    if split not in files:
        raise ValueError(f"split must be 'train' or 'test', not {split!r}")
    table = parsed("statlog", FACTS, parse, data=data, verify=verify, files=(files[split],))
    return classification(
        "statlog",
        table,
        ARMS,
        rounds,
        seed,
        standardize=standardize,
        replace=replace,
        settings={"split": split},
    )
