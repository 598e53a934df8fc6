"""`lim2 warm-start`: train an agent on logged rewards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lim2.agents import AGENTS
from lim2.bandit import Bandit
from lim2.batches import Size
from lim2.commands.errors import plain_errors
from lim2.commands.logged import Arm, Context, Raw, Reward, logged
from lim2.commands.screen import ERRORS, console
from lim2.log.table import Table


def warm_start(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="CSV or Parquet file with one row per reward, or address of a log."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File to save the agent to.")],
    agent: Annotated[str, typer.Option("--agent", help="Name of the agent, such as LinearTS.")] = "AdaptiveTS",
    arm_column: Arm = None,
    reward_column: Reward = None,
    context: Context = None,
    propensity: Annotated[
        str | None,
        typer.Option(
            "--propensity", metavar="COLUMN", help="Column of the propensity of the arm played; only checked, not used."
        ),
    ] = None,
    raw: Raw = False,
    batch: Annotated[
        str, typer.Option("--batch", help="Rewards per update: a number, or auto for growing batches.")
    ] = "auto",
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of the agent; the same seed gives the same agent.")
    ] = None,
) -> None:
    """Train a new agent on logged rewards and save it.

    Example: lim2 warm-start clicks.csv --arm-column banner --reward-column click --context x_ --out agent.lim2
    """
    with plain_errors(*ERRORS):
        size = _size(batch)
        table = logged(data, arm_column, reward_column, context, propensity, raw)
        if not len(table):
            raise ValueError(f"{data} has no rewards to learn from")
        learner = fresh(table, agent, seed)
        started = time.perf_counter()
        with _bar() as show:
            learned = table.replay(learner, size, show)
        seconds = time.perf_counter() - started
        learner.save(out)
    rate = learned / max(seconds, 1e-9)
    console().print(
        f"{learner.name} has learned {learned:,} rewards of "
        f"{len(table.arms):,} arms in {seconds:.1f} s, {rate:,.0f} per second: {out}",
        soft_wrap=True,
        markup=False,
    )


def _size(batch: str) -> Size:
    if batch == "auto":
        return "auto"
    if not batch.isdecimal():
        raise ValueError(f"--batch must be auto or a whole number, at least 1, got {batch!r}")
    return int(batch)


def fresh(table: Table, agent: str, seed: int | None) -> Any:
    """Return a new agent that fits a table: arms or items, vectors or raw contexts."""
    if agent not in AGENTS:
        raise ValueError(f"--agent must be one of {', '.join(AGENTS)}, got {agent!r}")
    items = table.candidates.items is not None or table.candidates.raw_items is not None
    if table.is_raw:
        return Bandit(arms=None if items else table.arms, algorithm=agent, seed=seed)
    size = table.contexts.shape[1:] if table.contexts.ndim > 2 else table.contexts.shape[1]
    if items and table.candidates.items is not None:
        return AGENTS[agent](n_features=size, n_item_features=table.candidates.items.shape[1], seed=seed)
    return AGENTS[agent](arms=table.arms, n_features=size, seed=seed)


@contextmanager
def _bar() -> Iterator[Any]:
    """Show a progress bar, and yield the function that updates it."""
    columns = (TextColumn("learning"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(), transient=True) as bars:
        task = bars.add_task("learning", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
