"""The program `lim2`: a thin shell over the library."""

from __future__ import annotations

from typing import Annotated

import typer

import lim2
from lim2.commands import bench, data, paper, serve
from lim2.commands.warm_start import warm_start

app = typer.Typer(
    help="Contextual bandits that learn a neural representation online, in bounded memory.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
app.command("bench")(bench.bench)
app.command("report")(bench.report)
app.command("compare")(bench.compare)
app.command("serve")(serve.serve)
app.command("warm-start")(warm_start)
app.add_typer(data.app, name="data")
app.add_typer(paper.app, name="paper")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lim2 {lim2.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Contextual bandits that learn a neural representation online, in bounded memory."""


if __name__ == "__main__":
    app()
