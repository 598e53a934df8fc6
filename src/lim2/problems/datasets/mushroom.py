"""Mushroom: eat it or not; a poisonous one may or may not harm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from lim2.problems.cache import parsed
from lim2.problems.classification import encoded
from lim2.problems.draw import Standardize, draw_rows, standardized, stream
from lim2.problems.facts import LABEL, Facts, Rows
from lim2.problems.files import Folder, plain
from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.table import Column, Layout, coded, occurring, read

if TYPE_CHECKING:
    import polars as pl

# The values that the file's documentation allows, attribute by attribute.
ATTRIBUTES = {
    "cap-shape": "bcxfks",
    "cap-surface": "fgys",
    "cap-color": "nbcgrpuewy",
    "bruises": "tf",
    "odor": "alcyfmnps",
    "gill-attachment": "adfn",
    "gill-spacing": "cwd",
    "gill-size": "bn",
    "gill-color": "knbhgropuewy",
    "stalk-shape": "et",
    "stalk-root": "bcuezr?",
    "stalk-surface-above-ring": "fyks",
    "stalk-surface-below-ring": "fyks",
    "stalk-color-above-ring": "nbcgopewy",
    "stalk-color-below-ring": "nbcgopewy",
    "veil-type": "pu",
    "veil-color": "nowy",
    "ring-number": "not",
    "ring-type": "ceflnpsz",
    "spore-print-color": "knbhrouwy",
    "population": "acnsvy",
    "habitat": "glmpuwd",
}
LAYOUT = Layout(
    (
        Column("class", "text", values=("e", "p")),
        *(Column(name, "text", values=tuple(values)) for name, values in ATTRIBUTES.items()),
    )
)
FACTS = Facts(
    title="Mushroom",
    files=("agaricus-lepiota.data",),
    n_features=117,
    n_arms=2,
    paper_features="117",
    published=Rows(8_124, (4_208, 3_916)),
    preprocessing="one-hot over the values that occur in the file (`?` of stalk-root is one of them); not "
    "standardised. Eating pays 5, or -35 or 5 at even odds if poisonous; not eating 0. The classes are "
    "edible and poisonous",
)


def parse(paths: list[Path]) -> pl.DataFrame:
    """Return the table of the file.

    Parameters
    ----------
    paths
        agaricus-lepiota.data.
    """
    import polars as pl

    with plain(paths[0]) as path:
        frame = read(path, LAYOUT, shown=paths[0])
    for name in ATTRIBUTES:
        frame = coded(frame, name, occurring(frame, name))
    label = (pl.col("class") == "p").cast(pl.UInt8).alias(LABEL)
    return frame.with_columns(label).drop("class")


@register("mushroom", summary="Eat it or not; a poisonous one may or may not harm.", facts=FACTS, parse=parse)
def mushroom(
    rounds: int | Literal["all"],
    seed: int,
    safe: float = 5.0,
    lucky: float = 5.0,
    harm: float = -35.0,
    harm_probability: float = 0.5,
    standardize: Standardize = None,
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Mushroom. Arm 0 leaves the mushroom, arm 1 eats it.

    Parameters
    ----------
    rounds
        Number of rows to draw.
    seed
        The same seed gives the same arrays.
    safe
        The reward of eating an edible one.
    lucky, harm
        The two rewards of eating a poisonous one.
    harm_probability
        Probability of the second reward.
    standardize
        None (as in the paper), `"sample"` or `"online"`.
    replace
        Whether a row may come again.
    data
        The folder with the file; None for `LIM2_DATA`, then the user's cache.
    verify
        Whether a file that is not a known one is an error.
    """
    table = parsed("mushroom", FACTS, parse, data=data, verify=verify)
    rows = draw_rows(table.height, rounds, seed, replace=replace, name="mushroom")
    drawn = table.take(rows)
    poisonous = drawn[LABEL].to_numpy() == 1
    harmed = stream(seed, "harm").random(len(rows)) < harm_probability
    contexts, feature_names = encoded(drawn.drop(LABEL))
    rewards = np.zeros((len(rows), 2))
    rewards[:, 1] = np.where(poisonous, np.where(harmed, harm, lucky), safe)
    expected = np.zeros((len(rows), 2))
    expected[:, 1] = np.where(poisonous, harm_probability * harm + (1 - harm_probability) * lucky, safe)
    return Problem(
        "mushroom",
        standardized(contexts, standardize),
        rewards,
        expected,
        seed=seed,
        arm_names=("leave", "eat"),
        feature_names=feature_names,
        settings={
            "safe": safe,
            "lucky": lucky,
            "harm": harm,
            "harm_probability": harm_probability,
            "standardize": standardize,
            "replace": replace,
        },
        notes=table.notes,
    )
