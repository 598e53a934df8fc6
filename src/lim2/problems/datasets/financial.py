"""Financial: eight random linear strategies on the daily moves of 21 stocks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from lim2.problems.cache import parsed
from lim2.problems.draw import Standardize, draw_rows, ordered_product, standardized, stream
from lim2.problems.facts import Facts, Rows
from lim2.problems.files import Folder, plain
from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.table import Column, Layout, compare_names, read

if TYPE_CHECKING:
    import polars as pl

_TICKERS = "MSFT GOOGL GE GM CVX SPWR SBUX FDX JPM WMT XOM AAL UN AMZN BP HPE WFC TOT PG BA F"
TICKERS = tuple(_TICKERS.split())
# The header is not in the form of the rows: it has commas, they have spaces.
LAYOUT = Layout(tuple(Column(ticker) for ticker in TICKERS), separator=" ", skip=1)
FACTS = Facts(
    title="Financial",
    files=("raw_stock_contexts",),
    n_features=21,
    n_arms=8,
    paper_features="21",
    published=Rows(3_713),
    preprocessing="not standardised. Each seed draws 8 strategies, uniform in [-1, 1] and scaled to norm "
    "1; the reward of arm i is context times strategy, plus noise of standard deviation 0.01 (i + 1), "
    "i from 0",
)


def parse(paths: list[Path]) -> pl.DataFrame:
    """Return the table of the file.

    Parameters
    ----------
    paths
        raw_stock_contexts.
    """
    with plain(paths[0]) as path:
        frame = read(path, LAYOUT, shown=paths[0])
        with path.open() as file:
            compare_names(file.readline().strip().split(","), TICKERS, paths[0], line=1)
    return frame


@register(
    "financial",
    summary="Eight random linear strategies on the daily moves of 21 stocks.",
    rounds=3713,
    facts=FACTS,
    parse=parse,
)
def financial(
    rounds: int | Literal["all"],
    seed: int,
    n_arms: int = 8,
    noise: float = 0.01,
    standardize: Standardize = None,
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Financial.

    Parameters
    ----------
    rounds
        Number of rows to draw.
    seed
        The same seed gives the same arrays.
    n_arms
        Number of strategies to draw.
    noise
        Arm i has noise of the standard deviation `noise * (i + 1)`, i from 0.
    standardize
        None (as in the paper), `"sample"` or `"online"`.
    replace
        Whether a row may come again.
    data
        The folder with the file; None for `LIM2_DATA`, then the user's cache.
    verify
        Whether a file that is not a known one is an error.
    """
    if n_arms < 1:
        raise ValueError(f"n_arms must be at least 1, not {n_arms}")
    table = parsed("financial", FACTS, parse, data=data, verify=verify)
    rows = draw_rows(table.height, rounds, seed, replace=replace, name="financial")
    contexts = standardized(table.take(rows).to_numpy(), standardize)
    strategies = stream(seed, "strategies").uniform(-1.0, 1.0, (len(TICKERS), n_arms))
    strategies /= np.sqrt((strategies**2).sum(axis=0))
    expected = ordered_product(contexts, strategies)
    scale = noise * np.arange(1, n_arms + 1)
    rewards = expected + scale * stream(seed, "noise").standard_normal(expected.shape)
    return Problem(
        "financial",
        contexts,
        rewards,
        expected,
        seed=seed,
        arm_names=tuple(f"strategy {arm + 1}" for arm in range(n_arms)),
        feature_names=TICKERS,
        settings={"n_arms": n_arms, "noise": noise, "standardize": standardize, "replace": replace},
        notes=table.notes,
    )
