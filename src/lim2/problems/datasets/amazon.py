"""Amazon: how many stars a review of a phone gives, from its words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lim2.problems.dataset import Dataset, Rounds
from lim2.problems.draw import draw_rows, one_per_right_arm
from lim2.problems.facts import FACTS, LABEL
from lim2.problems.files import Folder, plain
from lim2.problems.problem import Problem
from lim2.problems.table import Column, Layout, read

if TYPE_CHECKING:
    import polars as pl

PART = 50_000  # reviews
PADDING, UNKNOWN, FIRST_WORD = 0, 1, 2
# Words, endings such as 's and 'll, and the marks that carry a mood; all else separates.
TOKEN = r"'[a-z]+|[a-z0-9]+|[(),!?]"


def parse(paths: Sequence[Path], layout: Layout) -> pl.DataFrame:
    """Return the table of the file: each review as the numbers of its words, the most frequent word being 0."""
    import polars as pl

    with plain(paths[0]) as path:
        frame = read(path, layout, shown=paths[0]).select("Rating", "Reviews")
    # Part by part, because the words of all reviews at once take more than a GiB.
    parts = [frame["Reviews"][start : start + PART] for start in range(0, frame.height, PART)]
    counts = pl.concat([_words(part).explode().drop_nulls().value_counts(name="n") for part in parts])
    total = counts.group_by("Reviews").agg(pl.col("n").cast(pl.Int64).sum())
    # By frequency, then alphabetically, so that equal counts give the same numbers on every machine.
    words = total.sort([-pl.col("n"), pl.col("Reviews")])["Reviews"]
    return pl.DataFrame(
        {
            "tokens": pl.concat([_numbered(_words(part), words) for part in parts]),
            "words": pl.repeat(len(words), frame.height, dtype=pl.UInt32, eager=True),
            LABEL: (frame["Rating"] - 1).cast(pl.UInt8),
        }
    )


def _words(reviews: pl.Series) -> pl.Series:
    return reviews.str.to_lowercase().str.extract_all(TOKEN)


def _numbered(reviews: pl.Series, words: pl.Series) -> pl.Series:
    import polars as pl

    return reviews.cast(pl.List(pl.Enum(words))).list.eval(pl.element().to_physical().cast(pl.UInt32))


def _padded(tokens: pl.Series, length: int, known: int) -> NDArray[np.int32]:
    import polars as pl

    cut = tokens.list.head(length)
    counts = cut.list.len().cast(pl.Int64).to_numpy()
    ids = cut.filter(cut.list.len() > 0).explode().cast(pl.Int32).to_numpy() + FIRST_WORD
    out = np.full((len(cut), length), PADDING, dtype=np.int32)
    out[np.arange(length) < counts[:, None]] = np.where(ids < known + FIRST_WORD, ids, UNKNOWN)
    return out


AMAZON = Dataset(
    "amazon",
    "How many stars a review of a phone gives, from its words.",
    arms=("1 star", "2 stars", "3 stars", "4 stars", "5 stars"),
    layout=Layout(
        (
            Column("Product Name", "text"),
            Column("Brand Name", "text"),
            Column("Price", "text"),
            Column("Rating", "int", 1, 5),
            Column("Reviews", "text"),
            Column("Review Votes", "text"),
        ),
        header=True,
    ),
    facts=FACTS["amazon"],
    parse=parse,
)


@AMAZON.register
def amazon(
    rounds: Rounds,
    seed: int,
    length: int = 60,
    vocabulary: int | None = None,
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Amazon. Contexts are token ids; `problem.n_tokens` says how many there are.

    A review is cut to `length` tokens, and a shorter one is padded with 0. Words outside the `vocabulary`, the number
    of most frequent words with separate ids (None: all), get the id 1.
    """
    if length < 1 or (vocabulary is not None and vocabulary < 1):
        raise ValueError(f"length and vocabulary must be at least 1, not {length} and {vocabulary}")
    table = AMAZON.table(data, verify)
    rows = draw_rows(table.height, rounds, seed, replace=replace, name="amazon")
    drawn = table.take(rows)
    words = int(table.codes["words"][0])
    known = words if vocabulary is None else min(vocabulary, words)
    return Problem(
        "amazon",
        _padded(drawn["tokens"], length, known),
        one_per_right_arm(drawn[LABEL].to_numpy(), len(AMAZON.arms)),
        seed=seed,
        arm_names=AMAZON.arms,
        n_tokens=known + FIRST_WORD,
        settings={"length": length, "vocabulary": vocabulary, "replace": replace},
        notes=table.notes,
    )
