"""`lim2 bench`, `lim2 report`, `lim2 compare`: run experiments, write reports, compare two sets of results."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from lim2.commands.errors import FAILED, INTERRUPTED, fail, plain_errors
from lim2.experiments import benchmark
from lim2.experiments.benchmark import Results, carried_out, finish, planned
from lim2.experiments.names import PlanError, Spec, table
from lim2.experiments.plan import Plan
from lim2.experiments.store import opened
from lim2.experiments.suite import Suite, parsed_settings, read_suite
from lim2.problems.errors import DataError, MissingDataError

ERRORS = (PlanError, DataError, MissingDataError)
FORMS = ("table", "markdown", "json")
Numbers = int | Sequence[int]


def bench(
    problems: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Problems: names listed by `lim2 data`, openml:TASK, module:function, or variants in the suite.",
        ),
    ] = None,
    agents: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...", help="Agents: names of lim2, module:Class, vw:squarecb, or variants in the suite."
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds per run. Default: each problem's own number.")] = None,
    runs: Annotated[int | None, typer.Option(help="Number of runs, each with a different shuffle.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the first run.")] = None,
    delay: Annotated[
        str | None,
        typer.Option(metavar="ROUNDS,...", help="Number of rounds by which rewards are delayed. Default: 0."),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            metavar="ROUNDS,...", help="Number of rounds per batch; rewards are learned between batches. Default: 1."
        ),
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME.KEY=VALUE", help="Setting of an agent or problem. Repeatable."),
    ] = None,
    suite: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML file of a suite, with named variants.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your own CSV or Parquet file, as a problem.")
    ] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="With --csv: column of the class labels.")] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.")] = Path(benchmark.DEFAULT_OUT),
    jobs: Annotated[int | None, typer.Option(help="Number of processes. Default: one per core.")] = None,
    on: Annotated[
        str, typer.Option(metavar="local|ray", help="Where to run: on this machine, or on a Ray cluster (RAY_ADDRESS).")
    ] = "local",
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the datasets.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Run everything again, including finished runs.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not show progress.")] = False,
    pool: Annotated[bool, typer.Option("--pool", help="Pool runs that different versions of the code made.")] = False,
    with_report: Annotated[bool, typer.Option("--report/--no-report", help="Write a report.")] = True,
) -> None:
    """Run agents on problems, and write a report with tables and figures.

    Without options: synthetic problems, for a minute or two. To continue an interrupted run, repeat the command.

    Example: lim2 bench --problems statlog,wheel --agents LinearTS,LiM2 --runs 10
    """
    console = Console(stderr=True, highlight=False)
    with plain_errors(*ERRORS):
        if data is not None:
            os.environ["LIM2_DATA"] = str(data.resolve())  # for the processes, too
        file = read_suite(suite) if suite is not None else Suite()
        late = (_numbers("--delay", delay), _numbers("--batch", batch))
        user_table = _table(csv, label)
        wanted = _plan(file, words(problems), words(agents), user_table, rounds, runs, seed, *late, pairs or [])
        with _stopping(console, wanted, out):
            results = carried_out(
                wanted,
                out,
                jobs=jobs,
                on=on,
                again=again,
                quiet=quiet,
                report=with_report,
                pool=pool,
                console=console,
                command=command_line(),
            )
    _conclude(results, wanted, console, quiet=quiet)


def _plan(
    file: Suite,
    problems: Sequence[str],
    agents: Sequence[str],
    user_table: Spec | None,
    rounds: int | None,
    runs: int | None,
    seed: int | None,
    delay: Sequence[int] | None,
    batch: Sequence[int] | None,
    pairs: Sequence[str],
) -> Plan:
    """Combine command line, file and defaults, in this order of precedence."""
    problems = problems or file.problems
    agents = agents or file.agents
    default = not problems and user_table is None
    tasks = file.problems_of(problems or (benchmark.PROBLEMS if default else ()))
    rounds = rounds if rounds is not None else file.rounds
    runs = runs if runs is not None else file.runs
    settings = parsed_settings(pairs)
    players = [file.agent(label) for label in (agents or benchmark.AGENTS)]
    return planned(
        [*tasks, *([user_table] if user_table else [])],
        [spec.named_with(_taken(settings, spec.label)) for spec in players],
        rounds=benchmark.ROUNDS if rounds is None and default else rounds,
        runs=benchmark.RUNS if runs is None else runs,
        seed=seed if seed is not None else file.seed or 0,
        delay=_first(delay, file.delay, 0),
        batch=_first(batch, file.batch, 1),
        settings=settings,
        skip=file.skip,
    )


def _taken(settings: dict[str, dict[str, Any]], label: str) -> dict[str, Any]:
    """Remove and return the settings of an agent."""
    name = next((name for name in settings if name.lower() == label.lower()), None)
    return settings.pop(name) if name is not None else {}


def words(text: str | None) -> list[str]:
    """Return what is listed, separated by commas."""
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _numbers(option: str, text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(word) for word in text.split(",")]
    except ValueError as error:
        raise PlanError(f"{option} must be one or several whole numbers, such as 0,100,1000, got {text!r}") from error


def _first(typed: Numbers | None, planned: Numbers | None, default: int) -> Numbers:
    return typed if typed is not None else planned if planned is not None else default


def _table(csv: Path | None, label: str | None) -> Spec | None:
    if (csv is None) != (label is None):
        raise PlanError("--csv FILE and --label COLUMN must be given together")
    return table(csv, label) if csv is not None and label is not None else None


def command_line() -> list[str]:
    """Return the command as the user typed it, for reports and messages."""
    return ["lim2", *sys.argv[1:]]


@contextmanager
def stoppable() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, as a KeyboardInterrupt."""

    def asked(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, asked)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _stopping(console: Console, plan: Plan, out: Path) -> Iterator[None]:
    """Stop cleanly on Ctrl-C or SIGTERM, and print how to continue."""
    try:
        with stoppable():
            yield
    except KeyboardInterrupt as error:
        store = opened(out)
        done = sum(store.has(run) for run in plan)
        console.print(
            f"Stopped. {done} of {len(plan)} runs are kept in {out}. To continue, run the same command again:\n"
            f"  {shlex.join(command_line())}\n"
            f"To see the finished runs:\n  lim2 report {shlex.quote(str(out))}",
            markup=False,
            soft_wrap=True,
        )
        raise typer.Exit(INTERRUPTED) from error


