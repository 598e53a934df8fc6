"""What agents, item agents and bandits have in common: shells around a decider or a learner."""

import copy
import os
from collections.abc import Hashable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from lim2 import batches
from lim2 import state as trees
from lim2.algorithms.base import Algorithm, check_epsilon
from lim2.batches import Progress, Size
from lim2.deciding import Decider
from lim2.decision import Decision, History
from lim2.info import Info
from lim2.learner import Learner, Lesson, Position
from lim2.persistence.agents import dump
from lim2.persistence.files import write


class Shell:
    """Base class of everything that decides: makes rows from contexts and arms or items, and asks a decider."""

    core: Decider
    keeps_raw = False  # whether contexts and items are raw, and a log keeps them as they came

    @classmethod
    def around(cls, core: Decider, **parts: Any) -> Self:
        """Return a shell around a decider or a learner."""
        shell = object.__new__(cls)
        shell.__dict__.update(core=core, **parts)
        return shell

    @property
    def arms(self) -> tuple[Any, ...] | None:
        """Names of the arms; None if items come with every call."""
        return None

    def decide_logged(self, source: Any, arms: Any, exploit: bool, k: int | None = None) -> list[Decision]:
        """Decide for a context of a log, or rank k candidates."""
        raise NotImplementedError

    def lacks(self, arm: Hashable) -> bool:  # noqa: ARG002
        """Return whether the choices are arms, and this is none of them."""
        return False

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm and its settings."""
        return self.core.algorithm

    @property
    def name(self) -> str:
        """The name of the algorithm."""
        return self.core.algorithm.name

    @property
    def epsilon(self) -> float:
        """Share of decisions that are drawn uniformly among the eligible arms or items; it can be changed."""
        return self.core.epsilon

    @property
    def rounds(self) -> int:
        """Number of rewards learned so far."""
        return self.core.state.rounds

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict of JSON values for the user, saved with the agent; with a log, its position is here, too."""
        return self.core.state.metadata


class LearningShell(Shell):
    """Base class of everything that learns."""

    core: Learner

    def lessons(self, history: History, size: Size, progress: Progress | None = None) -> Iterator[Lesson]:
        """Yield the lessons of a history in batches, each once those before are learned."""
        raise NotImplementedError

    def learn_history(self, history: History, size: Size, progress: Progress | None = None) -> int:
        """Learn all rewards of a history in batches or, if one fails, none; return their number."""
        checked = batches.checked(size, self.batches, self.algorithm.no_batches)
        self.core.learn_all(self.lessons(history, checked, progress))
        return len(history.arms)

    def learn_logged(self, history: History | None, position: Position) -> None:
        """Learn rewards of a log in one update, and take over the position after them in the same step."""
        self.core.learn(None if history is None else next(self.lessons(history, len(history.arms))), position)

    # Copies and files

    def copy(self) -> Self:
        """Return an independent copy, random streams included."""
        return copy.deepcopy(self)

    def reseed(self, seed: int | None = None) -> None:
        """Replace the random streams of decisions; learning does not depend on them.

        Parameters
        ----------
        seed
            Seed of the new streams. None: a random seed from the operating system.
        """
        self.core.streams.reseed(seed)

    def get_params(self) -> dict[str, Any]:
        """Return all settings as they were given, as a mapping from argument name to value."""
        return {field.name: getattr(self.algorithm, field.name) for field in fields(self.algorithm)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to a file atomically: a crash leaves either the old file or the new one.

        When the call returns, the file is on disk. :func:`lim2.load` reads it; the loaded agent learns exactly, bit for
        bit, as this one would. A ValueError is raised before anything is written if the agent cannot be saved, for
        example with a custom exploration or with names of arms that are not JSON values. The log of a bandit is not
        saved with it. The format is described in ``docs/reference/file-format.md``.

        Parameters
        ----------
        path
            Path of the file, in an existing folder. An existing file is replaced and keeps its permissions.
        """
        write(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the bytes that :meth:`save` would write; :func:`lim2.from_bytes` reads them."""
        return dump(self.algorithm, *self.core.parts())

    # Properties

    @property
    def epsilon(self) -> float:
        """Share of decisions that are drawn uniformly among the eligible arms or items; another one holds at once."""
        return self.core.epsilon

    @epsilon.setter
    def epsilon(self, epsilon: float) -> None:
        check_epsilon(epsilon)
        self.core.configure(replace(self.algorithm, epsilon=float(epsilon)))

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict of JSON values for the user, saved with the agent; with a log, its position is here, too."""
        return self.core.state.metadata

    @metadata.setter
    def metadata(self, metadata: dict[str, Any]) -> None:
        self.core.state = self.core.state._replace(metadata=metadata)

    @property
    def batches(self) -> bool:
        """Whether the algorithm can learn several rewards in one update."""
        return self.algorithm.batches

    @property
    def state(self) -> Any:
        """The state of the algorithm, a value: later updates do not change it."""
        return self.core.value().model

    @property
    def info(self) -> Info | None:
        """Diagnostics of the latest update, computed on access; None before the first update, and in a copy."""
        return self.core.info

    @property
    def nbytes(self) -> int:
        """Size of the agent's state in bytes."""
        return trees.nbytes(self.core.state.model)

    def __repr__(self) -> str:
        algorithm, names = self.algorithm, self.core.state.names
        settings = {field.name: (getattr(algorithm, field.name), field.default) for field in fields(algorithm)}
        changed = {name: value for name, (value, default) in settings.items() if not is_default(value, default)}
        if names != tuple(algorithm.names):
            changed = {name: value for name, value in changed.items() if name != "n_arms"} | {"arms": list(names)}
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"


def is_default(value: Any, default: Any) -> bool:
    """Return whether a setting is the default."""
    return value is default or (type(value) is type(default) and bool(np.all(value == default)))
