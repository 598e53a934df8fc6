"""Check the datasets on this machine against their documentation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lim2.problems.cache import parsed
from lim2.problems.errors import DataError
from lim2.problems.facts import Facts, balance
from lim2.problems.files import Folder, find, remembered_sha256
from lim2.problems.item_problem import ItemProblem
from lim2.problems.problem import Problem
from lim2.problems.registry import Entry, entries
from lim2.problems.registry import find as find_entry
from lim2.problems.sources import SOURCES


@dataclass(frozen=True)
class Presence:
    """Presence of a dataset on this machine."""

    state: Literal["here", "part", "missing"]
    paths: tuple[Path, ...]
    size: int  # bytes


@dataclass(frozen=True)
class Finding:
    """Result of checking one set of a dataset's files."""

    name: str
    paths: tuple[Path, ...]
    default: bool = True  # whether they are the files that are read by default
    rows: int = 0
    n_features: int = 0
    n_arms: int = 0
    classes: tuple[int, ...] = ()  # rows of each class
    notes: tuple[str, ...] = ()
    error: str = ""


def datasets(names: Sequence[str] = ()) -> list[tuple[Entry, Facts]]:
    """Return the registered datasets of those names, or all."""
    chosen: Iterable[Entry] = [find_entry(name) for name in names] if names else entries()
    found = [(entry, entry.facts) for entry in chosen if entry.facts is not None]
    without = [entry.name for entry in chosen if entry.facts is None] if names else []
    if without:
        raise ValueError(f"{without[0]} is not a dataset with files; it needs none")
    return found


def presence(facts: Facts, data: Folder = None) -> Presence:
    """Return the presence of a dataset on this machine."""
    best = Presence("missing", (), 0)
    for files in (facts.files, *facts.alternatives):
        paths = tuple(path for file in files if (path := find(file, data)) is not None)
        size = sum(path.stat().st_size for path in paths)
        if len(paths) == len(files):
            return Presence("here", paths, size)
        if paths and best.state == "missing":
            best = Presence("part", paths, size)
    return best


def data_digest(facts: Facts, settings: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the files that a problem with some settings reads; "" if one is missing."""
    data = settings.get("data")
    if (split := facts.splits.get(str(settings.get("split")))) is not None:
        paths = [path for path in [find(split, data)] if path is not None]
    else:
        found = presence(facts, data)
        paths = list(found.paths) if found.state == "here" else []
    sums = " ".join(map(remembered_sha256, paths))
    return hashlib.sha256(sums.encode()).hexdigest() if sums else ""


def copies(facts: Facts, paths: Sequence[Path]) -> list[str]:
    """Return descriptions of files that are known but not the published ones."""
    names = {Path(file).name: SOURCES[file] for file in _all_files(facts) if file in SOURCES}
    notes = []
    for path in paths:
        name = path.stem if path.suffix in (".gz", ".xz") else path.name
        note = names[name].note(remembered_sha256(path)) if name in names else None
        if note:
            notes.append(note)
    return notes


def check(entry: Entry, data: Folder = None) -> list[Finding]:
    """Parse every set of a dataset's files on this machine, and compare it with the documentation."""
    facts = entry.facts
    if facts is None or entry.parse is None:
        raise ValueError(f"{entry.name} is not a dataset with files; it needs none")
    findings = []
    for number, files in enumerate((facts.files, *facts.alternatives)):
        paths = tuple(path for file in files if (path := find(file, data)) is not None)
        if len(paths) == len(files):
            findings.append(_check(entry, facts, files, paths, data, default=number == 0))
    return findings


def _check(
    entry: Entry, facts: Facts, files: Sequence[str], paths: tuple[Path, ...], data: Folder, *, default: bool
) -> Finding:
    assert entry.parse is not None
    try:
        table = parsed(entry.name, facts, entry.parse, data=data, files=files, again=True)
        facts.check(table.codes, paths[0])
        n_features, n_arms = facts.n_features, facts.n_arms
        if default:
            problem = entry.loader(rounds=1, seed=0, data=data)
            found, documented = _sizes(problem), _documented(facts)
            n_features, n_arms = problem.n_features, facts.n_arms
            right_size = facts.features_vary or n_features == facts.n_features
            if not right_size or found[1] != documented[1]:
                raise DataError(
                    paths[0],
                    f"{found[0]} features and {found[1]}, documented are {documented[0]} and {documented[1]}",
                )
    except DataError as error:
        return Finding(entry.name, paths, default, error=str(error))
    return Finding(
        entry.name,
        paths,
        default,
        table.height,
        n_features,
        n_arms,
        balance(table.codes, facts.n_arms),
        table.notes,
    )


def _sizes(problem: Problem | ItemProblem) -> tuple[int, str]:
    if isinstance(problem, ItemProblem):
        return problem.n_features, f"{problem.n_item_features} features of items"
    return problem.n_features, f"{problem.n_arms} arms"


def _documented(facts: Facts) -> tuple[int, str]:
    if facts.n_item_features is not None:
        return facts.n_features, f"{facts.n_item_features} features of items"
    return facts.n_features, f"{facts.n_arms} arms"


def _all_files(facts: Facts) -> tuple[str, ...]:
    return (*facts.files, *(file for files in facts.alternatives for file in files))
