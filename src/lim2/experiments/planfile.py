"""A plan in a TOML file, with named variants of agents and problems.

.. code-block:: toml

    problems = ["statlog", "hard-wheel", "mine"]
    agents = ["LiM2", "wide", "LinearTS"]
    rounds = 5000
    runs = 10
    delay = [0, 100]

    [variants.wide]
    of = "LiM2"
    hidden = [100, 50]

    [variants.hard-wheel]
    of = "wheel"
    delta = 0.99

    [variants.mine]
    csv = "own.csv"
    label = "class"
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lim2.experiments.feedback import grid
from lim2.experiments.names import PlanError, Spec, agent_named, nearest, problem_named, table

KEYS = ("problems", "agents", "rounds", "runs", "seed", "delay", "batch", "variants")
WORDS = {"true": True, "false": False, "none": None, "null": None}


@dataclass(frozen=True)
class PlanFile:
    """What a file says.

    Parameters
    ----------
    path
        The file; a table that it names lies relative to it.
    problems, agents
        Labels; empty when the file doesn't say.
    rounds, runs, seed
        None when the file doesn't say.
    delay, batch
        When rewards are learned; several to compare, None when the file doesn't say.
    variants
        Settings by label.
    """

    path: Path = field(default_factory=Path)
    problems: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    rounds: int | None = None
    runs: int | None = None
    seed: int | None = None
    delay: int | Sequence[int] | None = None
    batch: int | Sequence[int] | None = None
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def problem(self, label: str) -> Spec:
        """Return the problem of that label: a variant, or a name."""
        variant = self.variants.get(label)
        if variant is not None and "csv" in variant:
            rest = {key: value for key, value in variant.items() if key not in ("csv", "label")}
            if "label" not in variant:
                raise PlanError(f"{self.path}: [variants.{label}] has a csv but no label, the column with the classes")
            return table(self.path.parent / variant["csv"], variant["label"], label, rest)
        return self._found(label, problem_named)

    def agent(self, label: str) -> Spec:
        """Return the agent of that label: a variant, or a name."""
        return self._found(label, agent_named)

    def _found(self, label: str, by_name: Callable[[str], Spec]) -> Spec:
        variant = self.variants.get(label)
        if variant is None:
            return by_name(label)
        if "of" not in variant:
            raise PlanError(f'{self.path}: [variants.{label}] does not say of what; add for example of = "LiM2"')
        settings = {key: value for key, value in variant.items() if key != "of"}
        return replace(by_name(variant["of"]), label=label).with_settings(settings)


def read_plan(path: Path) -> PlanFile:
    """Read a plan.

    Parameters
    ----------
    path
        A TOML file.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError(f"the plan {path} cannot be read: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"the plan {path} is not TOML: {error}") from error
    for key in content:
        if key not in KEYS:
            raise PlanError(f"the plan {path} has an unknown entry {key!r}; {nearest(key, KEYS)}")
    for key in ("rounds", "runs", "seed"):
        if type(content.get(key, 0)) is not int:
            raise PlanError(f"the plan {path}: {key} must be a whole number, not {content[key]!r}")
    for key in ("problems", "agents"):
        value = content.get(key, [])
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise PlanError(f'the plan {path}: {key} must be a list of names, such as ["LiM2"], not {value!r}')
        content[key] = tuple(value)
    try:
        grid(content.get("delay", 0), content.get("batch", 1))
    except PlanError as error:
        raise PlanError(f"the plan {path}: {error}") from error
    variants = content.get("variants", {})
    if not isinstance(variants, dict) or not all(isinstance(value, dict) for value in variants.values()):
        raise PlanError(f"the plan {path}: variants must be tables, such as [variants.wide]")
    return PlanFile(path, **content)


def parsed_settings(pairs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return settings given as ``NAME.setting=value``, by name.

    Parameters
    ----------
    pairs
        What the user typed. A value that is no Python literal is text; ``true``, ``false`` and ``none`` are known, too.

    Examples
    --------
    >>> parsed_settings(["LiM2.hidden=[100,50]", "LiM2.matching=sample", "wheel.delta=0.9"])
    {'LiM2': {'hidden': [100, 50], 'matching': 'sample'}, 'wheel': {'delta': 0.9}}
    """
    settings: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        left, sign, text = pair.partition("=")
        name, dot, key = left.rpartition(".")
        if not (sign and dot and name and key):
            raise PlanError(f"{pair!r} is not NAME.setting=value, such as LiM2.matching=sample")
        settings.setdefault(name.strip(), {})[key.strip()] = _value(text.strip())
    return settings


def _value(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
