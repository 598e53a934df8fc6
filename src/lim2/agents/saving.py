"""Agents to files and back: what of an agent is saved, and how it is made again.

An agent is made anew from its settings, by its own constructor, and then its state is put into it. Settings are plain
values, or objects of the types in ``_types``; state is what the classes name in ``_kept``. So a new agent, keyword or
component is saved without a line here, as long as it has a name in ``AGENTS``.
"""

import inspect
import json
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2._state import State, put_back, state_of
from lim2.agents import AGENTS
from lim2.agents.base import Agent
from lim2.agents.container import LoadError, check_start, pack, unpack
from lim2.exploration import UCB, Thompson
from lim2.representation import MLP, SGD, Adam, Representation, RMSProp

# What a file that says something impossible can lead to while an agent is made of it.
_FAILURES = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RuntimeError, MemoryError)

# Files that a killed process left half written are removed after this many seconds.
_STALE = 3600.0


def load(path: str | os.PathLike[str], *, representation: Representation | None = None) -> Agent:
    """Return the agent that was saved to a file; it goes on, bit for bit, as the saved one would have.

    Parameters
    ----------
    path
        A file written by ``agent.save``, by this version of lim2 or an older one.
    representation
        The representation that the agent was made with, if it is one that a file cannot describe: a
        ``lim2.representation.Torch`` with a module of your own or with an optimizer of PyTorch, or a class of your own.
        Its parameters may be any: they are replaced by the saved ones.

    Raises
    ------
    LoadError
        A ValueError: the file is not a saved agent, was truncated or altered, is of a newer version, or does not fit
        the representation. There is no half-loaded agent.
    OSError
        The file cannot be read.
    ModuleNotFoundError
        The agent needs PyTorch, which is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import lim2
    >>> agent = lim2.LinearTS(n_arms=2, n_features=1, seed=0)
    >>> agent.update([1.0], 0, 1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     agent.save(f"{folder}/agent.lim2")
    ...     loaded = lim2.load(f"{folder}/agent.lim2")
    >>> loaded.rounds, [loaded.act([1.0]) for _ in range(9)] == [agent.act([1.0]) for _ in range(9)]
    (1, True)
    """
    try:
        with Path(path).open("rb") as file:
            start = file.read(64)
            check_start(start)  # before reading on: whatever it is may be long
            content = start + file.read()
        return parse(content, representation)
    except LoadError as error:
        raise LoadError(f"{os.fspath(path)}: {error}") from error


# Saving


def dump(agent: Agent) -> bytes:
    """Return the content of an agent's file; equal agents give equal content."""
    kind: type[Agent] = type(agent)
    if AGENTS.get(agent.name) is not kind:
        raise ValueError(
            f"{kind.__qualname__} cannot be saved: only the agents in lim2.AGENTS can, not their subclasses"
        )
    with agent._locks.learning:
        state = state_of(agent, agent._kept)
        metadata = _checked_metadata(agent.metadata)
        settings = {name: value for name, value in agent._settings.items() if name not in ("n_arms", "arms")}
        names = getattr(agent, "arms", range(agent.n_arms))
    expected = set(inspect.signature(type(agent)).parameters) - {"n_arms", "arms"}
    if lost := sorted(expected - set(settings | agent._objects())):
        raise ValueError(f"{lost[0]} cannot be saved: it was given as an object that a file has no place for")
    encoded = {name: _encoded(value, name) for name, value in sorted((settings | agent._objects()).items())}
    values, arrays = _flat(state)
    header = {
        "agent": agent.name,
        "arms": [_encoded(name, "an arm's name") for name in names],
        "settings": encoded,
        "metadata": metadata,
        "values": {name: _encoded(value, name) for name, value in values.items()},
    }
    return pack(header, arrays)


