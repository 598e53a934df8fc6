"""The Open Bandit Dataset: a log of fashion items shown by a known policy, and their clicks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lim2.extras import needs
from lim2.log.errors import LogFileError
from lim2.log.table import Table
from lim2.state import Array

if TYPE_CHECKING:
    import polars as pl

SHOWN = ("timestamp", "item_id", "position", "click", "propensity_score")
ITEMS = "item_context.csv"
MISSING = "(missing)"  # the category of a missing value


@dataclass(frozen=True, eq=False)
class OpenBandit:
    """Logged impressions and the features of all items.

    It is a log, not a problem: only the reward of the item shown is known.

    Parameters
    ----------
    table
        The impressions in order of time: contexts, numbers of the items shown as arms, clicks and propensities. All
        items were eligible every time.
    items
        Features of the items, (K, n_item_features), in the order of `table.arms`.
    feature_names
        Names of the columns of `table.contexts`.
    """

    table: Table
    items: Array
    feature_names: tuple[str, ...]
    item_feature_names: tuple[str, ...]

    @property
    def shown(self) -> Array:
        """Features of the item shown, one row per impression."""
        rows: Array = self.items[self.table.chosen]
        return rows


def read_open_bandit(folder: str | Path, campaign: str = "all", *, rows: int | None = None) -> OpenBandit:
    r"""Read one campaign of the Open Bandit Dataset, logged by one policy.

    A context has the user's features and the position, both one-hot. The affinities between user and items are left
    out. Numeric features of items stay as they are, categorical ones become one-hot.

    Parameters
    ----------
    folder
        Folder with the campaign's file and ``item_context.csv``, such as ``open_bandit_dataset/random/all``.
    campaign
        ``"all"``, ``"men"`` or ``"women"``, the file's name without its extension.
    rows
        Number of impressions to read, from the first; None: all.

    References
    ----------
    Saito, Aihara, Matsutani, Narita: Open Bandit Dataset and Pipeline: Towards realistic and reproducible off-policy
    evaluation. NeurIPS 2021, datasets and benchmarks. https://research.zozo.com/data.html

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> head = "timestamp,item_id,position,click,propensity_score,user_feature_0"
    >>> _ = (folder / "all.csv").write_text(f"{head}\n2019-11-24,1,2,1,0.5,f00\n2019-11-25,0,1,0,0.5,ba5\n")
    >>> _ = (folder / "item_context.csv").write_text("item_id,item_feature_0,item_feature_1\n0,-0.5,x\n1,0.2,y\n")
    >>> log = read_open_bandit(folder)
    >>> log.table.rewards, log.table.arms, log.shown
    (array([1., 0.]), (0, 1), array([[ 0.2,  0. ,  1. ],
           [-0.5,  1. ,  0. ]]))
    """
    with needs("read_open_bandit", "data"):
        import polars as pl

    folder = Path(folder).expanduser()
    path, items_path = folder / f"{campaign}.csv", folder / ITEMS
    item_columns = _columns(items_path, ("item_id",), "item_feature")
    if len(item_columns) == 1:
        raise LogFileError(f"{items_path}, column item_feature_0: there is no such column")
    catalogue = _read(items_path, columns=item_columns, infer_schema_length=None).sort("item_id")
    impressions = _impressions(path, rows)
    unlisted = impressions.filter(~pl.col("item_id").is_in(catalogue["item_id"].to_list()))["item_id"]
    if len(unlisted):
        raise LogFileError(
            f"{path}, column item_id: item {unlisted[0]} was shown but is not in {ITEMS}: use both files of the same "
            f"campaign"
        )
    users = [name for name in impressions.columns if name.startswith("user_feature")]
    contexts, feature_names = _encoded(impressions.select(pl.col("position", *users).cast(pl.String)))
    items, item_feature_names = _encoded(catalogue.select(item_columns[1:]))
    table = Table.of(
        contexts,
        impressions["item_id"].to_list(),
        impressions["click"].to_numpy(),
        impressions["propensity_score"].to_numpy(),
        arms=catalogue["item_id"].to_list(),
    )
    return OpenBandit(table, items, feature_names, item_feature_names)


def _impressions(path: Path, rows: int | None) -> pl.DataFrame:
    """Return the impressions in order of time, without the affinities, which make up most of the file."""
    import polars as pl

    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}: give the folder of a policy and campaign")
    users = _columns(path, SHOWN, "user_feature")[len(SHOWN) :]
    types = {
        "timestamp": pl.String, "item_id": pl.Int64, "position": pl.Int64, "click": pl.Int64,
        "propensity_score": pl.Float64, **dict.fromkeys(users, pl.String),
    }  # fmt: skip
    frame = _read(path, columns=list(types), n_rows=rows, schema_overrides=types)
    for column, valid, expected in (
        ("click", pl.col("click").is_in([0, 1]), "0 or 1"),
        ("propensity_score", pl.col("propensity_score").is_between(0, 1, closed="right"), "more than 0, at most 1"),
    ):
        invalid = frame.select((~valid).fill_null(value=True).arg_true()).to_series()
        if len(invalid):
            line, value = invalid[0] + 2, frame[column][invalid[0]]
            raise LogFileError(f"{path}, line {line}, column {column}: {value!r}, expected {expected}")
    return frame.sort("timestamp", maintain_order=True)


def _columns(path: Path, names: tuple[str, ...], prefix: str) -> list[str]:
    """Return columns of a file: some by name, which must exist, and all that begin with a prefix."""
    header = _read(path, n_rows=0).columns
    for name in names:
        if name not in header:
            raise LogFileError(f"{path}, column {name}: there is no such column; the file has {', '.join(header)}")
    return [*names, *(name for name in header if name.startswith(prefix))]


def _read(path: Path, **options: Any) -> pl.DataFrame:
    import polars as pl

    try:
        return pl.read_csv(path, **options)
    except pl.exceptions.PolarsError as error:
        raise LogFileError(f"{path}: the file cannot be read as a table: {error}") from error


def _encoded(frame: pl.DataFrame) -> tuple[Array, tuple[str, ...]]:
    """Return numbers as they are, missing ones as the mean of their column, and text as one column per value."""
    import polars as pl

    parts: dict[str, pl.Series] = {}
    for column in frame.iter_columns():
        if column.dtype.is_numeric():
            parts[column.name] = column.cast(pl.Float64).fill_null(strategy="mean")
        else:
            text = column.cast(pl.String).fill_null(MISSING)
            parts |= {f"{column.name}={value}": text == value for value in text.unique().sort()}
    matrix = np.empty((frame.height, len(parts)))
    for place, values in enumerate(parts.values()):
        matrix[:, place] = values.to_numpy()
    return matrix, tuple(parts)
