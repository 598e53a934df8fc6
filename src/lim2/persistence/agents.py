"""Agents as the bytes of a file.

A file holds the settings, which are the fields of the algorithm, and every leaf of its state, so that new algorithms
need no code here. Loading rebuilds the state from its leaves and checks it: it draws and trains nothing, and allocates
no more than the file holds.
"""

import json
from collections.abc import Hashable, Mapping
from dataclasses import fields
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2 import state as trees
from lim2.algorithms import ALGORITHMS, AdaptiveTS, Algorithm, linear_ts_files
from lim2.arms import arm_names
from lim2.checks import as_float
from lim2.deciding import BanditState
from lim2.exploration import UCB, Random, Thompson
from lim2.matching import Matching
from lim2.persistence.container import LoadError, pack, unpack
from lim2.persistence.settings import build, decoded, encoded
from lim2.representation import MLP, SGD, Adam, Intercept, Representation, RMSProp, Standardized
from lim2.state import Count, Ints
from lim2.streams import Streams

# The objects that a setting may be. Besides, a representation may be one that describes itself, as Torch can.
CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Thompson, UCB, Random, Matching, MLP, RMSProp, SGD, Adam, Standardized, Intercept)
}

# What a file that says something impossible can lead to while an agent is made of it.
INVALID_FILE_ERRORS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RuntimeError, MemoryError)

ROUNDING = 1e-12  # of a floor times the number of arms

_HEADER = {"agent", "arms", "settings", "rounds", "streams", "metadata", "values"}


# Saving


class SavedAgent(NamedTuple):
    """What a file says of an agent."""

    algorithm: Algorithm
    streams: Streams
    names: tuple[Hashable, ...]
    state: Any
    counts: "Counts"
    metadata: dict[str, Any]


class Counts(NamedTuple):
    """Updates and turns of each arm, and the number of updates."""

    pulls: Annotated[Ints, "arm", "count"]
    asked: Annotated[Ints, "arm", "count"]
    rounds: Count


def dump(algorithm: Algorithm, state: BanditState, asked: Ints, positions: Mapping[str, Any]) -> bytes:
    """Return an agent as the bytes of a file; equal agents give equal bytes."""
    if ALGORITHMS.get(algorithm.name) is not type(algorithm):
        raise ValueError(
            f"{type(algorithm).__qualname__} cannot be saved: only the agents in lim2.AGENTS can, not their subclasses"
        )
    leaves = {f"state/{path}": leaf for path, leaf in trees.leaves(trees.canonical(state.model))}
    arrays = {path: leaf for path, leaf in leaves.items() if isinstance(leaf, np.ndarray)}
    header = {
        "agent": algorithm.name,
        "arms": [encoded(name, "an arm's name", CLASSES) for name in state.names],
        "settings": {f.name: _setting(f.name, getattr(algorithm, f.name)) for f in fields(algorithm)},
        "rounds": state.rounds,
        "streams": positions,
        "metadata": _checked_metadata(state.metadata),
        "values": {path: encoded(leaf, path, {}) for path, leaf in leaves.items() if path not in arrays},
    }
    # An arm that has been updated often enough is owed no turn, however often it was decided for.
    turns = np.where(state.pulls < algorithm.turns, np.minimum(asked, algorithm.turns), 0)
    return pack(header, {"pulls": state.pulls, "asked": turns, **arrays})


def _setting(name: str, value: Any) -> Any:
    """Return a setting as JSON."""
    if name == "representation":
        try:
            return encoded(value, name, CLASSES)
        except ValueError:
            described = value.description() if hasattr(value, "description") else None
            return described or {"given": type(value).__name__, "shown": repr(value)}
    if (
        name in ("exploration", "matching")
        and not isinstance(value, str | None)
        and type(value) not in CLASSES.values()
    ):
        raise ValueError(f"{name}={value!r} cannot be saved; use one of {', '.join(CLASSES)}")
    return encoded(value, name, CLASSES)


def _checked_metadata(metadata: Any) -> Any:
    """Return metadata if JSON preserves it; raise a ValueError otherwise."""
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


def parse(content: bytes, *, seed: int | None = None, representation: Representation | None = None) -> SavedAgent:
    """Return what :func:`dump` wrote; raise a LoadError if the content is invalid."""
    return read(*unpack(content), seed=seed, representation=representation)


