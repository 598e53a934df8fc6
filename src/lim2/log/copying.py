"""Copy a log between any two stores, and compare the copies."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from lim2.log.errors import LogError
from lim2.log.store import ROWS_PER_READ, Copy, Store

Item = TypeVar("Item")


def copy(source: Store, target: Store) -> None:
    """Copy a snapshot of a log into an empty one and compare the two; an agent can change over to the copy."""
    with source.copying() as content:
        with target.copying(write=True, span=content.span()) as into:
            into.take(
                content.meta(), _decisions(content), _events(content), content.batches(), content.models(),
                content.proofs(),
            )  # fmt: skip
        with target.copying() as written:
            difference = compare(content, written)
    if difference is not None:
        raise LogError(
            f"the copy {target.name} differs from {source.name}: {difference}. Delete the copy and try again."
        )


def compare(source: Copy, target: Copy) -> str | None:
    """Return the first difference between the contents of two logs, or None."""
    parts: dict[str, Callable[[Copy], Any]] = {
        "a value of the log": lambda content: iter(sorted(_values(content).items())),
        "a decision": lambda content: (record._replace(seq=0) for record in _decisions(content)),
        "an event": _events,
        "a batch": lambda content: iter(content.batches()),
        "a model": lambda content: iter(content.models()),
        "a proof": lambda content: ((proof.name, proof.sums) for proof in content.proofs()),
    }
    missing = object()
    for name, read in parts.items():
        values, copies = read(source), read(target)
        while True:
            a, b = next(values, missing), next(copies, missing)
            if a != b:
                return f"{name} is {_shown(a, missing)} in one and {_shown(b, missing)} in the other"
            if a is missing:
                break
    return None


def _values(content: Copy) -> dict[str, Any]:
    """Return the values of the log, without those of its learner."""
    return {key: value for key, value in content.meta().items() if key != "epoch" and value is not None}


def _shown(value: Any, missing: object) -> str:
    return "missing" if value is missing else f"{str(value)[:200]}"


def _decisions(content: Copy) -> Iterator[Any]:
    return _paged(content.decisions, lambda record: record.seq)


def _events(content: Copy) -> Iterator[Any]:
    return _paged(content.events, lambda event: event.position)


def _paged(read: Callable[[int, int], list[Item]], key: Callable[[Item], int]) -> Iterator[Item]:
    after = 0
    while page := read(after, ROWS_PER_READ):
        yield from page
        after = key(page[-1])


@contextmanager
def new_file(path: Path | str) -> Iterator[Path]:
    """Yield the path of a temporary file that becomes a new file at the end, and is removed after an error."""
    target = Path(path)
    if target.exists():
        raise LogError(f"{target} exists, and a copy never overwrites: name a new file")
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
