"""Suites in TOML files: the problems and agents of `lim2 bench --suite`.

.. code-block:: toml

    problems = ["statlog", "hard-wheel", "openml:31", "mine", "many"]
    agents = ["LiM2", "wide", "LinearTS"]
    rounds = 5000
    runs = 10
    delay = [0, 100]

    [variants.wide]          # an agent with other settings, under a separate name
    of = "LiM2"
    hidden = [100, 50]

    [variants.hard-wheel]    # a problem with other settings
    of = "wheel"
    delta = 0.99

    [variants.mine]          # a table
    csv = "own.csv"
    label = "class"

    [variants.many]          # many tables: a problem for each file, by the file's name
    csv = "tables/*.csv"
    label = -1

    [skip]                   # agents that do not play a problem
    many = ["wide"]
"""

from __future__ import annotations

import ast
import glob
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from lim2.experiments.feedback import grid
from lim2.experiments.names import PlanError, Spec, agent_named, nearest, problem_named, table
from lim2.problems.files import folders
from lim2.problems.registry import names

KEYS = ("problems", "agents", "rounds", "runs", "seed", "delay", "batch", "variants", "skip")
WORDS = {"true": True, "false": False, "none": None, "null": None}


@dataclass(frozen=True)
class Suite:
    """Content of a suite's file."""

    path: Path = field(default_factory=Path)  # tables are searched relative to it, then in the folder of the datasets
    problems: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    rounds: int | None = None
    runs: int | None = None
    seed: int | None = None
    delay: int | Sequence[int] | None = None
    batch: int | Sequence[int] | None = None
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # settings by label
    # labels of agents that do not play a problem, by the problem's label
    skip: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def problems_of(self, words: Sequence[str]) -> list[Spec]:
        """Return the problems given by words: variants, names, or patterns of names such as ``"smart*"``."""
        return [spec for word in words for spec in self._problems(word)]

    def _problems(self, word: str) -> list[Spec]:
        variant = self.variants.get(word)
        if variant is not None and "csv" in variant:
            return self._tables(word, variant)
        if variant is None and ":" not in word and glob.has_magic(word):
            problems = [problem_named(name) for name in names() if fnmatchcase(name, word)]
            if not problems:
                raise PlanError(f"no problem matches {word!r}; known: {', '.join(names())}")
            return problems
        return [self._found(word, problem_named)]

    def _tables(self, label: str, variant: Mapping[str, Any]) -> list[Spec]:
        rest = {key: value for key, value in variant.items() if key not in ("csv", "label")}
        if "label" not in variant:
            raise PlanError(f"{self.path}: [variants.{label}] has a csv but no label: name the column of the classes")
        pattern = str(variant["csv"])
        if Path(pattern).is_absolute() and glob.has_magic(pattern):
            raise PlanError(f"{self.path}: [variants.{label}]: give {pattern} relative to the file, or in LIM2_DATA")
        if not glob.has_magic(pattern):
            there = [base / pattern for base in self._bases if (base / pattern).is_file()]
            return [table((there or [self.path.parent / pattern])[0], variant["label"], label, rest)]
        for base in self._bases:
            if files := sorted(base.glob(pattern)):
                return [table(file, variant["label"], file.name.split(".")[0], rest) for file in files]
        looked = ", ".join(str(base) for base in self._bases)
        raise PlanError(f"{self.path}: [variants.{label}]: no file matches {pattern} (looked in {looked})")

    @property
    def _bases(self) -> list[Path]:
        """Folders with tables: that of the suite's file, then those of the datasets."""
        return [self.path.parent, *folders()]

    def agent(self, label: str) -> Spec:
        """Return the agent with this label: a variant, or a name."""
        return self._found(label, agent_named)

    def _found(self, label: str, by_name: Callable[[str], Spec]) -> Spec:
        variant = self.variants.get(label)
        if variant is None:
            return by_name(label)
        if not isinstance(variant.get("of"), str):
            raise PlanError(f'{self.path}: [variants.{label}] needs the entry "of", for example of = "LiM2"')
        settings = {key: value for key, value in variant.items() if key != "of"}
        return replace(by_name(variant["of"]), label=label).with_settings(settings)


def read_suite(path: Path) -> Suite:
    """Read a suite."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError(f"the suite {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlanError(f"the suite {path} is not TOML: {error}") from error
    _check(path, content)
    try:
        grid(content.get("delay", 0), content.get("batch", 1))
    except PlanError as error:
        raise PlanError(f"the suite {path}: {error}") from error
    variants = content.get("variants", {})
    if not _is_tables(variants):
        raise PlanError(f"the suite {path}: variants must be tables, such as [variants.wide]")
    _check_skip(path, content)
    return Suite(path, **content)


def _check_skip(path: Path, content: dict[str, Any]) -> None:
    """Raise a `PlanError` unless the entry names problems and agents of the suite."""
    skip = content.get("skip", {})
    if not isinstance(skip, dict) or not all(isinstance(agents, list) for agents in skip.values()):
        raise PlanError(f'the suite {path}: skip must be a table of lists, such as [skip] and wheel = ["LiM2"]')
    for problem, agents in skip.items():
        for word, kind in ((problem, "problems"), *((name, "agents") for name in agents)):
            if word not in content.get(kind, ()):
                advice = nearest(str(word), content.get(kind, ()))
                raise PlanError(f"the suite {path}: skip names {word!r}, which is not one of its {kind}; {advice}")


def _check(path: Path, content: dict[str, Any]) -> None:
    """Check the entries; convert lists of names to tuples."""
    for key in content:
        if key not in KEYS:
            raise PlanError(f"the suite {path} has an unknown entry {key!r}; {nearest(key, KEYS)}")
    for key, least in (("rounds", 1), ("runs", 1), ("seed", 0)):
        value = content.get(key, least)
        if type(value) is not int or value < least:
            raise PlanError(f"the suite {path}: {key} must be a whole number from {least}, got {value!r}")
    for key in ("problems", "agents"):
        value = content.get(key)
        if value is None:
            continue
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise PlanError(f'the suite {path}: {key} must be a list of names, such as ["LiM2"], got {value!r}')
        content[key] = tuple(value)


def _is_tables(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(part, dict) for part in value.values())


def parsed_settings(pairs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return settings given as ``NAME.setting=value``, by name.

    A value that is not a Python literal is text; ``true``, ``false`` and ``none`` work, too.

    Examples
    --------
    >>> parsed_settings(["LiM2.hidden=[100,50]", "LiM2.matching=sample", "wheel.delta=0.9"])
    {'LiM2': {'hidden': [100, 50], 'matching': 'sample'}, 'wheel': {'delta': 0.9}}
    """
    settings: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        setting, sign, text = pair.partition("=")
        name, dot, key = setting.rpartition(".")
        if not (sign and dot and name and key):
            raise PlanError(f"expected NAME.setting=value, such as LiM2.matching=sample, got {pair!r}")
        settings.setdefault(name.strip(), {})[key.strip()] = _value(text.strip())
    return settings


def _value(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
