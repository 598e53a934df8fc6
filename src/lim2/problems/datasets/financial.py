"""Financial: eight random linear strategies on the daily moves of 21 stocks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lim2.problems.dataset import Dataset, Rounds
from lim2.problems.draw import Standardize, draw_rows, ordered_product, standardized, stream
from lim2.problems.facts import FACTS
from lim2.problems.files import Folder, plain
from lim2.problems.problem import Problem
from lim2.problems.table import Column, Layout, compare_names, read

if TYPE_CHECKING:
    import polars as pl

_TICKERS = "MSFT GOOGL GE GM CVX SPWR SBUX FDX JPM WMT XOM AAL UN AMZN BP HPE WFC TOT PG BA F"
TICKERS = _TICKERS.split()


def parse(paths: Sequence[Path], layout: Layout) -> pl.DataFrame:
    """Return the table of the file."""
    with plain(paths[0]) as path:
        frame = read(path, layout, shown=paths[0])
        with path.open() as file:
            compare_names(file.readline().strip().split(","), TICKERS, paths[0], line=1)
    return frame


FINANCIAL = Dataset(
    "financial",
    "Eight random linear strategies on the daily moves of 21 stocks.",
    arms=(),
    # The header is not in the form of the rows: it has commas, they have spaces.
    layout=Layout(tuple(Column(ticker) for ticker in TICKERS), separator=" ", skip=1),
    facts=FACTS["financial"],
    parse=parse,
    rounds=3713,
)


@FINANCIAL.register
def financial(
    rounds: Rounds,
    seed: int,
    n_arms: int = 8,
    noise: float = 0.01,
    standardize: Standardize = None,
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Financial. Arm i, from 0, has noise of the standard deviation `noise * (i + 1)`."""
    if n_arms < 1:
        raise ValueError(f"n_arms must be at least 1, not {n_arms}")
    table = FINANCIAL.table(data, verify)
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
        feature_names=tuple(TICKERS),
        settings={"n_arms": n_arms, "noise": noise, "standardize": standardize, "replace": replace},
        notes=table.notes,
    )