def read(
    header: dict[str, Any], arrays: dict[str, NDArray[Any]], *, seed: int | None, representation: Representation | None
) -> SavedAgent:
    """Return the agent in an unpacked file; raise a LoadError if the content is invalid."""
    try:
        agent = _read(header, arrays, representation)
    except LoadError:
        raise
    except INVALID_FILE_ERRORS as error:
        raise LoadError(f"the file does not describe a valid agent, it may have been altered: {error}") from error
    if seed is not None:
        agent.streams.reseed(seed)
    return agent


def _read(header: dict[str, Any], arrays: dict[str, NDArray[Any]], representation: Representation | None) -> SavedAgent:
    if set(header) != _HEADER:
        raise LoadError(f"the file's header does not describe an agent: it has {', '.join(sorted(header))}")
    coded, values, metadata = (header[key] for key in ("settings", "values", "metadata"))
    if not all(isinstance(part, dict) for part in (coded, values, metadata)) or not isinstance(header["arms"], list):
        raise LoadError("settings, values and metadata must be JSON objects, and arms a list")
    names = arm_names([decoded(arm, {}) for arm in header["arms"]])
    algorithm = _algorithm(header["agent"], _with_epsilon(coded, len(names)), representation, arrays)
    _check_settings(algorithm)
    counts = _counts(arrays, header["rounds"], len(names))
    flat = {path: array.copy() for path, array in arrays.items()}
    flat |= {path: decoded(value, {}) for path, value in values.items()}
    if len(flat) < len(arrays) + len(values) or not all(path.startswith("state/") for path in flat):
        raise LoadError("a part of the state appears twice, or has an unknown name")
    flat = {path.removeprefix("state/"): leaf for path, leaf in flat.items()}
    if header["agent"] == "LinearTS" and isinstance(algorithm, AdaptiveTS):
        state: Any = linear_ts_files.opened(algorithm, flat, len(names), counts.rounds)
    else:
        state = algorithm.rebuilt(flat)
    trees.check(state, algorithm.sizes(len(names)))
    algorithm.check(state)
    return SavedAgent(algorithm, Streams.at(header["streams"]), names, state, counts, _checked_metadata(metadata))


def _with_epsilon(coded: dict[str, Any], n_arms: int) -> dict[str, Any]:
    """Return settings with epsilon in place of ``min_propensity``, the floor per arm of lim2 0.2 and earlier.

    With items there was one arm inside, and the floor was already a share.
    """
    if "min_propensity" not in coded or "epsilon" in coded:
        return coded
    floor = as_float(coded["min_propensity"], "min_propensity")
    if not 0.0 <= floor * n_arms <= 1.0 + ROUNDING:
        raise ValueError(f"min_propensity must be from 0 to 1 / n_arms = {1.0 / n_arms:.4g}, got {floor!r}")
    rest = {name: value for name, value in coded.items() if name != "min_propensity"}
    return {**rest, "epsilon": min(floor * n_arms, 1.0)}


# Settings of lim2 0.2 that are gone, with the values under which an agent goes on without them. How many features are
# recomputed was a matter of time: an agent goes on with all of them.
_ANY = object()
_REMOVED = {"recompute_every": _ANY, "recompute_share": _ANY, "forget": 0.0}
_VARIANT = {"refresh": "played", "recount": True, "noise": "history", "mean_prior": True}  # of LiM2Variant now
_MATCHING = ("rate", "clip", "jitter", "ridge")


