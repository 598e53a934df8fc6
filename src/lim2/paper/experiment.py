"""What an experiment of the paper is: plans to carry out, and a section of the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lim2.experiments.plan import Plan
from lim2.experiments.report import content
from lim2.experiments.tables import Tables
from lim2.paper.sections import LEAST_RUNS, Section
from lim2.problems.check import presence
from lim2.problems.registry import find


@dataclass(frozen=True)
class Scale:
    """How much of an experiment is run."""

    runs: int = 10
    slow_runs: int = 10  # of NeuralUCB, NeuralTS and the text network
    quick: bool = False  # fewer rounds: about ten minutes on two cores


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper."""

    name: str
    title: str
    folder: str  # two experiments may share runs
    plans: Callable[[Scale], Sequence[Plan]]
    section: Callable[[Tables], Section | None]


def is_here(problem: str) -> bool:
    """Say whether a dataset's files are on this machine."""
    facts = find(problem).facts
    return facts is None or presence(facts).state != "missing"


def provenance_of(tables: Tables) -> dict[str, list[str]]:
    """Return code, versions and machines of the runs, for a section."""
    return content.provenance_of(tables.runs)


def is_whole(tables: Tables, rounds: int) -> bool:
    """Say whether all runs are as long as the paper's, and at least `LEAST_RUNS` of each method."""
    return all(row["rounds"] >= rounds and row["runs"] >= LEAST_RUNS for row in tables.rows)


def runs_of(tables: Tables) -> str:
    """Say how many runs stand behind a number."""
    counts = sorted({row["runs"] for row in tables.rows})
    return f"{counts[0]} runs" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} runs"
