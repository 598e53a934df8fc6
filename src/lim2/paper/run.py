"""Carry out the paper's experiments, and collect what is reported of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from lim2.experiments.benchmark import Results, carried_out
from lim2.experiments.names import PlanError, nearest
from lim2.experiments.store import Store
from lim2.experiments.summary import summarize
from lim2.experiments.tables import Tables
from lim2.paper.ablation import ABLATION
from lim2.paper.complexity import COMPLEXITY
from lim2.paper.drift import DRIFT
from lim2.paper.experiment import Experiment, Scale
from lim2.paper.forgetting import FORGETTING
from lim2.paper.memory import MEMORY
from lim2.paper.sections import Section
from lim2.paper.table import TABLE, TEXT_EXPERIMENT

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (TABLE, FORGETTING, DRIFT, MEMORY, TEXT_EXPERIMENT, ABLATION, COMPLEXITY)
}
# Their runs are explored elsewhere in the report, or are of a policy that plays at random.
NOT_EXPLORED = ("text", "drift")


@dataclass(frozen=True)
class Outcome:
    """What came of a call."""

    sections: dict[str, Section]
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
    jobs: int | None = None,
    on: str = "local",
    quiet: bool = False,
    console: Console | None = None,
    command: Sequence[str] = (),
) -> Outcome:
    """Carry out what is missing of some experiments; what is in `out` already is not run again."""
    console = console or Console(stderr=True, highlight=False)
    failures, absent = [], []
    done: list[str] = []
    for experiment in map(experiment_named, names):
        if experiment.name == "text" and "table" in done:
            continue  # the table has run it
        plans = experiment.plans(scale)
        if not plans:
            absent.append(f"{experiment.name}: its data are not on this machine, or PyTorch is missing (lim2[torch])")
        for i, plan in enumerate(plans):
            if not quiet:
                part = f", part {i + 1} of {len(plans)}" if len(plans) > 1 else ""
                console.print(f"[bold]{experiment.title}[/bold]{part}: {len(plan)} runs", highlight=False)
            results = carried_out(
                plan, out / experiment.folder, jobs=jobs, on=on, quiet=quiet, report=False, console=console,
                command=command,
            )  # fmt: skip
            failures += _failed(results)
        done.append(experiment.name)
    return Outcome(sections_of(out), list(dict.fromkeys(failures)), absent)


def _failed(results: Results) -> list[str]:
    return [
        f"{row['problem']} / {row['agent']} / seed {row['seed']}: {row['error'].strip().splitlines()[-1]}"
        for row in results.failures.iter_rows(named=True)
    ]


def sections_of(out: Path) -> dict[str, Section]:
    """Return the sections of the experiments whose runs are in a folder."""
    sections = {}
    for experiment in EXPERIMENTS.values():
        store = Store(out / experiment.folder)
        if not (store.folder / "plans").is_dir():
            continue
        runs, _ = store.frames()
        tables = Tables(runs, summarize(runs))
        if len(runs) and (section := experiment.section(tables)) is not None:
            sections[experiment.name] = section if experiment.name in NOT_EXPLORED else replace(section, tables=tables)
    return sections
