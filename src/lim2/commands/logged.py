"""Input of commands: logged decisions from a log or from a table in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lim2.extras import needs
from lim2.log import DecisionLog
from lim2.log.table import Table

LOGS, FRAMES = (".db", ".sqlite"), (".csv", ".parquet")
SCHEMES = ("sqlite:", "postgresql:", "postgres:")
CERTAIN = "propensity, certain"  # a column for tables that have none: learning does not use it

Address = Annotated[
    str,
    typer.Argument(metavar="LOG", help="Address of the log: a file, sqlite:PATH or postgresql://HOST/DATABASE#NAME."),
]
Arm = Annotated[
    str | None, typer.Option("--arm-column", metavar="COLUMN", help="Column of the arm played; not for a log.")
]
Reward = Annotated[
    str | None, typer.Option("--reward-column", metavar="COLUMN", help="Column of its reward; not for a log.")
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="COLUMNS",
        help="Columns of the context, separated by commas, or a common prefix of their names; not for a log.",
    ),
]
Raw = Annotated[
    bool,
    typer.Option(
        "--raw", help="Read contexts as dictionaries, for a lim2.Bandit; text and missing values are allowed."
    ),
]


def opened(address: str, *, write: bool = False) -> DecisionLog:
    """Open an existing log.

    An address is a path, ``sqlite:`` and a path, or that of another store.
    """
    path = address.removeprefix("sqlite:").removeprefix("//")
    if "://" not in path and not Path(path).is_file():
        raise ValueError(f"there is no log {address}: give the path of its file, or its address")
    log = DecisionLog(address, read_only=True)
    if not write:
        return log
    log.close()
    return DecisionLog(address, keep=None)


def is_log(data: str) -> bool:
    """Return whether an address is that of a log.

    Examples
    --------
    >>> [is_log(data) for data in ("decisions.db", "sqlite:x", "postgresql://host/shop#banners", "clicks.csv")]
    [True, True, True, False]
    """
    return data.startswith(SCHEMES) or Path(data).suffix.lower() in LOGS


def logged(
    data: str,
    arm: str | None,
    reward: str | None,
    context: str | None,
    propensity: str | None,
    raw: bool,
    *,
    last: int | None = None,
) -> Table:
    """Return the decisions and rewards of a file or a log.

    `last` is the number of newest decisions to return; None: all.
    """
    if is_log(data):
        options = {"--arm-column": arm, "--reward-column": reward, "--context": context, "--propensity": propensity}
        named = [option for option, value in options.items() if value is not None]
        if named or raw:
            raise ValueError(f"{', '.join(named) or '--raw'} is only for CSV and Parquet files: leave it out for a log")
        with opened(data) as log:
            return log.table(last)
    path = Path(data)
    if not path.is_file():
        raise ValueError(f"there is no file {data}")
    kind = path.suffix.lower()
    if kind not in FRAMES:
        raise ValueError(f"DATA must end in {', '.join(FRAMES + LOGS)} or be the address of a log, got {path.name!r}")
    if arm is None or reward is None or context is None:
        raise ValueError(f"{path.name} needs --arm-column, --reward-column and --context, which name its columns")
    with needs("reading CSV and Parquet files", "data"):
        import polars as pl
    frame = pl.read_csv(path) if kind == ".csv" else pl.read_parquet(path)
    if propensity is None:
        propensity, frame = CERTAIN, frame.with_columns(pl.lit(1.0).alias(CERTAIN))
    columns = [name.strip() for name in context.split(",")] if "," in context else context
    table = Table.from_frame(frame, arm=arm, reward=reward, propensity=propensity, context=columns, raw=raw)
    return table if last is None else table[max(len(table) - last, 0) :]