def _without_removed(name: Any, settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return name and settings of an agent of today; those of an agent with a network may be of lim2 0.2."""
    if name not in ("LiM2", "NeuralLinear", "NeuralLinearMM", "NeuralLinearNaive", "NeuralLinearNTK"):
        return name, settings
    removed = _REMOVED if name == "LiM2" else {**_REMOVED, **_VARIANT}
    for key, neutral in removed.items():
        if settings.get(key, neutral) != neutral and neutral is not _ANY:
            raise LoadError(
                f"{name} has no setting {key!r} any more, and this agent has {key}={settings[key]!r}: load it with "
                "lim2 0.2, or make a new agent and replay its log"
            )
    rest = {key: value for key, value in settings.items() if key not in (*_REMOVED, *_VARIANT)}
    parts = {part: rest.pop(f"matching_{part}") for part in _MATCHING if f"matching_{part}" in rest}
    variant = rest.get("matching", "batch")
    if parts and variant is not None and Matching(variant, **parts) != Matching(variant):
        rest["matching"] = Matching(variant, **parts)
    changed = {key: settings[key] for key, value in _VARIANT.items() if settings.get(key, value) != value}
    if not changed or name != "LiM2":
        return name, rest
    if "LiM2Variant" not in ALGORITHMS:
        listed = ", ".join(f"{key}={value!r}" for key, value in changed.items())
        raise LoadError(f"LiM2 with {listed} is now LiM2Variant: import lim2.paper.lim2_variants before loading it")
    return "LiM2Variant", {**rest, **changed}


def current_settings(name: Any, settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return name and settings of an agent of today for those of lim2 0.2.

    Examples
    --------
    >>> current_settings("LiM2", {"forget": 0.0, "recount": True, "buffer": 300})
    ('LiM2', {'buffer': 300})
    """
    return linear_ts_files.replaced(*_without_removed(name, settings))


def _algorithm(name: Any, coded: Mapping[str, Any], replacement: Representation | None, arrays: Any) -> Algorithm:
    """Return the algorithm with its settings."""
    settings = {key: decoded(value, CLASSES) for key, value in coded.items() if key != "representation"}
    name, settings = current_settings(name, settings)
    kind = ALGORITHMS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise LoadError(f"unknown agent {name!r}: register it with lim2.agents.register, or use a newer lim2")
    if "representation" in coded:
        settings["representation"] = _representation(coded["representation"], replacement, arrays)
    elif replacement is not None:
        raise LoadError(f"{name} has no representation: load it without one")
    leaves = {path.removeprefix("state/"): array for path, array in arrays.items()}
    algorithm: Algorithm = build(kind, kind.upgraded(settings, leaves))
    return algorithm


def _representation(coded: Any, replacement: Representation | None, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return the representation described by the file, or the one given, which must be of the same type."""
    if isinstance(coded, dict) and set(coded) == {"given", "shown"}:
        if replacement is None:
            raise LoadError(
                f"the agent has a representation that a file cannot describe, {coded['shown']}: make it as before and "
                "pass it to lim2.load(path, representation=...)"
            )
        if type(replacement).__name__ != coded["given"] or (
            coded["given"] == "Torch" and repr(replacement) != coded["shown"]
        ):
            raise LoadError(f"the agent has the representation {coded['shown']}, but {replacement!r} was given")
        return replacement
    described = coded.get("object") if isinstance(coded, dict) else None
    if replacement is not None:
        if type(replacement).__name__ != described:
            raise LoadError(
                f"the agent was not saved with a representation such as {replacement!r}: load it without one"
            )
        return replacement
    if described != "Torch":
        return decoded(_without_keep(coded), CLASSES)
    from lim2.representation import Torch  # here, because it imports PyTorch

    return Torch.from_description(coded, arrays)


def _without_keep(coded: Any) -> Any:
    """Return a representation in a file without ``keep`` of Standardized, which was never used in a setting."""
    match coded:
        case {"object": kind, "settings": dict(settings)}:
            rest = {name: _without_keep(part) for name, part in settings.items()}
            return {**coded, "settings": {k: v for k, v in rest.items() if (kind, k) != ("Standardized", "keep")}}
    return coded


def _check_settings(algorithm: Algorithm) -> None:
    """Raise a ValueError unless the settings are valid."""
    algorithm.validate()
    np.random.SeedSequence(algorithm.seed)


def _counts(arrays: dict[str, NDArray[Any]], rounds: Any, n_arms: int) -> Counts:
    """Remove the counts of the agent from the file's arrays, and return them."""
    if not {"pulls", "asked"} <= set(arrays):
        raise LoadError("the pulls of the arms are missing")
    counts = Counts(arrays.pop("pulls").copy(), arrays.pop("asked").copy(), rounds)
    trees.check(counts, {"arm": n_arms})
    if sum(counts.pulls.tolist()) > rounds:
        raise LoadError(f"the arms have more pulls in total than there were rounds, {rounds}")
    return counts
