"""Options that select a problem: its name, or `--csv FILE --label COLUMN`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lim2.problems import from_csv, load
from lim2.problems.problem import Problem

CsvOption = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", help="Your own CSV or Parquet file, instead of a problem's name."),
]
LabelOption = Annotated[
    str | None, typer.Option("--label", metavar="COLUMN", help="With --csv: column of the class labels.")
]
SettingOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Setting of the problem, such as delta=0.9. Repeatable."),
]


def settings_of(pairs: Sequence[str] | None) -> dict[str, Any]:
    """Return settings given as `KEY=VALUE`; a value that is not a Python literal is text.

    Examples
    --------
    >>> settings_of(["delta=0.9", "change=gradual", "standardize=None"])
    {'delta': 0.9, 'change': 'gradual', 'standardize': None}
    """
    settings: dict[str, Any] = {}
    for pair in pairs or ():
        key, sign, text = pair.partition("=")
        if not sign or not key:
            raise typer.BadParameter(f"expected KEY=VALUE, got {pair!r}", param_hint="--set")
        try:
            settings[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            settings[key] = text
    return settings


def chosen(
    name: str | None,
    *,
    csv: Path | None = None,
    label: str | None = None,
    rounds: int | None = None,
    seed: int | None = None,
    data: Path | None = None,
    pairs: Sequence[str] | None = None,
) -> Problem:
    """Return the problem selected by the options of a command."""
    if (name is None) == (csv is None):
        raise typer.BadParameter("give either a problem's name or --csv FILE", param_hint="problem")
    if (csv is None) != (label is None):
        raise typer.BadParameter("--csv FILE and --label COLUMN must be given together", param_hint="--csv")
    settings = settings_of(pairs)
    if csv is not None and label is not None:
        return from_csv(csv, label, rounds="all" if rounds is None else rounds, seed=seed, **settings)
    assert name is not None
    if data is not None:
        settings["data"] = data
    return load(name, rounds, seed, **settings)
