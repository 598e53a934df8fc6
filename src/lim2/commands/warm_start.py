"""`lim2 warm-start`: an agent from logged rewards, in a file or a decision log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lim2.agents import AGENTS
from lim2.bandit import Bandit
from lim2.batches import Size
from lim2.log import DecisionLog, LogError
from lim2.log.table import Table

LOGS, FRAMES = (".db", ".sqlite"), (".csv", ".parquet")
CERTAIN = "propensity, certain"  # a column for tables that have none: learning does not ask for it


def warm_start(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="A CSV or Parquet file with a row per reward, or a decision log (.db)."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the agent is saved.")],
    agent: Annotated[str, typer.Option("--agent", help="What learns: the name of an agent.")] = "AdaptiveTS",
    arm_column: Annotated[
        str | None, typer.Option("--arm-column", metavar="COLUMN", help="What was played; not for a log.")
    ] = None,
    reward_column: Annotated[
        str | None, typer.Option("--reward-column", metavar="COLUMN", help="What it earned; not for a log.")
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="COLUMNS",
            help="The columns of the context, separated by commas; or one word that their names begin with.",
        ),
    ] = None,
    propensity: Annotated[
        str | None,
        typer.Option("--propensity", metavar="COLUMN", help="Its probability, which is checked; learning needs none."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Contexts as dictionaries, for a lim2.Bandit: text and gaps are welcome.")
    ] = False,
    batch: Annotated[
        str, typer.Option("--batch", help="Rewards per update: a number, or auto for batches that grow.")
    ] = "auto",
    seed: Annotated[int | None, typer.Option("--seed", help="The same seed gives the same agent.")] = None,
) -> None:
    """Learn logged rewards at full speed, and save the agent.

    Example: lim2 warm-start clicks.csv --arm-column banner --reward-column click --context x_ --out agent.lim2
    """
    with plain_errors():
        size = _size(batch)
        if agent not in AGENTS:
            raise ValueError(f"--agent must be one of {', '.join(AGENTS)}, got {agent!r}")
        table = _table(data, arm_column, reward_column, context, propensity, raw)
        if not len(table):
            raise ValueError(f"{data} holds no rewards: there is nothing to learn")
        learner = _learner(table, agent, seed)
        started = time.perf_counter()
        with _bar() as show:
            learned = learner.warm_start(table, size, show)
        seconds = time.perf_counter() - started
        learner.save(out)
    rate = learned / max(seconds, 1e-9)
    console().print(
        f"{learner.agent.name if isinstance(learner, Bandit) else learner.name} has learned {learned:,} rewards of "
        f"{len(table.arms):,} arms in {seconds:.1f} s, {rate:,.0f} per second: {out}",
        soft_wrap=True,
        markup=False,
    )


def console() -> Console:
    """Return where to print; made anew, so that it has the width of now."""
    return Console(highlight=False)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Print what went wrong in one message, and end with status 1."""
    try:
        yield
    except (ValueError, LogError, OSError) as error:
        Console(stderr=True, highlight=False).print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from error


def _size(batch: str) -> Size:
    if batch == "auto":
        return "auto"
    if not batch.isdecimal():
        raise ValueError(f"--batch must be a whole number from 1, or auto, got {batch!r}")
    return int(batch)


def _table(
    data: Path, arm: str | None, reward: str | None, context: str | None, propensity: str | None, raw: bool
) -> Table:
    """Return the rewards of a file or a log."""
    if not data.is_file():
        raise ValueError(f"there is no file {data}")
    kind = data.suffix.lower()
    if kind in LOGS:
        given = {"--arm-column": arm, "--reward-column": reward, "--context": context, "--propensity": propensity}
        named = [option for option, value in given.items() if value is not None]
        if named or raw:
            raise ValueError(f"{', '.join(named) or '--raw'} is for CSV and Parquet: a log knows its own form")
        with DecisionLog(data, read_only=True) as log:
            return log.table()
    if kind not in FRAMES:
        raise ValueError(f"DATA must end in {', '.join(FRAMES + LOGS)}, got {data.name!r}")
    if arm is None or reward is None or context is None:
        raise ValueError(f"{data.name} needs --arm-column, --reward-column and --context, to say what its columns are")
    frame = pl.read_csv(data) if kind == ".csv" else pl.read_parquet(data)
    if propensity is None:
        propensity, frame = CERTAIN, frame.with_columns(pl.lit(1.0).alias(CERTAIN))
    columns = [name.strip() for name in context.split(",")] if "," in context else context
    return Table.from_frame(frame, arm=arm, reward=reward, propensity=propensity, context=columns, raw=raw)


def _learner(table: Table, agent: str, seed: int | None) -> Any:
    """Return an agent for what the table holds: arms or items, vectors or what is raw."""
    items = table.candidates.items is not None or table.candidates.raw_items is not None
    if table.is_raw:
        return Bandit(arms=None if items else table.arms, algorithm=agent, seed=seed)
    size = table.contexts.shape[1:] if table.contexts.ndim > 2 else table.contexts.shape[1]
    if items and table.candidates.items is not None:
        return AGENTS[agent](n_features=size, n_item_features=table.candidates.items.shape[1], seed=seed)
    return AGENTS[agent](arms=table.arms, n_features=size, seed=seed)


@contextmanager
def _bar() -> Iterator[Any]:
    """Show a bar, and give the function that moves it."""
    columns = (TextColumn("learning"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(), transient=True) as bars:
        task = bars.add_task("learning", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
