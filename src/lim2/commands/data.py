"""`lim2 data`: list, fetch and check datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from lim2.commands.errors import FAILED, plain_errors
from lim2.problems.check import Finding, check, copies, datasets, presence
from lim2.problems.errors import DataError, FetchError, MissingDataError
from lim2.problems.facts import Facts, described
from lim2.problems.fetch import fetch, target_folder
from lim2.problems.files import folders
from lim2.problems.registry import entries
from lim2.problems.sources import SOURCES

app = typer.Typer(help="Datasets: list, fetch and check them.")

DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Folder of the datasets. Default: LIM2_DATA, then the user's cache."),
]


def console() -> Console:
    """Return a console with the current width of the terminal."""
    return Console(highlight=False)


def size_text(size: int) -> str:
    """Return a number of bytes as readable text.

    Examples
    --------
    >>> size_text(0), size_text(999_999), size_text(10_774_595)
    ('', '1.0 MB', '10.8 MB')
    """
    if size == 0:
        return ""
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


ERRORS = (DataError, FetchError, MissingDataError, ValueError)


@app.callback(invoke_without_command=True)
def overview(context: typer.Context, data: DataOption = None) -> None:
    """List all datasets, whether they are on this machine, and their sources."""
    if context.invoked_subcommand is not None:
        return
    out = console()
    with plain_errors(*ERRORS):
        out.print(_here(data))
        out.print(_origins())
        out.print(_synthetic())
    places = ", ".join(str(folder) for folder in folders(data))
    out.print(f"Looked in {places}.", style="dim", soft_wrap=True)
    out.print("Fetch with `lim2 data fetch NAME ...`, check with `lim2 data check`.", style="dim", soft_wrap=True)


def _here(data: Path | None) -> Table:
    table = Table(title="Datasets", title_justify="left", expand=False)
    table.add_column("problem", no_wrap=True)
    for column in ("d", "arms", "rows"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("on this machine")
    table.add_column("size", justify="right", no_wrap=True)
    for entry, facts in datasets():
        files_here = presence(facts, data)
        rows = f"{facts.published.rows:,}" if facts.published else ""
        table.add_row(
            entry.name,
            str(facts.n_features),
            str(facts.n_arms) if facts.n_item_features is None else f"{facts.n_arms} items",
            rows,
            _state(facts, files_here.state, copies(facts, files_here.paths)),
            size_text(files_here.size),
        )
    return table


def _state(facts: Facts, state: str, notes: list[str]) -> str:
    if state == "here":
        return f"[yellow]yes[/]: {'; '.join(notes)}" if notes else "[green]yes[/]"
    if state == "part":
        return "[red]some of its files[/]"
    return "no" if any(SOURCES[file].mirrors for file in facts.files if file in SOURCES) else "no, get it by hand"


def _origins() -> Table:
    table = Table(title="Where they come from", title_justify="left")
    table.add_column("problem", no_wrap=True)
    table.add_column("licence", max_width=22)
    table.add_column("source", overflow="fold")
    for entry, facts in datasets():
        source = SOURCES.get(facts.files[0])
        if source is not None:
            table.add_row(entry.name, source.licence, source.page.removeprefix("https://"))
    return table


def _synthetic() -> Table:
    table = Table(title="Synthetic: no files needed", title_justify="left")
    table.add_column("problem", no_wrap=True)
    table.add_column("what it is")
    for entry in entries():
        if entry.kind == "synthetic":
            table.add_row(entry.name, entry.summary)
    return table


@app.command("fetch")
def fetch_command(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Names of the datasets.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Fetch all datasets that can be downloaded.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Download again, even if the files exist.")] = False,
    data: DataOption = None,
) -> None:
    """Download datasets, resume interrupted transfers, and verify checksums.

    Example: lim2 data fetch statlog mushroom
    """
    out = console()
    with plain_errors(*ERRORS):
        if not names and not every:
            raise ValueError("name the datasets to fetch, or give --all; `lim2 data` lists them")
        chosen = datasets(names or ())
        folder = target_folder(data)
        failed = []
        for entry, facts in chosen:
            if every and not any(SOURCES[file].mirrors for file in facts.files):
                continue
            try:
                _fetch_one(out, entry.name, facts, folder, data, again=again)
            except FetchError as error:
                failed.append(f"{entry.name}: {error}")
        if failed:
            raise FetchError("\n".join(failed))


def _fetch_one(out: Console, name: str, facts: Facts, folder: Path, data: Path | None, *, again: bool) -> None:
    files_here = presence(facts, data)
    if files_here.state == "here" and not again:
        out.print(f"{name}: already here, {', '.join(str(path) for path in files_here.paths)}", soft_wrap=True)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True) as bars:
        for file in facts.files:
            task = bars.add_task(Path(file).name, total=SOURCES[file].size)
            path = fetch(
                SOURCES[file],
                folder,
                progress=lambda had, total, task=task: bars.update(task, completed=had, total=total),  # type: ignore[misc]
                again=again,
            )
            checksum = "checksum verified" if SOURCES[file].sha256 else "no published checksum"
            bars.console.print(f"{name}: {path} ({size_text(path.stat().st_size)}, {checksum})", soft_wrap=True)


@app.command("check")
def check_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Names of the datasets. Default: all.")
    ] = None,
    data: DataOption = None,
) -> None:
    """Parse the datasets on this machine, and compare rows, columns and classes with the documented ones."""
    out = console()
    with plain_errors(*ERRORS):
        chosen = datasets(names or ())
        findings: list[Finding] = []
        for entry, _ in chosen:
            with out.status(f"parsing {entry.name}"):
                findings += check(entry, data)
    absent = [entry.name for entry, facts in chosen if presence(facts, data).state != "here"]
    out.print(_report(findings))
    if absent:
        out.print(f"Not on this machine: {', '.join(absent)}.", style="dim", soft_wrap=True)
    wrong = [finding for finding in findings if finding.error]
    for finding in wrong:
        out.print(f"{finding.name}: {finding.error}", style="red", markup=False, soft_wrap=True)
    if wrong or (names and absent):
        raise typer.Exit(FAILED)


def _report(findings: list[Finding]) -> Table:
    table = Table(title="Comparison with the documentation", title_justify="left")
    table.add_column("problem", no_wrap=True)
    for column in ("rows", "d", "arms"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("rows of each class")
    table.add_column("result")
    for finding in findings:
        name = finding.name if finding.default else f"{finding.name}\n[dim]({finding.paths[0].name})[/]"
        if finding.error:
            table.add_row(name, "", "", "", "", "[red]WRONG[/], see below")
            continue
        notes = [note.split(": ", 1)[-1] for note in finding.notes]
        table.add_row(
            name,
            f"{finding.rows:,}",
            str(finding.n_features),
            str(finding.n_arms),
            described(finding.classes),
            f"[yellow]as documented[/]: {'; '.join(notes)}" if notes else "[green]as published[/]",
        )
    return table
