"""The Open Bandit Dataset: a log of fashion items shown by a known policy, and their clicks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from lim2.extras import needs
from lim2.log.table import Table
from lim2.problems.classification import encoded
from lim2.problems.draw import standardized
from lim2.problems.errors import DataError
from lim2.problems.labelled import check_columns, feature_columns
from lim2.problems.own import MARKS, read_table
from lim2.state import Array

if TYPE_CHECKING:
    import polars as pl

SHOWN = ("timestamp", "item_id", "position", "click", "propensity_score")
ITEMS = "item_context.csv"


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
    item_feature_names
        Names of the columns of `items`.
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

    place = Path(folder).expanduser()
    items_path, path = place / ITEMS, place / f"{campaign}.csv"
    catalogue = read_table(items_path, ",", MARKS)
    described = [name for name in catalogue.columns if name.startswith("item_feature")]
    check_columns(items_path, catalogue, ["item_id", *(described or ["item_feature_0"])])
    catalogue = catalogue.sort("item_id")
    impressions = _impressions(path, rows)
    users = [name for name in impressions.columns if name.startswith("user_feature")]
    strangers = impressions.filter(~pl.col("item_id").is_in(catalogue["item_id"].to_list()))
    if strangers.height:
        raise DataError(
            path,
            f"item {strangers['item_id'][0]} was shown but is not in {ITEMS}: use both files of the same campaign",
            column="item_id",
        )
    context_frame = impressions.select("position", *users)
    contexts, feature_names = _encoded(path, context_frame, categorical=set(context_frame.columns))
    items, item_feature_names = _encoded(items_path, catalogue.select(described), categorical=set())
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
    header = pl.read_csv(path, n_rows=0)
    check_columns(path, header, SHOWN)
    users = [name for name in header.columns if name.startswith("user_feature")]
    try:
        frame = pl.read_csv(
            path,
            columns=[*SHOWN, *users],
            n_rows=rows,
            schema_overrides={
                "timestamp": pl.String, "item_id": pl.Int64, "position": pl.Int64, "click": pl.Int64,
                "propensity_score": pl.Float64, **dict.fromkeys(users, pl.String),
            },
        )  # fmt: skip
    except pl.exceptions.PolarsError as error:
        raise DataError(path, f"the file cannot be read as impressions: {error}") from error
    for column, right, expected in (
        ("click", pl.col("click").is_in([0, 1]), "0 or 1"),
        ("propensity_score", pl.col("propensity_score").is_between(0, 1, closed="right"), "more than 0, at most 1"),
    ):
        wrong = frame.select((~right).fill_null(value=True).arg_true()).to_series()
        if len(wrong):
            value = frame[column][wrong[0]]
            raise DataError(path, f"{value!r}, expected {expected}", line=wrong[0] + 2, column=column)
    return frame.sort("timestamp", maintain_order=True)


def _encoded(path: Path, frame: pl.DataFrame, categorical: set[str]) -> tuple[NDArray[Any], tuple[str, ...]]:
    columns, _ = feature_columns(path, frame, categorical, 1000)
    vectors, names = encoded(columns)
    return standardized(vectors, None), names
