"""Runs the program within this process, for tests of its commands."""

import json
from typing import Any

from typer.testing import CliRunner

from lim2.cli import program


def run(*words: Any, answer: str | None = None) -> tuple[int, str]:
    """Return the status of a command, and all that it printed."""
    result = CliRunner().invoke(program(), [str(word) for word in words], input=answer)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def read(*words: Any) -> Any:
    """Return what a command prints as JSON."""
    result = CliRunner().invoke(program(), [str(word) for word in (*words, "--json")])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
