"""Results on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from lim2.experiments.compare import Difference
from lim2.experiments.report.texts import decimals, megabytes, microseconds, number, p_value, percent, plus_minus
from lim2.experiments.tables import Tables

WIDEST = 10_000  # letters: more than any table needs


def show(table: Table) -> None:
    """Print a table whole: where the terminal is too narrow, lines are longer than it, and no number is cut."""
    out = Console(highlight=False)
    needed = Measurement.get(out, out.options.update(width=WIDEST), table).maximum
    Console(highlight=False, width=max(out.width, needed)).print(table, crop=False, soft_wrap=False)


def leaderboard(tables: Tables, late: str = "") -> Table:
    """Return the leaderboard as a table for a terminal."""
    when = f", {late}" if late else ""
    table = Table(
        title=f"Normalised score{when}: 0 = random policy, 1 = best agent",
        caption="rank: mean over problems. regret: % of the random policy's, by expected rewards. "
        "p: against the first; ≈ not significantly different from it.",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("#", no_wrap=True)
    table.add_column("agent", no_wrap=True)
    for column in ("mean", "median", "rank", "regret", "p", "per round", "memory"):
        table.add_column(column, justify="right", no_wrap=True)
    for standing in tables.leaderboard:
        table.add_row(
            str(standing.rank),
            standing.agent,
            number(standing.mean, 3),
            number(standing.median, 3),
            number(standing.mean_rank, 1),
            "–" if standing.regret_share is None else percent(standing.regret_share),
            p_value(standing.p) + (" ≈" if standing.tied else ""),
            microseconds(standing.us_per_round),
            megabytes(standing.peak_mb),
            style="bold" if standing.rank == 1 else "",
        )
    return table


def rewards_by_feedback(tables: Tables) -> Table:
    """Return the rewards of every delay and batch side by side, as a table for a terminal."""
    table = Table(title="Mean reward by delay and batch", title_justify="left")
    table.add_column("problem", no_wrap=True)
    table.add_column("agent", no_wrap=True)
    for feedback in tables.parts:
        table.add_column(feedback.name, justify="right", no_wrap=True)
    for problem, agents in tables.across.items():
        for agent, rows in agents.items():
            means = [rows[feedback]["reward_mean"] if feedback in rows else None for feedback in tables.parts]
            table.add_row(problem, agent, *map(number, means))
        table.add_section()
    return table


STYLES = {"better": "bold green", "worse": "bold red", "same": "dim", "unclear": ""}
HEAD = ("problem", "agent", "first", "second", "difference", "p", "verdict", "time", "memory")


def comparison(differences: Sequence[Difference]) -> Table:
    """Return two sets of results side by side, as a table for a terminal."""
    table = Table(
        caption="first, second: mean ± std of reward. time, memory: second / first. "
        "p: paired t-test on common shuffles (* Welch's, not paired), Holm's correction.",
        caption_justify="left",
    )
    for column in HEAD:
        text = column in ("problem", "agent", "verdict")
        table.add_column(column, justify="left" if text else "right", no_wrap=True)
    for difference in differences:
        table.add_row(*comparison_cells(difference), style=STYLES[difference.verdict])
    return table


def comparison_cells(d: Difference) -> list[str]:
    """Return a line of the comparison."""
    places = max(decimals(row["reward_mean"]) for row in (d.first, d.second))
    return [
        d.problem,
        d.agent,
        plus_minus(d.first["reward_mean"], d.first["reward_std"], places),
        plus_minus(d.second["reward_mean"], d.second["reward_std"], places),
        ("+" if d.difference > 0 else "") + number(d.difference, places),
        p_value(d.p) + ("" if d.paired or d.p is None else " *"),
        d.verdict,
        f"x {d.time_ratio:.2f}",
        "–" if d.memory_ratio is None else f"x {d.memory_ratio:.2f}",
    ]
