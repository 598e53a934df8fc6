"""Registry of problems: a decorator registers a function under a name, and `load` calls it."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar, overload

from lim2.extras import needs
from lim2.problems.cache import Parser
from lim2.problems.facts import Facts
from lim2.problems.item_problem import ItemProblem
from lim2.problems.problem import Problem

Rounds = int | Literal["all"] | None
Loader = Callable[..., Problem | ItemProblem]
WithItems = Literal["car", "catalogue", "electricity", "item-clicks", "mode-canada", "movielens", "swissmetro"]
Kind = Literal["dataset", "synthetic", "world"]
L = TypeVar("L", bound=Loader)

# A module in one of these folders is found by itself: a new problem is one new file.
FOLDERS = ("lim2.problems.datasets", "lim2.problems.synthetic", "lim2.problems.worlds")


@dataclass(frozen=True)
class Entry:
    """Registered description of a problem."""

    name: str
    summary: str
    kind: Kind
    rounds: int
    loader: Loader  # its keyword parameters are the problem's settings
    facts: Facts | None = None
    parse: Parser | None = None
    module: str = ""  # where it is defined

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the problem, with their defaults."""
        parameters = inspect.signature(self.loader).parameters.values()
        return {p.name: p.default for p in parameters if p.name not in ("rounds", "seed")}


_entries: dict[str, Entry] = {}


def register(
    name: str,
    *,
    summary: str,
    kind: Kind = "dataset",
    rounds: int = 5000,
    facts: Facts | None = None,
    parse: Parser | None = None,
    module: str = "",
) -> Callable[[L], L]:
    """Register the decorated function as a problem.

    The function takes `rounds` (an int or `"all"`), `seed` (an int) and its own settings by keyword, and
    returns a `Problem` or an `ItemProblem`.

    Parameters
    ----------
    name
        Name of the problem for `load`, in lower case, with words joined by `-`.
    summary
        One line that describes the problem.
    kind
        `"dataset"` needs files, `"synthetic"` does not; a `"world"` is synthetic, too, and simulates a product.
    rounds
        Default number of rounds.
    facts
        Documented properties of a dataset, for `lim2 data` and `docs/research/problems.md`.
    parse
        Function from the paths of a dataset's files to its table, for `lim2 data check`.
    module
        Module that defines the problem, if it is not that of the function.

    Examples
    --------
    >>> import numpy as np
    >>> import lim2.problems
    >>> @lim2.problems.register("coin", summary="A fair coin.", kind="synthetic", rounds=10)
    ... def coin(rounds, seed, stake=1.0):
    ...     rewards = stake * np.random.default_rng(seed).integers(0, 2, (rounds, 1))
    ...     return lim2.problems.Problem("coin", np.ones((rounds, 1)), rewards)
    >>> lim2.problems.load("coin", stake=2.0, seed=0).rewards.sum()
    np.float64(8.0)
    >>> lim2.problems.unregister("coin")
    """

    def decorate(loader: L) -> L:
        if name in _entries and _entries[name].loader.__module__ != loader.__module__:
            raise ValueError(
                f"a problem named {name!r} is already registered by {_entries[name].loader.__module__}: "
                "choose another name"
            )
        where = module or inspect.unwrap(loader).__module__
        _entries[name] = Entry(name, summary, kind, rounds, loader, facts, parse, where)
        return loader

    return decorate


def unregister(name: str) -> None:
    """Remove a problem from the registry."""
    del _entries[find(name).name]


@cache
def _discover() -> None:
    for folder in FOLDERS:
        package = importlib.import_module(folder)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{folder}.{module.name}")


def entries() -> tuple[Entry, ...]:
    """Return all registered problems: first datasets, then synthetic ones, then worlds, each in alphabetical order."""
    _discover()
    return tuple(sorted(_entries.values(), key=lambda entry: (entry.kind, entry.name)))


def names() -> list[str]:
    """Return the names that `load` takes.

    Examples
    --------
    >>> import lim2.problems
    >>> "wheel" in lim2.problems.list()
    True
    """
    return [entry.name for entry in entries()]


def find(name: str) -> Entry:
    """Return the description of a problem."""
    known = names()
    if name not in _entries:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"there is no problem {name!r}; {hint}known: {', '.join(known)}")
    return _entries[name]


@overload
def load(name: WithItems, rounds: Rounds = None, seed: int | None = None, **settings: Any) -> ItemProblem: ...
@overload
def load(name: str, rounds: Rounds = None, seed: int | None = None, **settings: Any) -> Problem: ...
def load(name: str, rounds: Rounds = None, seed: int | None = None, **settings: Any) -> Problem | ItemProblem:
    """Return a problem, drawn with a seed.

    Parameters
    ----------
    rounds
        Number of rounds. None: the paper's number. `"all"`: all rows of a dataset.
    seed
        Seed of the draw. The same seed gives the same arrays on any machine. None: a random seed, stored in
        `problem.seed`.
    **settings
        Settings of the problem, such as `delta` of the wheel or `standardize` of a dataset.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("wheel", rounds=1000, seed=0, delta=0.5)
    >>> problem
    Problem('wheel', rounds=1000, n_features=2, n_arms=5, seed=0)
    >>> problem.contexts.shape, problem.rewards.shape
    ((1000, 2), (1000, 5))
    """
    entry = find(name)
    unknown = sorted(set(settings) - set(entry.settings))
    if unknown:
        offered = ", ".join(f"{key}={value!r}" for key, value in entry.settings.items()) or "none"
        raise TypeError(f"problem {name!r} has no setting {unknown[0]!r}; its settings and defaults: {offered}")
    if rounds is None:
        rounds = entry.rounds
    if rounds != "all" and (isinstance(rounds, bool) or not hasattr(rounds, "__index__") or rounds < 1):
        raise ValueError(f"rounds must be a positive integer, 'all' or None, got {rounds!r}")
    if rounds == "all" and entry.kind != "dataset":
        raise ValueError(f"problem {name!r} has no last round: give a number of rounds instead of 'all'")
    if seed is None:
        seed = secrets.randbits(32)
    with needs(f"the problem {name!r}", "data"):
        return entry.loader(rounds=rounds, seed=seed, **settings)
