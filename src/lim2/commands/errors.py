"""Error messages of commands: one line, the same for every command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

FAILED = 1  # the command ran, and something failed
WRONG = 2  # the input was wrong
INTERRUPTED = 130
# All errors of usage are of the kind of which this is one; where typer keeps their class depends on its version.
UsageError: type[Any] = typer.BadParameter.__mro__[1]


def say(message: str) -> None:
    """Print an error."""
    Console(stderr=True, highlight=False).print(f"error: {message}", style="red", markup=False, soft_wrap=True)


def fail(message: str, details: Sequence[str]) -> NoReturn:
    """Print that something failed, then what, and end with status 1."""
    say(message)
    for line in details:
        Console(stderr=True, highlight=False).print(f"  {line}", markup=False, soft_wrap=True)
    raise typer.Exit(FAILED)


@contextmanager
def plain_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Print an error of the input as one message, and exit with status 2."""
    try:
        yield
    except kinds as error:
        say(str(error))
        raise typer.Exit(WRONG) from error


class PlainGroup(TyperGroup):
    """Group of commands that reports wrong options and arguments like any other error."""

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **rest: Any) -> Any:  # type: ignore[override]
        """Run a command; on wrong usage print one line and exit with status 2."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **rest)
        try:
            code = super().main(args, standalone_mode=False, **rest)
        except UsageError as error:
            hint = f"; see {error.ctx.command_path} --help" if error.ctx else ""
            if message := error.format_message().rstrip("."):  # a command without a word has shown its help instead
                say(message + hint)
            raise SystemExit(WRONG) from error
        except typer.Abort as error:
            raise SystemExit(INTERRUPTED) from error
        raise SystemExit(code if isinstance(code, int) else 0)
