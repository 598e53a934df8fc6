"""Move bandits from a folder into a database: descriptions, logs with all that waits, models and documents.

A log is copied and compared row by row, and a bandit is there only when all of it is. So a move that was interrupted
can be repeated. The folder is not changed.
"""

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from lim2.bandit import Bandit
from lim2.log import DecisionLog
from lim2.log.copying import compare, copy
from lim2.log.store import open_store
from lim2.serve import spec as specs
from lim2.serve.catalog import Catalog, FileCatalog, NoBanditError
from lim2.serve.catalog.postgres import TOKEN, PostgresCatalog
from lim2.serve.spec import START, Stored

# What is to be done with a bandit: move it; nothing, since an earlier move did it; or nothing, since there is nothing.
Need = Literal["move", "moved", "unused"]
Check = Callable[[DecisionLog, DecisionLog, Bandit], str]


class _Document(msgspec.Struct):
    """What all documents have."""

    id: str


def need(source: FileCatalog, target: PostgresCatalog, name: str) -> Need:
    """Return what is to be done with a bandit; raise a ValueError if the database has another one of its name.

    Every service has a bandit for Personalizer's endpoints. One that was never used gives way.
    """
    there, stored = _there(target, name), source.read(name)
    if there is None:
        return "move"
    if _is_unused(source, name, stored):
        return "unused"
    if _is_unused(target, name, there):
        return "move"
    with source.open_log(name, stored) as old, target.open_log(name, there) as new:
        same = msgspec.structs.replace(there, log=stored.log) == stored
        with old.store.copying() as one, new.store.copying() as other:
            if same and compare(one, other) is None:
                return "moved"
    raise ValueError(
        f"{target.name} has a bandit {name!r} already, which differs from that of {source.name}: delete one of the "
        "two, or name the bandits to move without it"
    )


def move(source: FileCatalog, target: PostgresCatalog, name: str, check: Check) -> str:
    """Move a bandit that needs it, and return what was moved; a ValueError if another one got its name meanwhile.

    ``check`` lets a small bandit learn from the log and from its copy, before anybody can use the copy; it raises an
    error if the results differ, and else returns a message.
    """
    there, stored = _there(target, name), source.read(name)
    if there is not None:
        if not _is_unused(target, name, there):
            raise _has_another(target, name)
        target.delete(name)
    with source.open_log(name, stored) as old:
        # The same name whenever it is moved: what an interrupted move has left is found again.
        new = msgspec.structs.replace(stored, log=f"{name}/{stored.revision}-{old.id[: 2 * TOKEN]}")
        made = False
        try:
            target.delete_log(name, new.log)
            text = _copy(old, target.address_of(new.log), check, stored)
            made = target.adopt(name, new, list(_documents(source, name, stored)))
        finally:
            if not made:
                target.delete_log(name, new.log)
    if not made:
        raise _has_another(target, name)
    return text


def _copy(old: DecisionLog, address: str, check: Check, stored: Stored) -> str:
    store = open_store(address, "full", False)
    try:
        copy(old.store, store)
    finally:
        store.close()
    with DecisionLog(address, keep=None, read_only=True) as new:
        small = specs.made(msgspec.structs.replace(stored.spec, algorithm="LinearTS", settings={}, seed=0))
        verified, state = check(old, new, small), new.state
    return f"{state.position} events and {state.pending} pending decisions. {verified}"


def _documents(source: FileCatalog, name: str, stored: Stored) -> Iterator[tuple[str, str, bytes]]:
    """Yield kind, id and content of the documents of a bandit."""
    if stored.start_file is not None:
        content = source.documents(name, START).get(stored.start_file)
        if content is not None:
            yield START, stored.start_file, content
    for kind in source.kinds(name):
        for content in source.documents(name, kind).all():
            yield kind, msgspec.json.decode(content, type=_Document).id, content


def _there(target: PostgresCatalog, name: str) -> Stored | None:
    try:
        return target.read(name)
    except NoBanditError:
        return None


def _has_another(target: PostgresCatalog, name: str) -> ValueError:
    return ValueError(f"{target.name} has got another bandit {name!r} meanwhile: delete one of the two")


def _is_unused(catalog: Catalog, name: str, stored: Stored) -> bool:
    """Return whether a bandit is the one behind Personalizer's endpoints, and as it was made."""
    own = stored.personalizer
    if own is None or own.edited is not None or stored.revision:
        return False
    with catalog.open_log(name, stored) as log:
        state = log.state
    return not state.position and not state.pending
