"""Covertype: which trees grow on a patch of forest, from maps."""

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

ARMS = (
    "Spruce/Fir",
    "Lodgepole Pine",
    "Ponderosa Pine",
    "Cottonwood/Willow",
    "Aspen",
    "Douglas-fir",
    "Krummholz",
)
MEASURES = (
    "Elevation",
    "Aspect",
    "Slope",
    "Horizontal_Distance_To_Hydrology",
    "Vertical_Distance_To_Hydrology",
    "Horizontal_Distance_To_Roadways",
    "Hillshade_9am",
    "Hillshade_Noon",
    "Hillshade_3pm",
    "Horizontal_Distance_To_Fire_Points",
)
LAYOUT = Layout(
    (
        *(Column(name, "int", -1_000, 10_000) for name in MEASURES),
        *(Column(f"Wilderness_Area{i}", "int", 0, 1) for i in range(1, 5)),
        *(Column(f"Soil_Type{i}", "int", 0, 1) for i in range(1, 41)),
        Column("Cover_Type", "int", 1, 7),
    )
)
FACTS = Facts(
    title="Covertype",
    files=("covtype.data",),
    n_features=54,
    n_arms=7,
    paper_features="54",
    published=Rows(581_012, (211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510)),
    preprocessing="none: areas and soils are 0/1 columns already",
)


def parse(paths: list[Path]) -> pl.DataFrame:
    """Return the table of the file.

    Parameters
    ----------
    paths
        covtype.data.
    """
    import polars as pl

    with plain(paths[0]) as path:
        frame = read(path, LAYOUT, shown=paths[0])
    return compact(frame.with_columns(pl.col("Cover_Type") - 1).rename({"Cover_Type": LABEL}))


@register("covertype", summary="Which trees grow on a patch of forest, from maps.", facts=FACTS, parse=parse)
def covertype(
    rounds: int | Literal["all"],
    seed: int,
    standardize: Standardize = "sample",
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Covertype.

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
    table = parsed("covertype", FACTS, parse, data=data, verify=verify)
    return classification("covertype", table, ARMS, rounds, seed, standardize=standardize, replace=replace)
