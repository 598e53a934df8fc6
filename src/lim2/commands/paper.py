"""`lim2 paper`: the experiments of the paper, rerun."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from lim2.commands.bench import FAILED, INTERRUPTED, WRONG, command_line, plain_errors, stoppable

if TYPE_CHECKING:  # what draws and counts is imported when something is to be run
    from lim2.paper.run import Outcome
    from lim2.paper.sections import Section

app = typer.Typer(help="Rerun the paper: its tables and figures, beside the published ones.", no_args_is_help=True)

DEFAULT_OUT, QUICK_OUT = Path("results/paper"), Path("results/paper-quick")
RUNS, QUICK_RUNS = 10, 2

Runs = Annotated[int | None, typer.Option(help="Runs, each with a shuffle of its own. Default: 10, as in the paper.")]
SlowRuns = Annotated[
    int | None, typer.Option(help="Runs of NeuralUCB, NeuralTS and the text network. Default: as many as the others.")
]
Jobs = Annotated[int | None, typer.Option(help="Processes. Default: one per core.")]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help=f"The folder of the results. Default: {DEFAULT_OUT}.")]
On = Annotated[str, typer.Option(metavar="local|ray", help="Here, or on a Ray cluster (RAY_ADDRESS).")]
Data = Annotated[Path | None, typer.Option(metavar="DIR", help="The folder of the datasets' files.")]
Quick = Annotated[bool, typer.Option("--quick", help=f"A short version, into {QUICK_OUT}: about ten minutes for all.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]


def _carry_out(
    names: Sequence[str],
    runs: int | None,
    slow_runs: int | None,
    jobs: int | None,
    out: Path | None,
    on: str,
    data: Path | None,
    quick: bool,
    quiet: bool,
) -> None:
    """Run experiments, write the report, and print what the paper says and what was reproduced."""
    from lim2.paper import run
    from lim2.paper.experiment import Scale

    console = Console(stderr=True, highlight=False)
    folder = out or (QUICK_OUT if quick else DEFAULT_OUT)
    many = runs or (QUICK_RUNS if quick else RUNS)
    scale = Scale(many, slow_runs or (1 if quick else many), quick)
    if data is not None:
        os.environ["LIM2_DATA"] = str(data.resolve())  # for the processes, too
    with plain_errors(console):
        try:
            with stoppable():
                outcome = run.run(
                    names, folder, scale, jobs=jobs, on=on, quiet=quiet, console=console, command=command_line()
                )
        except KeyboardInterrupt as error:
            console.print(
                f"Stopped. What is finished is kept in {folder}. The same command goes on from there:\n"
                f"  {shlex.join(command_line())}\nWhat is there can be seen with:\n  lim2 paper report --out {folder}",
                markup=False,
                soft_wrap=True,
            )
            raise typer.Exit(INTERRUPTED) from error
    _conclude(outcome, names, folder, console)


def _conclude(outcome: Outcome, names: Sequence[str], folder: Path, console: Console) -> None:
    from lim2.paper import write

    shown = Console(highlight=False)
    for name in names:
        if name in outcome.sections:
            shown.print(_claims(outcome.sections[name]))
    for line in outcome.absent:
        console.print(f"left out: {line}", style="yellow", markup=False, soft_wrap=True)
    shown.print(f"Report: {write.write_report(outcome.sections, folder)}", markup=False, soft_wrap=True)
    if outcome.failures:
        console.print(f"{len(outcome.failures)} runs failed:", style="red")
        for line in outcome.failures:
            console.print(f"  {line}", markup=False)
        raise typer.Exit(FAILED)


STYLES = {"reproduced": "green", "not reproduced": "red", "open": "dim"}


def _claims(section: Section) -> Table:
    table = Table(title=section.title, title_justify="left", show_lines=True)
    table.add_column("the paper says")
    table.add_column("here", no_wrap=True)
    table.add_column("evidence")
    for claim in section.claims:
        table.add_row(claim.text, claim.verdict, claim.evidence, style=STYLES[claim.verdict])
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
    ) -> None:
        _carry_out(names, runs, slow_runs, jobs, out, on, data, quick, quiet)

    command.__doc__ = help_text
    return command


HELP = {
    "table": "Table 1 and the raw table: 11 datasets, 8 methods.",
    "forgetting": "Catastrophic forgetting on Statlog: instantaneous regret of 6 methods, memory 100.",
    "drift": "Representation drift: the neural tangent kernel during training, for 4 widths.",
    "memory": "The size of the memory on Statlog, with and without matching.",
    "text": "Sentiment analysis with the convolutional network (needs PyTorch).",
    "ablation": "What carries the result: LiM2 with its pieces taken out, one by one.",
    "complexity": "Time of a round and memory over 60,000 rounds, LiM2 against full memory.",
}
for _name, _text in HELP.items():
    app.command(_name)(_command([_name], _text))
app.command("all")(_command(list(HELP), "Everything, then one report."))


@app.command()
def report(
    out: Out = None,
    to: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to write it. Default: the same folder.")] = None,
) -> None:
    """Write the report of the runs that are in a folder; elsewhere, with all runs in a few small files beside it."""
    from lim2.paper import archive, run, write

    folder = out or DEFAULT_OUT
    console = Console(stderr=True, highlight=False)
    with plain_errors(console):
        sections = run.sections_of(folder)
    if not sections:
        message = f"error: {folder} has no runs of `lim2 paper`; give the folder of --out"
        console.print(message, style="red", markup=False, soft_wrap=True)
        raise typer.Exit(WRONG)
    page = write.write_report(sections, folder, to)
    if to is not None:
        archive.pack(folder, to)
    Console(highlight=False).print(f"Report: {page}", markup=False, soft_wrap=True)


@app.command()
def unpack(
    kept: Annotated[Path, typer.Argument(metavar="DIR", help="Where `lim2 paper report --to` wrote.")],
    out: Out = None,
) -> None:
    """Put kept runs back into a folder of results: they are not run again, and more can be added."""
    from lim2.paper import archive

    folder = out or DEFAULT_OUT
    with plain_errors(Console(stderr=True, highlight=False)):
        count = archive.unpack(kept, folder)
    Console(highlight=False).print(f"{count} runs put into {folder}", markup=False, soft_wrap=True)
