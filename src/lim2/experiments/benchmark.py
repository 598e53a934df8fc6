"""Run an experiment in one call: plan, runs, results, report."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from lim2.experiments.backend import Backend, cores
from lim2.experiments.feedback import grid
from lim2.experiments.names import PlanError, Spec, agent_named, given, nearest, problem_named
from lim2.experiments.plan import Plan, with_uniform
from lim2.experiments.pooling import check, refuse_to_mix
from lim2.experiments.progress import Progress, progress_for
from lim2.experiments.schedule import carry_out
from lim2.experiments.store import Store, writable
from lim2.problems.check import presence
from lim2.problems.files import folders
from lim2.problems.registry import find, names

if TYPE_CHECKING:
    import polars as pl

    from lim2.experiments.summary import Row

# The embedded default: synthetic, so that it needs no files, and over in a minute or two on two cores.
PROBLEMS = ("linear", "nonlinear", "wheel", "drifting")
AGENTS = ("AdaptiveTS", "LiM2", "LinearTS", "NeuralLinear", "NeuralLinearNTK", "Uniform")
ROUNDS = 2000
RUNS = 5
DEFAULT_OUT = "results"

Named = str | Spec | Callable[..., Any]


@dataclass(frozen=True)
class Results:
    """Results of `bench`.

    Parameters
    ----------
    rows
        Summary per (problem, agent), as in ``summary.json``.
    runs
        Table of all runs, one row each.
    retried
        Number of runs repeated because their process died.
    """

    folder: Path
    rows: list[Row]
    runs: pl.DataFrame
    failures: pl.DataFrame
    retried: int = 0

    @property
    def report(self) -> Path:
        """Path of the HTML report."""
        return self.folder / "report.html"


def bench(
    problems: Sequence[Named] | Mapping[str, tuple[str, Mapping[str, Any]]] = PROBLEMS,
    agents: Sequence[Named] | Mapping[str, tuple[Named, Mapping[str, Any]]] = AGENTS,
    *,
    rounds: int | None = None,
    runs: int = RUNS,
    seed: int = 0,
    delay: int | Sequence[int] = 0,
    batch: int | Sequence[int] = 1,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    out: Path | str = DEFAULT_OUT,
    jobs: int | None = None,
    on: Literal["local", "ray"] = "local",
    again: bool = False,
    quiet: bool = False,
    report: bool = True,
    pool: bool = False,
) -> Results:
    """Run agents on problems, and write results and a report.

    Finished runs in `out` are not repeated. Call it again after an interruption, or with more runs, problems or agents:
    only the missing runs are executed.

    Parameters
    ----------
    problems
        Names, or functions ``(rounds, seed, **settings) -> Problem``; or variants, as ``{label: (name, settings)}``.
    agents
        Names, algorithms, or classes with ``act`` and ``update``; or variants, as for problems. Uniform is always
        added, because the normalised score needs it.
    rounds
        Number of rounds of every problem. None: each problem's own number.
    runs
        Number of runs, with the seeds `seed`, `seed` + 1, ... All agents play the same draws of a problem.
    delay
        Number of rounds by which rewards are delayed, see `Feedback`. Lists of delays or batches: all combinations,
        each reported separately.
    batch
        Number of decisions in a batch, after which rewards are learned.
    settings
        Settings of agents and problems, by label: ``{"LiM2": {"matching": "sample"}}``.
    jobs
        Number of processes. None: one per core.
    on
        Where to run: ``"local"`` or ``"ray"``.
    again
        Whether to repeat finished runs.
    report
        Whether to write the report, in addition to results and summary.
    pool
        Whether to pool runs that different versions of the code made.

    Examples
    --------
    >>> import lim2.experiments
    >>> results = lim2.experiments.bench(
    ...     ["wheel"], ["LiM2"], runs=10, settings={"wheel": {"delta": 0.5}}
    ... )  # doctest: +SKIP
    >>> results.runs.group_by("agent").agg(pl.col("reward").mean())  # doctest: +SKIP
    """
    plan = planned(problems, agents, rounds=rounds, runs=runs, seed=seed, delay=delay, batch=batch, settings=settings)
    return carried_out(plan, out, jobs=jobs, on=on, again=again, quiet=quiet, report=report, pool=pool)


def planned(
    problems: Sequence[Named] | Mapping[str, tuple[str, Mapping[str, Any]]],
    agents: Sequence[Named] | Mapping[str, tuple[Named, Mapping[str, Any]]],
    *,
    rounds: int | None,
    runs: int,
    seed: int = 0,
    delay: int | Sequence[int] = 0,
    batch: int | Sequence[int] = 1,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    skip: Mapping[str, Sequence[str]] | None = None,
) -> Plan:
    """Return the plan for the arguments of `bench`."""
    tasks = _specs(problems, problem_named)
    players = with_uniform(_specs(agents, agent_named))
    labels = {spec.label.lower(): spec.label for spec in (*players, *tasks)}
    settings_of: dict[str, Mapping[str, Any]] = {}
    for label, values in (settings or {}).items():
        if label.lower() not in labels:
            message = nearest(label, labels.values())
            raise PlanError(f"settings are given for {label!r}, which is not in the plan; {message}")
        settings_of[labels[label.lower()]] = values
    return Plan(
        tuple(spec.with_settings(settings_of.get(spec.label, {})) for spec in tasks),
        tuple(spec.with_settings(settings_of.get(spec.label, {})) for spec in players),
        tuple(range(seed, seed + runs)),
        rounds,
        grid(delay, batch),
        frozenset((problem, agent) for problem, skipped in (skip or {}).items() for agent in skipped),
    )


def _specs(
    named: Sequence[Named] | Mapping[str, tuple[Any, Mapping[str, Any]]], by_name: Callable[[str], Spec]
) -> tuple[Spec, ...]:
    def spec_of(name: Named) -> Spec:
        if isinstance(name, Spec):
            return name
        return by_name(name) if isinstance(name, str) else given(name)

    if isinstance(named, Mapping):
        variants = []
        for label, (name, settings) in named.items():
            base = spec_of(name)
            variants.append(Spec(label, base.source, {**base.settings, **settings}, base.fingerprint, base.maker))
        return tuple(variants)
    return tuple(spec_of(name) for name in ([named] if isinstance(named, str) else named))


def carried_out(plan: Plan, out: Path | str, *, report: bool = True, pool: bool = False, **options: Any) -> Results:
    """Execute the missing runs of a plan, then write summary and report; options are those of `execute`."""
    store, executed = execute(plan, out, pool=pool, **options)
    return finish(store, report=report, retried=executed.retried, pool=pool)


def execute(
    plan: Plan,
    out: Path | str,
    *,
    jobs: int | None = None,
    on: str = "local",
    again: bool = False,
    quiet: bool = False,
    pool: bool = False,
    console: Console | None = None,
    command: Sequence[str] = (),
) -> tuple[Store, Progress]:
    """Execute the missing runs of a plan; what other code made is not mixed with new runs, unless `pool`."""
    if jobs is not None and jobs < 1:
        raise PlanError(f"jobs must be at least 1, got {jobs}")
    if on == "local":
        check_data(plan)
    store = Store(writable(out))
    by_key = {run.key: run for run in plan}  # two labels may mean the same run
    todo = [run for run in by_key.values() if again or not store.has(run)]
    if todo and not pool:
        refuse_to_mix(store, {run.file for run in by_key.values()} - {run.file for run in todo})
    store.tidy()
    store.ask(plan, command)
    console = console or Console(stderr=True, highlight=False)
    if plan.shorter:  # what is played is not what was asked for: that is said even where progress is not shown
        played = ", ".join(f"{label} {rounds:,}" for label, rounds in plan.shorter.items())
        remark = f"Fewer than {plan.rounds:,} rounds, as there are no more rows: {played}."
        console.print(remark, markup=False, soft_wrap=True)
    if not quiet and len(todo) < len(by_key):
        console.print(f"{len(by_key) - len(todo)} of {len(by_key)} runs are here already, in {store.folder}")
    progress = progress_for(todo, console, quiet=quiet)
    if todo:
        with progress, closing(_backend(on, jobs, len(todo))) as backend:
            carry_out(todo, backend, store.put, progress, None if again else store.has)
    return store, progress


def check_data(plan: Plan) -> None:
    """Raise a `PlanError` if the files of a dataset are not on this machine."""
    absent = []
    for problem in plan.problems:
        facts = find(problem.source).facts if problem.source in names() else None
        if facts is not None and presence(facts, problem.settings.get("data")).state == "missing":
            absent.append(problem.source)
    if absent:
        places = ", ".join(str(folder) for folder in folders())
        raise PlanError(
            f"the files of {', '.join(absent)} are not on this machine (looked in {places}). "
            f"Get them with `lim2 data fetch {' '.join(absent)}`, or name their folder with --data or LIM2_DATA"
        )


def _backend(on: str, jobs: int | None, todo: int) -> Backend:
    if on == "local":
        from lim2.experiments.local import Local

        return Local(min(jobs or cores(), todo))
    if on == "ray":
        from lim2.experiments.on_ray import Ray

        return Ray(jobs, os.environ.get("RAY_ADDRESS"))
    raise PlanError(f"on must be 'local' or 'ray', got {on!r}")


def finish(store: Store, *, report: bool = True, retried: int = 0, pool: bool = False) -> Results:
    """Write summary and report of a store; a `PlanError` if different code made its runs, unless `pool`."""
    from lim2.experiments.summary import summarize, write_summary

    runs, failures = store.frames()
    if not pool:
        check(runs)
    rows = summarize(runs)
    write_summary(store.folder, rows)
    if report:
        from lim2.experiments.report.write import write_report

        write_report(store, runs, failures, rows)
    return Results(store.folder, rows, runs, failures, retried)
