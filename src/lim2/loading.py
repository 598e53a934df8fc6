"""Agents to files and back: what of an agent is saved, and how it is made again.

Saved are the settings, which are the fields of the algorithm, and every leaf of its state; so a new algorithm or
component is saved without a line here. Loading makes the state from its leaves and checks it: nothing is drawn or
trained, and nothing is allocated that the file does not hold.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2 import state as trees
from lim2.agent import Agent
from lim2.algorithms import ALGORITHMS, Algorithm
from lim2.algorithms.base import check_floor
from lim2.arms import arm_names
from lim2.exploration import UCB, Random, Thompson
from lim2.items import ItemAgent
from lim2.persistence.container import START, LoadError, check_start, pack, unpack
from lim2.persistence.settings import decoded, encoded, made
from lim2.representation import MLP, SGD, Adam, Intercept, Representation, RMSProp, Standardized
from lim2.state import Count, Ints
from lim2.streams import Streams

# The objects that a setting may be. Besides, a representation may be one that describes itself, as Torch can.
KNOWN: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Thompson, UCB, Random, MLP, RMSProp, SGD, Adam, Standardized, Intercept)
}

# What a file that says something impossible can lead to while an agent is made of it.
_FAILURES = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RuntimeError, MemoryError)

_HEADER = {"agent", "arms", "settings", "rounds", "streams", "metadata", "values"}


def load(path: str | os.PathLike[str], *, seed: int | None = None, representation: Representation | None = None) -> Any:
    """Return the agent that was saved to a file; it learns on, bit for bit, as the saved one would have.

    An agent that was made with a seed also goes on deciding as the saved one would have. One without a seed decides
    from a fresh random stream in every process that loads it.

    Parameters
    ----------
    path
        A file written by ``agent.save``, by this version of lim2 or an older one.
    seed
        Decide from a new random stream, as ``agent.reseed(seed)`` does; None: as above.
    representation
        The representation that the agent was made with, if it is one that a file cannot describe: a
        ``lim2.representation.Torch`` with a module of your own or with an optimizer of PyTorch, or a class of your own.
        Its parameters may be any: they are replaced by the saved ones.

    Raises
    ------
    LoadError
        A ValueError: the file is not a saved agent, was truncated or altered, is of another version, or does not fit
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
            start = file.read(START)
            check_start(start)  # before reading on: whatever it is may be long
            content = start + file.read()
        agent = parse(content, seed=seed, representation=representation)
    except LoadError as error:
        raise LoadError(f"{os.fspath(path)}: {error}") from error
    return agent if agent.algorithm.n_item_features is None else ItemAgent(agent)


# Saving


def dump(agent: Agent) -> bytes:
    """Return the content of an agent's file; equal agents give equal content."""
    algorithm = agent.algorithm
    if ALGORITHMS.get(agent.name) is not type(algorithm):
        raise ValueError(
            f"{type(algorithm).__qualname__} cannot be saved: only the agents in lim2.AGENTS can, not their subclasses"
        )
    core, asked, positions = agent.parts()
    leaves = {f"state/{path}": leaf for path, leaf in trees.leaves(trees.canonical(core.state))}
    arrays = {path: leaf for path, leaf in leaves.items() if isinstance(leaf, np.ndarray)}
    header = {
        "agent": agent.name,
        "arms": [encoded(name, "an arm's name", KNOWN) for name in core.names],
        "settings": {f.name: _setting(f.name, getattr(algorithm, f.name)) for f in fields(algorithm)},
        "rounds": core.rounds,
        "streams": positions,
        "metadata": _checked_metadata(agent.metadata),
        "values": {path: encoded(leaf, path, {}) for path, leaf in leaves.items() if path not in arrays},
    }
    # An arm that has been updated often enough is owed no turn, however often it was decided for.
    turns = np.where(core.pulls < algorithm.turns, np.minimum(asked, algorithm.turns), 0)
    return pack(header, {"pulls": core.pulls, "asked": turns, **arrays})


def _setting(name: str, value: Any) -> Any:
    """Return a setting as JSON."""
    if name == "representation":
        try:
            return encoded(value, name, KNOWN)
        except ValueError:
            described = value.description() if hasattr(value, "description") else None
            return described or {"given": type(value).__name__, "shown": repr(value)}
    if name == "exploration" and not isinstance(value, str | None) and type(value) not in KNOWN.values():
        raise ValueError(
            f"an exploration of type {type(value).__qualname__} cannot be saved; those that can: {', '.join(KNOWN)}"
        )
    return encoded(value, name, KNOWN)


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


# Loading


