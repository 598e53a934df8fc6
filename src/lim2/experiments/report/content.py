"""What a report says, apart from how it looks."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from lim2.experiments.feedback import Feedback
from lim2.experiments.pooling import code_of, edited, versions
from lim2.experiments.report.texts import decimals, listed, number
from lim2.experiments.store import Store
from lim2.experiments.summary import Row, feedback_of
from lim2.experiments.tables import Entry, Tables

COLUMNS = ("version", "python", "numpy", "scipy", "system", "processor", "cores")


@dataclass(frozen=True)
class About:
    """A problem of the report."""

    label: str
    text: str
    facts: str
    notes: list[str]
    entries: list[Entry]

    @property
    def places(self) -> int:
        """How many decimals its rewards have, all the same."""
        return decimals(max(abs(entry.row["reward_mean"]) for entry in self.entries))


@dataclass(frozen=True)
class Content:
    """All that a report says."""

    tables: Tables
    problems: list[About]
    headline: str
    size: str
    date: str
    commands: list[str]
    agents: dict[str, str]
    machine: dict[str, list[str]]  # more than one value where runs differ
    failures: list[dict[str, Any]]
    alerts: list[str]  # what a reader should know before trusting it
    warnings: list[tuple[str, str]]  # (where, what)


def content_of(store: Store, runs: pl.DataFrame, failures: pl.DataFrame, rows: list[Row]) -> Content:
    """Gather what a report says."""
    tables = Tables(runs, rows)
    cells = store.cells()
    texts = {cell.problem: cell.problem_text for cell in cells}
    return Content(
        tables=tables,
        problems=[about(tables, problem, texts.get(problem, problem)) for problem in tables.problems],
        headline=_headline(tables),
        size=_size(tables),
        date=_date(runs),
        commands=[shlex.join(plan["command"]) for plan in store.plans() if plan["command"]],
        agents={cell.agent: cell.agent_text for cell in cells},
        machine=provenance_of(runs),
        failures=failures.select("problem", "agent", "seed", "error", "attempts").to_dicts(),
        alerts=_alerts(store, runs, failures),
        warnings=_warnings(runs),
    )


def provenance_of(runs: pl.DataFrame) -> dict[str, list[str]]:
    """Return code, versions and machines of runs, each value once."""
    columns = {name: [str(value) for value in runs[name].unique(maintain_order=True)] for name in COLUMNS}
    return {"code": [code_of(runs)], **columns}


def about(tables: Tables, problem: str, text: str) -> About:
    """Return what a report says of a problem."""
    entries = tables.of(problem)
    group = tables.group(problem, entries[0].row["agent"])
    first = group.row(0, named=True)
    runs = sorted({entry.row["runs"] for entry in entries})
    many = f"{runs[0]} runs" if len(runs) == 1 else f"{runs[0]} to {runs[-1]} runs"
    late = feedback_of(entries[0].row).text
    facts = f"{first['rounds']:,} rounds, {_sizes(first)}, {many} of each agent" + (f", {late}" if late else "")
    notes = sorted({note for notes in group["notes"].to_list() for note in notes})
    return About(problem, text, facts, notes, entries)


def _sizes(run: Mapping[str, Any]) -> str:
    if run["n_item_features"] is None:
        return f"{run['n_arms']} arms, {run['n_features']} features"
    items, d, e = run["n_candidates"], run["n_features"], run["n_item_features"]
    return f"{items:.3g} items per round, {d} features of the context and {e} of an item"


def _headline(tables: Tables) -> str:
    if len(tables.parts) > 1:
        return _headline_of_parts(tables.parts)
    [(feedback, part)] = tables.parts.items()
    text = _outcome(part)
    return f"{text} All runs: {feedback.text}." if feedback.text else text


def _headline_of_parts(parts: Mapping[Feedback, Tables]) -> str:
    """Return who ranks first with which delay and batch."""
    first: dict[str, list[str]] = {}
    for feedback, part in parts.items():
        board = [standing for standing in part.leaderboard if standing.agent not in part.references]
        leader = board[0].agent if board and board[0].mean is not None else "no agent"
        first.setdefault(leader, []).append(feedback.name.replace(", ", " and "))
    if len(first) == 1 and "no agent" not in first:
        return f"{next(iter(first))} ranks first with every delay and batch."
    return " ".join(f"{leader} ranks first with {'; '.join(names)}." for leader, names in first.items())


def _outcome(tables: Tables) -> str:
    board = [standing for standing in tables.leaderboard if standing.agent not in tables.references]
    if not board or board[0].mean is None:
        return "There is nothing to rank: no agent earned more than the random policy, or the random policy is missing."
    first = board[0]
    over = f"{len(tables.problems)} problems" if len(tables.problems) > 1 else "this problem"
    text = f"{first.agent} ranks first, with a mean normalised score of {number(first.mean, 2)} over {over}."
    tied = [standing.agent for standing in board[1:] if standing.tied]
    if tied:
        return f"{text} {listed(tied)} {'is' if len(tied) == 1 else 'are'} not significantly different from it."
    tested = [standing for standing in board[1:] if standing.p is not None]
    return f"{text} Its lead over every other agent is significant." if tested else text


def _size(tables: Tables) -> str:
    runs = len(tables.runs)
    rounds = int(tables.runs["rounds"].sum())
    late = f", {len(tables.parts)} settings of delay and batch" if len(tables.parts) > 1 else ""
    return (
        f"{len(tables.across)} problems, {len(tables.agents)} agents{late}, {runs:,} runs, {rounds:,} rounds"
        if runs
        else "no runs yet"
    )


def _date(runs: pl.DataFrame) -> str:
    last = runs["started"].max()
    return f"{last:%Y-%m-%d %H:%M} UTC" if isinstance(last, datetime) else ""


def _alerts(store: Store, runs: pl.DataFrame, failures: pl.DataFrame) -> list[str]:
    alerts = []
    if len(failures):
        alerts.append(f"{len(failures)} runs failed and are not in the numbers; their tracebacks are at the end.")
    missing = store.missing() - len(failures)
    if missing > 0:
        alerts.append(f"{missing} runs have not been done yet: the numbers are of those that have.")
    retried = runs.filter(pl.col("attempts") > 1)
    if len(retried):
        where = listed(sorted({f"{p} / {a}" for p, a in retried.select("problem", "agent").iter_rows()}))
        alerts.append(f"{len(retried)} runs were tried again because their process died, and then went well: {where}.")
    mixed = [name for name, digests in versions(runs).items() if len(digests) > 1]
    if mixed:
        alerts.append(f"Pooled runs were made by different versions of {listed(mixed)}.")
    elif changed := edited(runs):
        alerts.append(f"The code that made these runs was edited since: {listed(changed)}.")
    if runs["processor"].n_unique() > 1:
        alerts.append("Runs were made on different machines: their times do not compare.")
    return alerts


def _warnings(runs: pl.DataFrame) -> list[tuple[str, str]]:
    seen: dict[tuple[str, str], None] = {}
    for problem, agent, warnings in runs.select("problem", "agent", "warnings").iter_rows():
        for warning in warnings or ():
            seen[f"{problem} / {agent}", warning] = None
    return list(seen)
