"""`lim2 paper`: rerun the experiments of the paper."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from lim2.commands.bench import ERRORS, command_line, stoppable, words
from lim2.commands.errors import INTERRUPTED, fail, plain_errors
from lim2.experiments.names import PlanError
from lim2.experiments.store import writable

if TYPE_CHECKING:  # what draws and counts is imported when something is to be run
    from lim2.paper.run import Outcome
    from lim2.paper.sections import Section

app = typer.Typer(
    help="Rerun the experiments of the paper, and compare tables and figures with the published ones.",
    no_args_is_help=True,
)

DEFAULT_OUT, QUICK_OUT = Path("results/paper"), Path("results/paper-quick")
RUNS, QUICK_RUNS = 10, 2

Runs = Annotated[
    int | None, typer.Option(help="Number of runs, each with a different shuffle. Default: 10, as in the paper.")
]
SlowRuns = Annotated[
    int | None,
    typer.Option(help="Number of runs of NeuralUCB, NeuralTS and the text network. Default: the same as --runs."),
]
Jobs = Annotated[int | None, typer.Option(help="Number of processes. Default: one per core.")]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help=f"Folder for the results. Default: {DEFAULT_OUT}.")]
On = Annotated[
    str, typer.Option(metavar="local|ray", help="Where to run: on this machine, or on a Ray cluster (RAY_ADDRESS).")
]
Data = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the datasets.")]
Quick = Annotated[
    bool, typer.Option("--quick", help=f"Run a short version into {QUICK_OUT}: about ten minutes for all.")
]
Problems = Annotated[
    str | None, typer.Option(metavar="NAME,...", help="Run only these problems. Default: all of the experiment.")
]
Agents = Annotated[
    str | None, typer.Option(metavar="NAME,...", help="Run only these agents, and the random policy. Default: all.")
]
Pool = Annotated[bool, typer.Option("--pool", help="Pool runs that different versions of the code made.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not show progress.")]


def _carry_out(
    names: Sequence[str],
    runs: int | None,
    slow_runs: int | None,
    out: Path | None,
    data: Path | None,
    quick: bool,
    **options: Any,
) -> None:
    """Run experiments, write the report, and print the paper's claims and which were reproduced."""
    from lim2.paper import run
    from lim2.paper.experiment import Scale

    console = Console(stderr=True, highlight=False)
    folder = out or (QUICK_OUT if quick else DEFAULT_OUT)
    many = (QUICK_RUNS if quick else RUNS) if runs is None else runs
    slow = (1 if quick else many) if slow_runs is None else slow_runs
    if data is not None:
        os.environ["LIM2_DATA"] = str(data.resolve())  # for the processes, too
    with plain_errors(*ERRORS):
        for option, number in (("--runs", many), ("--slow-runs", slow)):
            if number < 1:
                raise PlanError(f"{option} must be at least 1, got {number}")
        try:
            with stoppable():
                outcome = run.run(
                    names, folder, Scale(many, slow, quick), console=console, command=command_line(), **options
                )
        except KeyboardInterrupt as error:
            console.print(
                f"Stopped. Finished runs are kept in {folder}. To continue, run the same command again:\n"
                f"  {shlex.join(command_line())}\nTo see the finished runs:\n  lim2 paper report --out {folder}",
                markup=False,
                soft_wrap=True,
            )
            raise typer.Exit(INTERRUPTED) from error
    _conclude(outcome, names, folder, console)


def _conclude(outcome: Outcome, names: Sequence[str], folder: Path, console: Console) -> None:
    shown = Console(highlight=False)
    for line in outcome.absent:
        console.print(f"left out: {line}", style="yellow", markup=False, soft_wrap=True)
    if outcome.sections is None:
        shown.print(f"Report: {folder / 'report.html'}, of these runs already", markup=False, soft_wrap=True)
        return
    from lim2.paper import write

    for name in names:
        if name in outcome.sections:
            shown.print(_claims(outcome.sections[name]))
    shown.print(f"Report: {write.write_report(outcome.sections, folder)}", markup=False, soft_wrap=True)
    if outcome.failures:
        fail(f"{len(outcome.failures)} runs failed:", outcome.failures)


STYLES = {"reproduced": "green", "not reproduced": "red", "open": "dim"}


def _claims(section: Section) -> Table:
    table = Table(title=section.title, title_justify="left", show_lines=True)
    table.add_column("the paper says")
    table.add_column("here", no_wrap=True)
    table.add_column("evidence")
    for claim in section.claims:
        table.add_row(f"{claim.text} ({claim.source})", claim.attributed, claim.evidence, style=STYLES[claim.verdict])
    for claim in section.criteria:
        table.add_row(f"Required here: {claim.text}", claim.word, claim.evidence, style=STYLES[claim.verdict])
    for finding in section.findings:
        table.add_row("", "", finding)
    return table


def _command(names: Sequence[str], help_text: str) -> Callable[..., None]:
    def command(
        runs: Runs = None,
        slow_runs: SlowRuns = None,
        jobs: Jobs = None,
        out: Out = None,
        on: On = "local",
        data: Data = None,
        quick: Quick = False,
        quiet: Quiet = False,
        problems: Problems = None,
        agents: Agents = None,
        pool: Pool = False,
    ) -> None:
        _carry_out(
            names, runs, slow_runs, out, data, quick,
            jobs=jobs, on=on, quiet=quiet, problems=words(problems), agents=words(agents), pool=pool,
        )  # fmt: skip

    command.__doc__ = help_text
    return command


HELP = {
    "table": "Table 1 and the table of raw rewards: 11 datasets, 8 methods.",
    "forgetting": "Catastrophic forgetting on Statlog: instantaneous regret of 6 methods, memory 100.",
    "drift": "Representation drift: the neural tangent kernel during training, for 4 widths.",
    "memory": "Memory sizes on Statlog, with and without matching.",
    "text": "Sentiment analysis with the convolutional network (needs PyTorch).",
    "ablation": "Ablation: LiM2 with its components removed one by one.",
    "complexity": "Time per round and memory over 60,000 rounds, LiM2 against full memory.",
    "collapse": "Why NeuralUCB and NeuralTS differ from the paper: diverged training plays arm 0.",
}
for _name, _text in HELP.items():
    app.command(_name)(_command([_name], _text))
app.command("all")(_command(list(HELP), "Run all experiments, and write one report."))


@app.command()
def report(
    out: Out = None,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder to write the report and an archive of the runs to. Default: the folder of the results.",
        ),
    ] = None,
    pool: Pool = False,
) -> None:
    """Write the report of the runs in a folder; with --to, archive the runs next to it in a few small files."""
    from lim2.paper import archive, run, write

    folder = out or DEFAULT_OUT
    with plain_errors(*ERRORS):
        sections = run.sections_of(folder, pool=pool)
        if not sections:
            raise PlanError(f"{folder} has no runs of `lim2 paper`: give the folder that was its --out")
        writable(to or folder)
    page = write.write_report(sections, folder, to)
    if to is not None:
        archive.pack(folder, to)
    Console(highlight=False).print(f"Report: {page}", markup=False, soft_wrap=True)


@app.command()
def unpack(
    archived: Annotated[Path, typer.Argument(metavar="DIR", help="Folder written by `lim2 paper report --to`.")],
    out: Out = None,
) -> None:
    """Unpack archived runs into a folder of results, where they are not run again and more can be added."""
    from lim2.paper import archive

    folder = out or DEFAULT_OUT
    with plain_errors(*ERRORS):
        count = archive.unpack(archived, writable(folder))
    Console(highlight=False).print(f"{count} runs unpacked into {folder}", markup=False, soft_wrap=True)
