"""From what a user types to what can be run: names of agents and problems, and their settings."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lim2.agents import AGENTS, agent_of
from lim2.algorithms import Algorithm
from lim2.experiments import code
from lim2.problems import from_csv, from_openml
from lim2.problems.check import data_digest
from lim2.problems.openml import find_task
from lim2.problems.registry import find, names
from lim2.problems.user_data import labelled_rows

# What the runner gives an agent or a problem; anything else in a signature is a setting.
GIVEN = {
    "agent": ("n_arms", "n_features", "n_item_features", "scales", "seed", "usual_rewards"),
    "problem": ("rounds", "seed"),
}
# Sources of problems that are tables from outside; what comes after the prefix says which.
TABLES: Mapping[str, Callable[..., Any]] = {"csv:": from_csv, "openml:": from_openml}


class PlanError(ValueError):
    """The plan cannot be run; the message says why and lists alternatives."""


@dataclass(frozen=True)
class Spec:
    """An agent or a problem with its settings.

    Parameters
    ----------
    source
        Origin: a registered name, ``module:Name``, ``vw:algorithm``, ``csv:FILE`` or ``openml:TASK``.
    settings
        Keyword arguments, in addition to those of the runner.
    fingerprint
        Identifies code or data from outside lim2, so that a changed file counts as a change.
    maker
        The object itself, when it was given in Python and not by name.
    rows
        Number of rounds of a table; None if it is known otherwise, or unlimited.
    """

    label: str
    source: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str = ""
    maker: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    rows: int | None = field(default=None, compare=False)

    def with_settings(self, settings: Mapping[str, Any]) -> Spec:
        """Return the specification with changed settings."""
        return replace(self, settings={**self.settings, **settings})

    def named_with(self, settings: Mapping[str, Any]) -> Spec:
        """Return the specification with changed settings, which its label shows.

        Examples
        --------
        >>> Spec("LiM2", "LiM2").named_with({"hidden": [100, 50], "matching": None}).label
        'LiM2 (hidden=[100, 50], matching=None)'
        """
        changes = ", ".join(f"{key}={value}" for key, value in settings.items())
        return replace(self.with_settings(settings), label=f"{self.label} ({changes})" if changes else self.label)

    @property
    def text(self) -> str:
        """The source and the settings in one line."""
        inside = ", ".join(f"{key}={value!r}" for key, value in self.settings.items())
        return f"{self.source}({inside})"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the part of a message that names what may have been meant.

    Examples
    --------
    >>> nearest("LiM", ["LiM2", "LinearTS"])
    "did you mean 'LiM2'? known: LiM2, LinearTS"
    >>> nearest("zzz", ["LiM2", "LinearTS"])
    'known: LiM2, LinearTS'
    """
    choices = list(known)
    by_lower = {choice.lower(): choice for choice in choices}
    close = [by_lower[match] for match in difflib.get_close_matches(word.lower(), by_lower, n=2, cutoff=0.5)]
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    return f"{hint}known: {', '.join(choices)}"


def agent_named(word: str) -> Spec:
    """Return the agent that a word names, without settings.

    It is a name of ``lim2.AGENTS``, in any case; ``module:Name``; or ``vw:algorithm``.

    Examples
    --------
    >>> agent_named("lim2").source, agent_named("NeuralLinearMM").source
    ('LiM2', 'NeuralLinearMM')
    """
    if word.startswith("vw:"):
        from lim2.experiments.peers import check

        check(word)
        return Spec(word, word)
    if ":" in word:
        return _outside(word)
    for name in AGENTS:
        if word.lower() == name.lower():
            return Spec(name, name)
    raise PlanError(
        f"there is no agent {word!r}; {nearest(word, AGENTS)}. Your own: module:Name; Vowpal Wabbit: vw:squarecb"
    )


def problem_named(word: str) -> Spec:
    """Return the problem that a word names, without settings.

    It is one of ``lim2.problems.list()``; ``openml:TASK``, once fetched; or ``module:function`` with the parameters
    ``rounds`` and ``seed``.
    """
    if word.startswith("openml:"):
        return _task(word)
    if ":" in word:
        return _outside(word)
    known = names()
    if word.lower() not in known:
        raise PlanError(f"there is no problem {word!r}; {nearest(word, known)}")
    return Spec(word.lower(), word.lower())


def _task(word: str) -> Spec:
    number = word.removeprefix("openml:")
    if not number.isdecimal():
        raise PlanError(f"expected openml: and the number of a task, such as openml:31, got {word!r}")
    task = find_task(int(number))
    return Spec(task.name, f"openml:{int(number)}", fingerprint=task.sha256, rows=task.rows())


def is_table(source: str) -> bool:
    """Return whether the source of a problem is an external table.

    Examples
    --------
    >>> is_table("openml:31"), is_table("statlog"), is_table("mine:my_problem")
    (True, False, False)
    """
    return source.startswith(tuple(TABLES))