def parse(content: bytes, *, seed: int | None = None, representation: Representation | None = None) -> Agent:
    """Return the agent that :func:`dump` returned the content of; a LoadError if anything is wrong with it."""
    header, arrays = unpack(content)
    try:
        agent = _made(header, arrays, representation)
    except LoadError:
        raise
    except _FAILURES as error:
        raise LoadError(f"no agent can be made of the file, it was altered or does not fit: {error}") from error
    if seed is not None:
        agent.reseed(seed)
    return agent


def _made(header: dict[str, Any], arrays: dict[str, NDArray[Any]], representation: Representation | None) -> Agent:
    if set(header) != _HEADER:
        raise LoadError(f"the header has {', '.join(sorted(header))}, which is not what a saved agent has")
    coded, values, metadata = (header[key] for key in ("settings", "values", "metadata"))
    if not all(isinstance(part, dict) for part in (coded, values, metadata)) or not isinstance(header["arms"], list):
        raise LoadError("settings, values and metadata must be JSON objects, and arms a list")
    algorithm = _algorithm(header["agent"], coded, representation, arrays)
    names = arm_names([decoded(arm, {}) for arm in header["arms"]])
    _check_settings(algorithm, len(names))
    counts = _counts(arrays, header["rounds"], len(names))
    flat = {path: array.copy() for path, array in arrays.items()}
    flat |= {path: decoded(value, {}) for path, value in values.items()}
    if len(flat) < len(arrays) + len(values) or not all(path.startswith("state/") for path in flat):
        raise LoadError("a part of the state is there twice, or has another name")
    flat = {path.removeprefix("state/"): leaf for path, leaf in flat.items()}
    state = trees.rebuilt(algorithm.state_type, flat, algorithm.kinds())
    trees.check(state, algorithm.sizes(len(names)))
    algorithm.check(state)
    agent = Agent.restored(algorithm, Streams.at(header["streams"]), names, state, counts)
    agent.metadata = _checked_metadata(metadata)
    return agent


def _algorithm(name: Any, coded: Mapping[str, Any], given: Representation | None, arrays: Any) -> Algorithm:
    """Return the algorithm with its settings."""
    kind = ALGORITHMS.get(name) if isinstance(name, str) else None
    if kind is None and name == "TransportTS":
        raise LoadError("TransportTS is gone: AdaptiveTS replaces it, but cannot go on from its files: make a new one")
    if kind is None:
        raise LoadError(f"the agent {name!r} is not known: was it saved by a newer version of lim2?")
    settings = {key: decoded(value, KNOWN) for key, value in coded.items() if key != "representation"}
    if "representation" in coded:
        settings["representation"] = _representation(coded["representation"], given, arrays)
    elif given is not None:
        raise LoadError(f"{name} has no representation: load it without one")
    algorithm: Algorithm = made(kind, settings)
    return algorithm


def _representation(coded: Any, given: Representation | None, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return the representation that the file describes, or the one given, which must be of the same type."""
    if isinstance(coded, dict) and set(coded) == {"given", "shown"}:
        if given is None:
            raise LoadError(
                f"the agent has a representation that a file cannot describe, {coded['shown']}: make it as before and "
                "load the agent with lim2.load(path, representation=...)"
            )
        if type(given).__name__ != coded["given"] or (coded["given"] == "Torch" and repr(given) != coded["shown"]):
            raise LoadError(f"the agent has the representation {coded['shown']}, which {given!r} is not")
        return given
    described = coded.get("object") if isinstance(coded, dict) else None
    if given is not None:
        if type(given).__name__ != described:
            raise LoadError(f"the agent was not saved with a representation such as {given!r}: load it without one")
        return given
    if described != "Torch":
        return decoded(coded, KNOWN)
    from lim2.representation import Torch  # here, because it imports PyTorch

    return Torch.from_description(coded, arrays)


def _check_settings(algorithm: Algorithm, n_arms: int) -> None:
    """Raise unless the settings make sense, for the arms that there were and for those that there are."""
    algorithm.validate()
    check_floor(algorithm.min_propensity, n_arms)
    np.random.SeedSequence(algorithm.seed)


class _Counts(NamedTuple):
    """What the shell counts."""

    pulls: Annotated[Ints, "arm", "count"]
    asked: Annotated[Ints, "arm", "count"]
    rounds: Count


def _counts(arrays: dict[str, NDArray[Any]], rounds: Any, n_arms: int) -> _Counts:
    """Return the counts of the shell; the arrays are taken out of those of the file."""
    if not {"pulls", "asked"} <= set(arrays):
        raise LoadError("the pulls of the arms are missing")
    counts = _Counts(arrays.pop("pulls").copy(), arrays.pop("asked").copy(), rounds)
    trees.check(counts, {"arm": n_arms})
    if sum(counts.pulls.tolist()) > rounds:
        raise LoadError(f"the arms were pulled more often than there were rounds, which is {rounds}")
    return counts
