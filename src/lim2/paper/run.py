"""Carry out the paper's experiments, and collect what is reported of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from lim2.experiments.benchmark import execute
from lim2.experiments.names import PlanError, nearest
from lim2.experiments.plan import Plan
from lim2.experiments.pooling import check
from lim2.experiments.store import Store, read
from lim2.experiments.summary import summarize
from lim2.experiments.tables import Tables
from lim2.paper.ablation import ABLATION
from lim2.paper.collapse import COLLAPSE
from lim2.paper.complexity import COMPLEXITY
from lim2.paper.drift import DRIFT
from lim2.paper.experiment import Experiment, Scale
from lim2.paper.forgetting import FORGETTING
from lim2.paper.memory import MEMORY
from lim2.paper.sections import Section
from lim2.paper.table import TABLE, TEXT_EXPERIMENT

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (TABLE, FORGETTING, DRIFT, MEMORY, TEXT_EXPERIMENT, ABLATION, COMPLEXITY, COLLAPSE)
}
# Their runs are explored elsewhere in the report, or are of policies without an agent of lim2.
NOT_EXPLORED = ("text", "drift", "collapse")


@dataclass(frozen=True)
class Outcome:
    """What came of a call."""

    sections: dict[str, Section] | None  # None where nothing was to be run, and the report is that of these runs
    failures: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)  # experiments that could not be run, and why


def experiment_named(name: str) -> Experiment:
    """Return an experiment."""
    if name not in EXPERIMENTS:
        raise PlanError(f"the paper has no experiment {name!r}; {nearest(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]


def run(
    names: Sequence[str],
    out: Path,
    scale: Scale,
    *,
    problems: Sequence[str] = (),
    agents: Sequence[str] = (),
    quiet: bool = False,
    pool: bool = False,
    console: Console | None = None,
    **options: Any,
) -> Outcome:
    """Carry out what is missing of some experiments, or of some problems and agents; options are those of `execute`."""
    console = console or Console(stderr=True, highlight=False)
    absent = []
    plans: list[tuple[Experiment, Plan]] = []
    for experiment in map(experiment_named, names):
        if experiment.name == "text" and "table" in names:
            continue  # the table has it
        found = experiment.plans(scale)
        plans += [(experiment, plan) for plan in found]
        if not found:
            absent.append(f"{experiment.name}: its data are not on this machine, or PyTorch is missing (lim2[torch])")
    plans = _parts(plans, problems, agents)
    current = is_current(out)
    wanted: dict[str, set[str]] = {}
    for number, (experiment, plan) in enumerate(plans, 1):
        if not quiet:
            part = f", plan {number} of {len(plans)}" if len(plans) > 1 else ""
            console.print(f"[bold]{experiment.title}[/bold]{part}: {len(plan)} runs", highlight=False)
        _, progress = execute(plan, out / experiment.folder, quiet=quiet, pool=pool, console=console, **options)
        current = current and not progress.total
        wanted.setdefault(experiment.folder, set()).update(each.file for each in plan)
    if current and plans:
        return Outcome(None, absent=absent)
    failures = [line for folder, files in wanted.items() for line in _failed(Store(out / folder), files)]
    return Outcome(sections_of(out, pool=pool), failures, absent)


def _parts(
    plans: Sequence[tuple[Experiment, Plan]], problems: Sequence[str], agents: Sequence[str]
) -> list[tuple[Experiment, Plan]]:
    """Return the parts of plans with some problems and agents; a `PlanError` for a name that no plan has."""
    for kind, words, known in (
        ("problem", problems, [problem.label for _, plan in plans for problem in plan.problems]),
        ("agent", agents, [agent.label for _, plan in plans for agent in plan.agents]),
    ):
        for word in words:
            if word not in known:
                raise PlanError(f"the plan has no {kind} {word!r}; {nearest(word, dict.fromkeys(known))}")
    parts = [(experiment, plan.part(problems, agents)) for experiment, plan in plans]
    return [(experiment, part) for experiment, part in parts if part is not None]


def is_current(out: Path) -> bool:
    """Return whether a folder's report was written after its last run."""
    report = out / "report.html"
    if not report.is_file():
        return False
    folders = [out / experiment.folder / "runs" for experiment in EXPERIMENTS.values()]
    return all(folder.stat().st_mtime_ns <= report.stat().st_mtime_ns for folder in folders if folder.is_dir())


def _failed(store: Store, files: Iterable[str]) -> list[str]:
    paths = [path for file in sorted(files) if (path := store.folder / "failures" / file).is_file()]
    return [
        f"{row['problem']} / {row['agent']} / seed {row['seed']}: {row['error'].strip().splitlines()[-1]}"
        for row in (read(paths).iter_rows(named=True) if paths else ())
    ]


def sections_of(out: Path, *, pool: bool = False) -> dict[str, Section]:
    """Return the sections of the experiments whose runs are in a folder.

    Raises a `PlanError` if different code made the runs of an experiment, unless `pool`.
    """
    sections = {}
    for experiment in EXPERIMENTS.values():
        store = Store(out / experiment.folder)
        if not (store.folder / "plans").is_dir():
            continue
        runs, _ = store.frames()
        if not pool:
            check(runs)
        tables = Tables(runs, summarize(runs))
        if len(runs) and (section := experiment.section(tables)) is not None:
            sections[experiment.name] = section if experiment.name in NOT_EXPLORED else replace(section, tables=tables)
    return sections