def _checked_metadata(metadata: Any) -> Any:
    """Return metadata if it comes back from JSON as it is."""
    try:
        same = isinstance(metadata, dict) and json.loads(json.dumps(metadata, allow_nan=False)) == metadata
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"agent.metadata must be a dict of JSON values to be saved: {error}") from error
    if not same:
        raise ValueError(
            "agent.metadata must be a dict of JSON values to be saved: keys are strings, sequences are lists, "
            f"got {metadata!r}"
        )
    return metadata


def _flat(state: Mapping[str, Any], prefix: str = "") -> tuple[State, dict[str, NDArray[Any]]]:
    """Return a nested state as values and arrays, each under a path such as ``posterior/mu``."""
    values: State = {}
    arrays: dict[str, NDArray[Any]] = {}
    for key, value in state.items():
        name = prefix + key.replace("%", "%25").replace("/", "%2F")
        if isinstance(value, Mapping):
            inner = _flat(value, f"{name}/")
            values |= inner[0]
            arrays |= inner[1]
        elif isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            values[name] = value
    return values, arrays


def _nested(flat: Mapping[str, Any]) -> State:
    """Undo :func:`_flat`."""
    state: State = {}
    for name, value in flat.items():
        *parents, key = (part.replace("%2F", "/").replace("%25", "%") for part in name.split("/"))
        inner = state
        for parent in parents:
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                raise LoadError(f"{name} is inside of what is a value")
        if key in inner:
            raise LoadError(f"{name} is there twice")
        inner[key] = value
    return state


def _encoded(value: Any, what: str) -> Any:
    """Return a value as JSON that :func:`_decoded` makes the same value of, type included."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"float": str(value)}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(part, what) for part in value]}
    if isinstance(value, list):
        return [_encoded(part, what) for part in value]
    kind = type(value)
    if kind in _TYPES.values():
        settings = {name: _encoded(getattr(value, name), what) for name in inspect.signature(kind).parameters}
        return {"object": kind.__name__, "settings": settings}
    if what == "representation":
        described: dict[str, Any] = value.description() if hasattr(value, "description") else {}
        return described or {"given": kind.__name__, "shown": repr(value)}
    if what == "exploration":
        raise ValueError(f"an exploration of type {kind.__qualname__} cannot be saved; those that can: {_saved()}")
    raise ValueError(
        f"{what} cannot be saved: {value!r} is of type {kind.__qualname__}; a file has place for strings, numbers, "
        "True, False, None and tuples of these"
    )


# The objects that a setting may be. Their arguments are attributes of the same names.
_TYPES: dict[str, type[Any]] = {kind.__name__: kind for kind in (Thompson, UCB, MLP, RMSProp, SGD, Adam)}


def _saved() -> str:
    return ", ".join(_TYPES)


# Loading


def parse(content: bytes, representation: Representation | None = None) -> Agent:
    """Return the agent that :func:`dump` returned the content of; a LoadError if anything is wrong with it."""
    header, arrays = unpack(content)
    try:
        return _made(header, arrays, representation)
    except LoadError:
        raise
    except _FAILURES as error:
        raise LoadError(f"no agent can be made of the file, it was altered or does not fit: {error}") from error


def _made(header: dict[str, Any], arrays: dict[str, NDArray[Any]], representation: Representation | None) -> Agent:
    if set(header) != {"agent", "arms", "settings", "metadata", "values"}:
        raise LoadError(f"the header has {', '.join(sorted(header))}, which is not what a saved agent has")
    kind = AGENTS.get(header["agent"])
    if kind is None:
        raise LoadError(f"the agent {header['agent']!r} is not known: was it saved by a newer version of lim2?")
    coded, values, metadata = header["settings"], header["values"], header["metadata"]
    if not (isinstance(coded, dict) and isinstance(values, dict) and isinstance(metadata, dict)):
        raise LoadError("settings, values and metadata must be JSON objects")
    settings = {name: _decoded(value) for name, value in coded.items() if name != "representation"}
    if "representation" in coded:
        settings["representation"] = _representation(coded["representation"], representation, arrays)
    elif representation is not None:
        raise LoadError(f"{header['agent']} has no representation: load it without one")
    names = [_decoded(name) for name in header["arms"]]
    numbered = all(type(name) is int for name in names) and names == list(range(len(names)))
    settings |= {"n_arms": len(names)} if numbered else {"arms": names}

    state = _nested({name: _decoded(value) for name, value in values.items()} | arrays)
    _check_sizes(kind, settings, len(names), arrays)
    agent = kind(**settings)
    put_back(agent, agent._kept, state)
    held = arrays.get("memory/arms")
    if held is not None and held.size and not 0 <= held.min() <= held.max() < agent.n_arms:
        raise LoadError(f"the memory holds arms beyond the {agent.n_arms} that there are")
    agent.metadata = metadata
    return agent


def _check_sizes(kind: Any, settings: State, n_arms: int, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise unless the file holds what an agent of such settings does: before as much as they ask for is allocated."""
    given = inspect.signature(kind).bind_partial(**settings)
    given.apply_defaults()
    least = kind._least_numbers(n_arms, given.arguments)
    held = sum(array.size for array in arrays.values())
    if least > held:
        raise LoadError(f"its settings are of an agent that has {least} numbers or more, but the file holds {held}")
    shape = settings.get("n_features")
    contexts = arrays.get("memory/contexts")
    if contexts is not None and shape is not None and contexts.shape[1:] != tuple(np.atleast_1d(shape).tolist()):
        raise LoadError(f"contexts in memory have shape {contexts.shape[1:]}, n_features is {shape}")


