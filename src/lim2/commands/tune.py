"""`lim2 tune`: search an agent's settings on one part of a suite, test them on the other."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lim2.commands.bench import ERRORS, command_line, stoppable
from lim2.commands.errors import INTERRUPTED, plain_errors
from lim2.experiments.names import PlanError
from lim2.experiments.suite import read_suite
from lim2.experiments.tuned import summary


def tune(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="Agent to tune: an agent of lim2, or a variant in the suite.")
    ],
    suite: Annotated[Path, typer.Option(metavar="FILE", help="TOML file of the suite, with a table `tune`.")],
    trials: Annotated[int, typer.Option(help="Number of settings to try, including those of earlier calls.")] = 50,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.")] = Path("tuning"),
    jobs: Annotated[int | None, typer.Option(help="Number of processes. Default: one per core.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search, not of the problems.")] = 0,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the datasets.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not show progress.")] = False,
    with_report: Annotated[bool, typer.Option("--report/--no-report", help="Write a report.")] = True,
) -> None:
    """Search an agent's settings on one part of a suite, and test the best on held-out problems and seeds.

    To continue an interrupted search, run the same command again.

    Example: lim2 tune LinearTS --suite suite.toml --trials 50
    """
    from lim2.experiments.tune import tune as tuned  # here, because its statistics take a second to import

    console = Console(stderr=True, highlight=False)
    with plain_errors(*ERRORS):
        if find_spec("optuna") is None:
            raise PlanError("lim2 tune needs Optuna, which is not installed: pip install 'lim2[tune]'")
        if data is not None:
            os.environ["LIM2_DATA"] = str(data.resolve())  # for the processes, too

        def say(line: str) -> None:
            if not quiet:
                console.print(line, markup=False, soft_wrap=True)

        try:
            with stoppable():
                found = tuned(
                    agent,
                    read_suite(suite),
                    trials=trials,
                    out=out,
                    jobs=jobs,
                    seed=seed,
                    report=with_report,
                    say=say,
                    command=command_line(),
                )
        except KeyboardInterrupt as error:
            say(f"Stopped. All finished trials are kept in {out}; run the same command again to continue.")
            raise typer.Exit(INTERRUPTED) from error
    Console(highlight=False).print(summary(found, out), markup=False, soft_wrap=True)
