"""The program `lim2`: a thin shell over the library."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Annotated

import typer

import lim2
from lim2._kernels import DESCRIPTION
from lim2.commands.errors import PlainGroup
from lim2.extras import OF_COMMANDS, MissingExtraError, needs

# Name of the command -> module in lim2.commands, and name of the function or application there.
COMMANDS = {
    "serve": ("serve", "serve"),
    "move": ("move", "move"),
    "inspect": ("inspect", "inspect"),
    "log": ("logs", "app"),
    "evaluate": ("evaluate", "evaluate"),
    "warm-start": ("warm_start", "warm_start"),
    "bench": ("bench", "bench"),
    "report": ("bench", "report"),
    "compare": ("bench", "compare"),
    "data": ("data", "app"),
    "suite": ("suite", "app"),
    "paper": ("paper", "app"),
}


def _absent(error: MissingExtraError) -> Callable[[typer.Context], None]:
    """Return a placeholder for a command whose extra is not installed; it raises the error."""

    def command(_: typer.Context) -> None:
        raise error

    return command


def program(*names: str) -> typer.Typer:
    """Return the program, with some of its commands: a process imports only what its own command needs."""
    app = typer.Typer(
        cls=PlainGroup,
        help="Contextual bandits that learn a neural representation online, in bounded memory.",
        no_args_is_help=True,
        pretty_exceptions_show_locals=False,
    )
    for name in names or COMMANDS:
        _add(app, name)
    app.callback()(_main)
    return app


def _add(app: typer.Typer, name: str) -> None:
    extra, (module, attribute) = OF_COMMANDS[name], COMMANDS[name]
    panel = "Decisions" if extra in ("cli", "serve") else "Experiments"
    try:
        with needs(f"lim2 {name}", extra):
            command = getattr(import_module(f"lim2.commands.{module}"), attribute)
    except MissingExtraError as error:
        anything = {"allow_extra_args": True, "ignore_unknown_options": True}
        hint = f"Not installed: needs the extra {extra!r}."  # brackets mean something else to some versions of typer
        app.command(
            name, help=hint, context_settings=anything, add_help_option=False, rich_help_panel=panel
        )(_absent(error))  # fmt: skip
        return
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name, rich_help_panel=panel)
    else:
        app.command(name, rich_help_panel=panel)(command)


def _version(print_version: bool) -> None:
    if print_version:
        typer.echo(f"lim2 {lim2.__version__} (kernels: {DESCRIPTION})")
        raise typer.Exit


def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Contextual bandits that learn a neural representation online, in bounded memory."""