def _decoded(value: Any) -> Any:
    """Undo :func:`_encoded`."""
    if isinstance(value, list):
        return [_decoded(part) for part in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"tuple"} and isinstance(value["tuple"], list):
        return tuple(_decoded(part) for part in value["tuple"])
    if set(value) == {"float"} and value["float"] in ("nan", "inf", "-inf"):
        return float(value["float"])
    if set(value) == {"object", "settings"} and value["object"] in _TYPES and isinstance(value["settings"], dict):
        return _TYPES[value["object"]](**{name: _decoded(part) for name, part in value["settings"].items()})
    raise LoadError(f"the header says {str(value)[:100]}, which is no value that is known here: of a newer lim2?")


def _representation(coded: Any, given: Representation | None, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return the representation that the file describes, or the one given, which must be of the same type."""
    described = isinstance(coded, dict) and coded.get("object") == "Torch"
    if isinstance(coded, dict) and set(coded) == {"given", "shown"}:
        if given is None:
            raise LoadError(
                f"the agent has a representation that a file cannot describe, {coded['shown']}: make it as before and "
                "load the agent with lim2.load(path, representation=...)"
            )
        if type(given).__name__ != coded["given"] or (coded["given"] == "Torch" and repr(given) != coded["shown"]):
            raise LoadError(f"the agent has the representation {coded['shown']}, which {given!r} is not")
        return given
    if given is not None:
        if coded is None or type(given).__name__ != coded.get("object"):
            raise LoadError(f"the agent was not saved with a representation such as {given!r}: load it without one")
        return given
    if not described:
        return _decoded(coded)
    from lim2.representation import Torch  # here, because it imports PyTorch

    return Torch.from_description(coded, {name.removeprefix("representation/"): a for name, a in arrays.items()})


# Writing


def write(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all, whatever happens to the process or the machine; back when it is on disk."""
    path = path.resolve()  # a link goes on pointing to the file
    part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    _sync_folder(path.parent)
    _remove_stale(path)


def _sync_folder(folder: Path) -> None:
    """Make sure that a new name in a folder is on disk; other systems than POSIX do so by themselves."""
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _remove_stale(path: Path) -> None:
    """Remove what processes left that were killed while they wrote this file."""
    start = f".{path.name}."
    for entry in os.scandir(path.parent):
        if entry.name.startswith(start) and entry.name.endswith(".part"):
            try:
                if time.time() - entry.stat().st_mtime > _STALE:
                    Path(entry.path).unlink()
            except FileNotFoundError:  # another process was quicker
                continue