def table(path: Path, label: str | int, name: str = "", settings: Mapping[str, Any] | None = None) -> Spec:
    """Return the problem that a user's own table is."""
    if not path.is_file():
        raise PlanError(f"there is no file {path}; give the path of a CSV or Parquet file")
    spec = Spec(name or path.stem, f"csv:{path.resolve()}", {"label": label, **(settings or {})})
    spec = replace(spec, fingerprint=data_of(spec))
    check_settings(spec, "problem")
    return replace(spec, rows=labelled_rows(path, **spec.settings))


def data_of(problem: Spec) -> str:
    """Return the SHA-256 of the files that a problem reads, as they are now; "" if it reads none."""
    kind, _, rest = problem.source.partition(":")
    if kind == "csv":
        return hashlib.sha256(Path(rest).read_bytes()).hexdigest()
    if kind == "openml":
        return find_task(int(rest)).sha256
    facts = find(problem.source).facts if problem.maker is None and problem.source in names() else None
    return "" if facts is None else data_digest(facts, problem.settings)


def with_data(problem: Spec) -> Spec:
    """Return a problem that is known by its files, too."""
    return problem if problem.fingerprint else replace(problem, fingerprint=data_of(problem))


def given(thing: Callable[..., Any]) -> Spec:
    """Return the specification of a class or function."""
    if not callable(thing):
        raise PlanError(f"expected a name, or a function that makes an agent or a problem, got {thing!r}")
    for name, maker in AGENTS.items():
        if maker is thing:
            return Spec(name, name)
    name = getattr(thing, "__qualname__", type(thing).__name__)
    module = inspect.unwrap(thing).__module__  # of the algorithm, where an agent's maker stands around one
    return Spec(name, f"{module}:{name}", fingerprint=code.fingerprint(thing), maker=_agent_maker(thing))


def maker_of(spec: Spec) -> Callable[..., Any]:
    """Return the function that makes an agent from n_arms, n_features, an optional seed and the settings."""
    if spec.maker is not None:
        return spec.maker
    if spec.source.startswith("vw:"):
        from lim2.experiments import peers

        return peers.maker(spec.source)
    if ":" in spec.source:
        return _agent_maker(_imported(spec.source))
    return AGENTS[spec.source]


def _agent_maker(thing: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that makes an agent, wrapping an algorithm if needed."""
    return agent_of(thing) if isinstance(thing, type) and issubclass(thing, Algorithm) else thing


def check_settings(spec: Spec, kind: str) -> None:
    """Raise a `PlanError` for a setting that an agent or a problem does not have."""
    offered = _offered(spec, kind)
    if offered is None:
        return
    for key in spec.settings:
        if key not in offered:
            raise PlanError(f"{kind} {spec.label!r} has no setting {key!r}; {nearest(key, offered)}")


def _offered(spec: Spec, kind: str) -> list[str] | None:
    """Return the settings of an agent or a problem; None when it takes any."""
    if spec.source.startswith("vw:"):
        from lim2.experiments.peers import defaults

        return list(defaults(spec.source))
    maker: Callable[..., Any]
    if kind == "problem" and is_table(spec.source):
        maker = TABLES[f"{spec.source.partition(':')[0]}:"]
    elif kind == "problem" and ":" not in spec.source and spec.maker is None:
        maker = find(spec.source).loader
    else:
        maker = maker_of(spec)
    parameters = inspect.signature(maker).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return [p.name for p in parameters if p.name not in GIVEN[kind]]


def takes(maker: Callable[..., Any], parameter: str) -> bool:
    """Return whether a function accepts a keyword argument."""
    parameters = inspect.signature(maker).parameters
    return parameter in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _outside(word: str) -> Spec:
    thing = _imported(word)
    return Spec(word.rpartition(":")[2], word, fingerprint=code.fingerprint(thing))


def _imported(word: str) -> Callable[..., Any]:
    module_name, _, name = word.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:  # as `python -m` would: a user's module is where the user is
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            raise PlanError(
                f"{word!r}: there is no module {error.name!r} here or on PYTHONPATH; "
                "run where the file is, or install it"
            ) from error
        raise PlanError(
            f"{word!r}: the module {module_name!r} cannot be imported: {type(error).__name__}: {error}; "
            f"`python -c 'import {module_name}'` shows where"
        ) from error
    thing: Any = module
    for part in name.split("."):
        if not hasattr(thing, part):
            public = [key for key in vars(module) if not key.startswith("_")]
            raise PlanError(f"{word!r}: module {module_name!r} has no {name!r}; {nearest(name, public)}")
        thing = getattr(thing, part)
    if not callable(thing):
        raise PlanError(f"{word!r} must be a class, or a function that returns an agent or a problem, got {thing!r}")
    found: Callable[..., Any] = thing
    return found
