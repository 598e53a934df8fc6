"""`lim2 bench`, `lim2 report`, `lim2 compare`: run experiments, look at them, compare two sets of them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from lim2.experiments import benchmark
from lim2.experiments.benchmark import Results, carried_out, finish, planned
from lim2.experiments.names import PlanError, Spec, table
from lim2.experiments.plan import Plan
from lim2.experiments.planfile import PlanFile, parsed_settings, read_plan
from lim2.experiments.store import opened
from lim2.problems.errors import DataError, MissingDataError

FAILED = 1  # some runs failed
WRONG = 2  # what was asked for cannot be done
INTERRUPTED = 130
FORMS = ("table", "markdown", "json")
Numbers = int | Sequence[int]


def bench(
    problems: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Names of `lim2 data`, module:function, or variants of the plan.",
        ),
    ] = None,
    agents: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Agents of lim2, module:Class, vw:squarecb, or variants of the plan."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of a run. Default: each problem's own number.")] = None,
    runs: Annotated[int | None, typer.Option(help="Runs, each with a shuffle of its own.")] = None,
    seed: Annotated[int | None, typer.Option(help="The first run's seed.")] = None,
    delay: Annotated[
        str | None, typer.Option(metavar="ROUNDS,...", help="Rewards arrive so many rounds later. Default: 0.")
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(metavar="ROUNDS,...", help="Decide in batches; learn rewards between them. Default: 1."),
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME.KEY=VALUE", help="A setting of an agent or problem. Repeatable."),
    ] = None,
    plan: Annotated[Path | None, typer.Option(metavar="FILE", help="A plan in TOML, with named variants.")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Your own table, CSV or Parquet.")] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="With --csv: the column of the classes.")] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the results.")] = Path(benchmark.DEFAULT_OUT),
    jobs: Annotated[int | None, typer.Option(help="Processes. Default: one per core.")] = None,
    on: Annotated[str, typer.Option(metavar="local|ray", help="Here, or on a Ray cluster (RAY_ADDRESS).")] = "local",
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="The folder of the datasets' files.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Run everything, even what is there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    with_report: Annotated[bool, typer.Option("--report/--no-report", help="Whether to write the report.")] = True,
) -> None:
    """Run agents on problems; results, tables and figures end in a report.

    Without options: a minute or two of synthetic problems. The same command goes on where an interrupted one was.
    """
    console = Console(stderr=True, highlight=False)
    with plain_errors(console):
        if data is not None:
            os.environ["LIM2_DATA"] = str(data.resolve())  # for the processes, too
        file = read_plan(plan) if plan is not None else PlanFile()
        late = (_numbers("--delay", delay), _numbers("--batch", batch))
        own = _table(csv, label)
        wanted = _plan(file, _words(problems), _words(agents), own, rounds, runs, seed, *late, pairs or [])
        with _stopping(console, wanted, out):
            results = carried_out(
                wanted,
                out,
                jobs=jobs,
                on=on,
                again=again,
                quiet=quiet,
                report=with_report,
                console=console,
                command=command_line(),
            )
    _conclude(results, console, quiet=quiet)


def _plan(
    file: PlanFile,
    problems: Sequence[str],
    agents: Sequence[str],
    own: Spec | None,
    rounds: int | None,
    runs: int | None,
    seed: int | None,
    delay: Sequence[int] | None,
    batch: Sequence[int] | None,
    pairs: Sequence[str],
) -> Plan:
    """Put command line, file and defaults together, the former before the latter."""
    problems = problems or file.problems
    agents = agents or file.agents
    default = not problems and own is None
    tasks = [file.problem(label) for label in (problems or (benchmark.PROBLEMS if default else ()))]
    rounds = rounds if rounds is not None else file.rounds
    runs = runs if runs is not None else file.runs
    return planned(
        [*tasks, *([own] if own else [])],
        [file.agent(label) for label in (agents or benchmark.AGENTS)],
        rounds=benchmark.ROUNDS if rounds is None and default else rounds,
        runs=benchmark.RUNS if runs is None else runs,
        seed=seed if seed is not None else file.seed or 0,
        delay=_first(delay, file.delay, 0),
        batch=_first(batch, file.batch, 1),
        settings=parsed_settings(pairs),
    )


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _numbers(option: str, text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(word) for word in text.split(",")]
    except ValueError as error:
        raise PlanError(f"{option} must be a whole number, or several such as 0,100,1000, not {text!r}") from error


def _first(typed: Numbers | None, planned: Numbers | None, default: int) -> Numbers:
    return typed if typed is not None else planned if planned is not None else default


def _table(csv: Path | None, label: str | None) -> Spec | None:
    if (csv is None) != (label is None):
        raise PlanError("--csv FILE and --label COLUMN belong together")
    return table(csv, label) if csv is not None and label is not None else None


def command_line() -> list[str]:
    """Return the command as the user typed it, for reports and messages."""
    return ["lim2", *sys.argv[1:]]


@contextmanager
def plain_errors(console: Console) -> Iterator[None]:
    """Print what was wrong with the input in one message, and end with its status."""
    try:
        yield
    except (PlanError, DataError, MissingDataError) as error:
        console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(WRONG) from error


@contextmanager
def stoppable() -> Iterator[None]:
    """Let a request to terminate be what Ctrl-C is: KeyboardInterrupt."""

    def asked(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, asked)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _stopping(console: Console, plan: Plan, out: Path) -> Iterator[None]:
    """Stop in good order at Ctrl-C or a request to terminate, and say how to go on."""
    try:
        with stoppable():
            yield
    except KeyboardInterrupt as error:
        store = opened(out)
        done = sum(store.has(run) for run in plan)
        console.print(
            f"Stopped. {done} of {len(plan)} runs are kept in {out}. The same command goes on from there:\n"
            f"  {shlex.join(command_line())}\n"
            f"What is there can be seen with:\n  lim2 report {shlex.quote(str(out))}",
            markup=False,
            soft_wrap=True,
        )
        raise typer.Exit(INTERRUPTED) from error


def _conclude(results: Results, console: Console, *, quiet: bool) -> None:
    """Print the outcome; end with status 1 when runs failed."""
    from lim2.experiments.tables import Tables
    from lim2.experiments.terminal import leaderboard, rewards_by_feedback

    out = Console(highlight=False)
    if not quiet:
        tables = Tables(results.runs, results.rows)
        for feedback, part in tables.parts.items():
            out.print(leaderboard(part, feedback.name if len(tables.parts) > 1 else feedback.text))
        if len(tables.parts) > 1:
            out.print(rewards_by_feedback(tables))
    what = f"Report: {results.report}" if results.report.exists() else f"Results: {results.folder}"
    out.print(what, markup=False, soft_wrap=True)
    if results.retried and not quiet:
        console.print(f"{results.retried} times a process died, and its run was tried again.", style="yellow")
    if len(results.failures):
        console.print(f"{len(results.failures)} runs failed; the report has their tracebacks:", style="red")
        for row in results.failures.iter_rows(named=True):
            last = row["error"].strip().splitlines()[-1]
            console.print(f"  {row['problem']} / {row['agent']} / seed {row['seed']}: {last}", markup=False)
        raise typer.Exit(FAILED)


def report(folder: Annotated[Path, typer.Argument(metavar="RESULTS", help="The folder of --out.")]) -> None:
    """Write the report of what is in a folder of results, and summary.json, anew."""
    console = Console(stderr=True, highlight=False)
    with plain_errors(console):
        store = opened(folder)
        results = finish(store)
    missing = store.missing()
    if missing:
        console.print(f"{missing} runs have no result: they failed, or have not been done yet.", style="yellow")
    Console(highlight=False).print(f"Report: {results.report}", markup=False, soft_wrap=True)


def compare(
    first: Annotated[Path, typer.Argument(metavar="RESULTS", help="A folder of results.")],
    second: Annotated[Path, typer.Argument(metavar="OTHER", help="The one that is measured against it.")],
    form: Annotated[str, typer.Option("--format", metavar="table|markdown|json", help="How to print.")] = "table",
    fail_if_worse: Annotated[
        bool, typer.Option("--fail-if-worse", help="End with status 1 when something is significantly worse.")
    ] = False,
) -> None:
    """Put two sets of results side by side, with significance."""
    from lim2.experiments import compare as comparing
    from lim2.experiments.report import markdown
    from lim2.experiments.terminal import HEAD, comparison, comparison_cells

    console = Console(stderr=True, highlight=False)
    with plain_errors(console):
        if form not in FORMS:
            raise PlanError(f"--format must be one of {', '.join(FORMS)}, not {form!r}")
        stores = opened(first), opened(second)
        differences = comparing.compared(*stores)
        alone = comparing.only_in_one(*stores)
    if form == "json":
        typer.echo(json.dumps([difference.as_dict() for difference in differences], indent=1))
    elif form == "markdown":
        typer.echo("\n".join(markdown.table(HEAD, [comparison_cells(d) for d in differences], left=2)))
    else:
        Console(highlight=False).print(comparison(differences))
    for folder, names in zip((first, second), alone, strict=True):
        if names:
            console.print(f"only in {folder}: {', '.join(names)}", style="dim", markup=False, soft_wrap=True)
    if fail_if_worse and comparing.worse(differences):
        raise typer.Exit(FAILED)