def _conclude(results: Results, plan: Plan, console: Console, *, quiet: bool) -> None:
    """Print the outcome; exit with status 1 if runs of this plan failed. Those of earlier plans are in the report."""
    from lim2.experiments.tables import Tables
    from lim2.experiments.terminal import leaderboard, rewards_by_feedback, show

    out = Console(highlight=False)
    if not quiet:
        tables = Tables(results.runs, results.rows)
        for feedback, part in tables.parts.items():
            show(leaderboard(part, feedback.name if len(tables.parts) > 1 else feedback.text))
        if len(tables.parts) > 1:
            show(rewards_by_feedback(tables))
    what = f"Report: {results.report}" if results.report.exists() else f"Results: {results.folder}"
    out.print(what, markup=False, soft_wrap=True)
    if results.retried and not quiet:
        console.print(f"{results.retried} runs were repeated because their process died.", style="yellow")
    failures = results.failures.filter(results.failures["key"].is_in([run.key for run in plan]))
    if len(failures):
        where = results.report if results.report.exists() else f"the report, which lim2 report {results.folder} writes"
        lines = [
            f"{row['problem']} / {row['agent']} / seed {row['seed']}: {row['error'].strip().splitlines()[-1]}"
            for row in failures.iter_rows(named=True)
        ]
        fail(f"{len(lines)} runs failed; their tracebacks are in {where}:", lines)


def report(
    folder: Annotated[Path, typer.Argument(metavar="RESULTS", help="Folder given as --out of `lim2 bench`.")],
    pool: Annotated[bool, typer.Option("--pool", help="Pool runs that different versions of the code made.")] = False,
) -> None:
    """Write the report and summary.json of a folder of results again."""
    console = Console(stderr=True, highlight=False)
    with plain_errors(*ERRORS):
        store = opened(folder)
        results = finish(store, pool=pool)
    missing = store.missing()
    if missing:
        console.print(f"{missing} runs have no result: they failed or have not been run yet.", style="yellow")
    Console(highlight=False).print(f"Report: {results.report}", markup=False, soft_wrap=True)


def compare(
    first: Annotated[Path, typer.Argument(metavar="RESULTS", help="Folder of results, the baseline.")],
    second: Annotated[Path, typer.Argument(metavar="OTHER", help="Folder of results to compare with the baseline.")],
    form: Annotated[str, typer.Option("--format", metavar="table|markdown|json", help="Output format.")] = "table",
    fail_if_worse: Annotated[
        bool, typer.Option("--fail-if-worse", help="Exit with status 1 if OTHER is significantly worse.")
    ] = False,
) -> None:
    """Compare two sets of results, with tests of significance.

    Example: lim2 compare results/old results/new --fail-if-worse
    """
    from lim2.experiments import compare as comparing
    from lim2.experiments.report import markdown
    from lim2.experiments.terminal import HEAD, comparison, comparison_cells, show

    console = Console(stderr=True, highlight=False)
    with plain_errors(*ERRORS):
        if form not in FORMS:
            raise PlanError(f"--format must be one of {', '.join(FORMS)}, got {form!r}")
        stores = opened(first), opened(second)
        differences = comparing.compared(*stores)
        alone = comparing.only_in_one(*stores)
    if form == "json":
        typer.echo(json.dumps([difference.as_dict() for difference in differences], indent=1))
    elif form == "markdown":
        typer.echo("\n".join(markdown.table(HEAD, [comparison_cells(d) for d in differences], left=2)))
    else:
        show(comparison(differences))
    for folder, names in zip((first, second), alone, strict=True):
        if names:
            console.print(f"only in {folder}: {', '.join(names)}", style="dim", markup=False, soft_wrap=True)
    if fail_if_worse and comparing.worse(differences):
        raise typer.Exit(FAILED)
