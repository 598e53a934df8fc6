"""What every agent does: check its inputs, play the start, choose, learn.

An algorithm adds three things to :class:`Agent`: how arms are scored (``_scores``), what is learned from a reward
(``_learn``), and which components hold its state (``_components``).
"""

import inspect
import operator
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas

from lim2._arrays import OwnsArrays
from lim2._blas import one_thread
from lim2._state import Locks, frozen, shallow
from lim2.agents.snapshot import Snapshot

Array = NDArray[np.float64]

# Contexts and rewards must stay below this: fourth powers of them, which likelihood matching squares once more, are
# still finite.
LARGEST = 1e30

_norm = blas.dnrm2


class Sized(Protocol):
    """A component that knows what its state occupies."""

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        ...


class Agent(OwnsArrays, ABC):
    """A contextual bandit agent: ``act``, get a reward, ``update``.

    An agent is for one thread at a time, except that :meth:`snapshot` and :meth:`save` may be called while another
    thread updates it; they wait for the update to be whole. Other threads decide by a snapshot.

    Parameters
    ----------
    n_arms
        Number of arms, numbered from 0.
    n_features
        Size of a context.
    initial_pulls
        How often every arm is played, in turn, before the agent decides.
    seed
        The same seed and the same inputs give the same decisions, bit for bit. None: a fresh one from the system.
    settings
        The arguments that the agent was made with: for its ``repr``, and to make it again when it is loaded.

    Attributes
    ----------
    metadata
        A dict of JSON values that belongs to the user, and is saved with the agent.
    """

    name: ClassVar[str]

    # What changes as the agent works, and so is saved; and which of that is needed to decide, and so is in a snapshot.
    # An algorithm adds its own.
    _kept: ClassVar[tuple[str, ...]] = (
        "rounds", "pulls", "_asked", "_starting", "_init_rng", "_act_rng", "_learn_rng", "_serve_rng",
    )  # fmt: skip
    _served: ClassVar[tuple[str, ...]] = ("pulls",)

    def __init__(
        self, n_arms: int, n_features: int, *, initial_pulls: int, seed: int | None, settings: dict[str, Any]
    ) -> None:
        self.n_arms = positive_int("n_arms", n_arms)
        self.n_features = positive_int("n_features", n_features)
        self.context_shape: tuple[int, ...] = (self.n_features,)
        self.initial_pulls = positive_int("initial_pulls", initial_pulls, least=0)
        # Deciding and learning draw from streams of their own, so what is learned depends on the updates alone.
        # Snapshots decide from one stream as well.
        streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(4)]
        self._init_rng, self._act_rng, self._learn_rng, self._serve_rng = streams
        self.rounds = 0
        self.pulls = np.zeros(self.n_arms, dtype=np.intp)  # updates of each arm
        self._asked = np.zeros(self.n_arms, dtype=np.intp)  # decisions for each arm made by taking turns
        self._starting = self.initial_pulls > 0
        self._shown = self._to_show(settings)
        given = {name: settings[name] for name in inspect.signature(type(self)).parameters if name in settings}
        self._settings = {name: _listed(value) for name, value in given.items() if _is_plain(value)}
        self.metadata: dict[str, Any] = {}
        self._locks = Locks()

    @classmethod
    def _to_show(cls, settings: dict[str, Any]) -> dict[str, str]:
        """Return the settings for the ``repr``, less those that are None by default."""
        parameters = inspect.signature(cls).parameters
        shown = {name: settings[name] for name in parameters if name in settings}
        return {k: repr(v) for k, v in shown.items() if v is not None or parameters[k].default is not None}

    # What an algorithm adds

    @abstractmethod
    def _scores(self, contexts: Array) -> Array:
        """Score every arm, for one context (n_features,) or for many (n, n_features)."""

    @abstractmethod
    def _learn(self, context: Array, arm: int, reward: float) -> None:
        """Take one observed reward into account; the inputs have been checked."""

    def _components(self) -> Iterable[Sized]:
        """Return what holds the agent's state."""
        return ()

    def _before(self, arm: int) -> Any:
        """Return what :meth:`_undo` needs, if learning of an arm can fail after something has changed."""

    def _undo(self, before: Any) -> None:
        """Put everything back as it was before ``_learn``, which failed."""

    @classmethod
    def _least_numbers(cls, n_arms: int, settings: Mapping[str, Any]) -> int:  # noqa: ARG003
        """Return how many numbers the state of an agent with these settings has at least.

        A file that holds fewer is refused before the constructor allocates them.
        """
        return n_arms

    def _objects(self) -> dict[str, Any]:
        """Return the settings that are objects, as the agent has them now, by the name of their argument."""
        return {}

    def _read(self, values: ArrayLike, what: str) -> NDArray[Any]:
        """Return contexts as an array of the type that the algorithm computes with."""
        return _as_floats(values, what)

    # What a user calls

    def act(self, context: ArrayLike, arms: Sequence[int] | NDArray[np.integer] | None = None) -> int:
        """Choose an arm for a context, among all arms or the eligible ones.

        Until every arm has been decided for, or updated, ``initial_pulls`` times, the arms take turns. Rewards may be
        late: turns are counted when decided.
        """
        x = self._checked_context(context)
        eligible = None if arms is None else self._checked_eligible(arms)
        if self._starting:
            arm = self._next_turn(eligible)
            if arm is not None:
                return arm
        with one_thread:
            scores = self._scores(x)
        return int(scores.argmax()) if eligible is None else int(eligible[scores[eligible].argmax()])

    def act_many(self, contexts: ArrayLike) -> NDArray[np.intp]:
        """Choose an arm for each row of contexts, as a loop over :meth:`act` would."""
        xs = self._checked_contexts(contexts)
        chosen: list[int] = []
        while self._starting and len(chosen) < len(xs):
            chosen.append(self.act(xs[len(chosen)]))
        rest = xs[len(chosen) :]
        if len(rest):
            with one_thread:
                chosen.extend(self._scores(rest).argmax(axis=1).tolist())
        return np.array(chosen, dtype=np.intp)

    def update(self, context: ArrayLike, arm: int, reward: float) -> None:
        """Learn from the reward that an arm earned in a context; it need not follow the ``act`` that chose it."""
        self._update(self._checked_context(context), self._checked_arm(arm), self._checked_reward(reward))

    def update_many(self, contexts: ArrayLike, arms: ArrayLike, rewards: ArrayLike) -> None:
        """Learn from many rewards as a loop over :meth:`update` would; all are checked before any is used."""
        xs = self._checked_contexts(contexts)
        played = np.asarray(arms)
        if played.shape != (len(xs),) or (played.size and played.dtype.kind not in "iu"):
            raise ValueError(
                f"arms must be {len(xs)} whole numbers, one a context, got {played.dtype} of shape {played.shape}"
            )
        checked_arms = [self._checked_arm(arm) for arm in played.tolist()]
        earned = _as_floats(rewards, "rewards")
        if earned.shape != (len(xs),):
            raise ValueError(f"rewards must be {len(xs)} numbers, one a context, got shape {earned.shape}")
        checked_rewards = [self._checked_reward(reward) for reward in earned.tolist()]
        for x, arm, reward in zip(xs, checked_arms, checked_rewards, strict=True):
            self._update(x, arm, reward)

    def snapshot(self) -> Snapshot:
        """Return the agent as it is now, to decide by in other threads while this one learns.

        Nothing that happens to the agent afterwards changes a snapshot. What is copied is what deciding needs: beliefs
        and network, not the memory. While another thread is in ``update``, this waits until the update is whole.

        Examples
        --------
        >>> from lim2 import LinearTS
        >>> agent = LinearTS(n_arms=2, n_features=1, seed=0)
        >>> snapshot = agent.snapshot()
        >>> agent.update([1.0], 0, 1.0)
        >>> snapshot.means([1.0]).tolist(), agent.means([1.0]).round(3).tolist()
        ([0.0, 0.0], [0.889, 0.0])
        """
        with self._locks.learning:
            return Snapshot(self._frozen())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to a file, whole or not at all, whatever happens to the process or the machine.

        :func:`lim2.load` makes an agent of it that goes on, bit for bit, as this one would. When this returns the file
        is on disk. The format is described in ``docs/file-format.md``. What cannot be saved, such as an exploration of
        your own or names of arms that are not JSON values, is a ValueError before anything is written.

        Parameters
        ----------
        path
            Where to; its folder must exist. A file that is there is replaced.
        """
        from lim2.agents.saving import dump, write  # here, because it knows all agents

        write(Path(path), dump(self))

    @property
    def nbytes(self) -> int:
        """Bytes that the agent's state occupies."""
        return sum(component.nbytes for component in self._components())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in self._shown.items())})"

    # Behind them

    def _update(self, context: Array, arm: int, reward: float) -> None:
        with self._locks.learning, one_thread:
            before = self._before(arm)
            try:
                self._learn(context, arm, reward)
            except BaseException:  # an update happens whole or not at all
                self._undo(before)
                raise
            self.rounds += 1
            self.pulls[arm] += 1

    def _frozen(self) -> Self:
        """Return a copy that can decide and do nothing else; no update of this agent reaches it."""
        twin = shallow(self)
        for name in self._kept:
            del twin.__dict__[name]
        for name in self._served:
            twin.__dict__[name] = frozen(getattr(self, name))
        # Turns are counted together, so that the start is not repeated by every snapshot; so is the stream.
        twin.rounds, twin._asked, twin._starting = self.rounds, self._asked, self._starting
        twin._act_rng = self._serve_rng
        return twin

    def _next_turn(self, eligible: NDArray[np.intp] | None) -> int | None:
        """Return the arm whose turn it is at the start; None when no eligible arm is owed one."""
        with self._locks.turns:
            owed = self.initial_pulls - np.maximum(self._asked, self.pulls)
            self._starting = bool(owed.max() > 0)
            candidates = owed if eligible is None else owed[eligible]
            first = int(candidates.argmax())
            if candidates[first] <= 0:
                return None
            arm = first if eligible is None else int(eligible[first])
            self._asked[arm] += 1
            return arm

    def _checked_context(self, context: ArrayLike) -> Array:
        x = self._read(context, "a context")
        if x.shape != self.context_shape:
            expected = f"of {self.n_features} numbers" if len(self.context_shape) == 1 else str(self.context_shape)
            raise ValueError(f"a context must be a {len(self.context_shape)}-D array {expected}, got shape {x.shape}")
        if not _size(x) < LARGEST:  # false for NaN, too
            raise ValueError(_why_not(x, "the context"))
        return x

    def _checked_contexts(self, contexts: ArrayLike) -> Array:
        xs = self._read(contexts, "contexts")
        if xs.ndim != len(self.context_shape) + 1 or xs.shape[1:] != self.context_shape:
            shape = ", ".join(map(str, ("n", *self.context_shape)))
            raise ValueError(
                f"contexts must be a {len(self.context_shape) + 1}-D array ({shape}), got shape {xs.shape}"
            )
        if xs.size and not _size(xs) < LARGEST:
            for row, x in enumerate(xs):
                if not _size(x) < LARGEST:
                    raise ValueError(_why_not(x, f"context {row}"))
        return xs

    def _checked_arm(self, arm: int | np.integer) -> int:
        try:
            index = operator.index(arm)
        except TypeError:
            index = -1
        if not 0 <= index < self.n_arms or isinstance(arm, bool | np.bool_):
            raise ValueError(f"unknown arm {arm!r}: arms are the whole numbers 0 to {self.n_arms - 1}")
        return index

    def _checked_eligible(self, arms: Sequence[int] | NDArray[np.integer]) -> NDArray[np.intp]:
        if not isinstance(arms, Iterable) or isinstance(arms, str):
            raise ValueError(f"arms must be a sequence of the eligible arms, such as [0, 2], got {arms!r}")
        eligible = np.array([self._checked_arm(arm) for arm in arms], dtype=np.intp)
        if not eligible.size:
            raise ValueError("arms is empty: at least one arm must be eligible; None means all of them")
        return eligible

    def _checked_reward(self, reward: float) -> float:
        value = float(reward) if isinstance(reward, float) else _as_float(reward)
        if not abs(value) < LARGEST:
            raise ValueError(f"a reward must be finite and smaller than {LARGEST:g}, got {value!r}")
        return value


def positive_int(name: str, value: int, least: int = 1) -> int:
    """Return a setting as an int, or say what is wrong with it."""
    try:
        number = operator.index(value)
    except TypeError as error:
        raise ValueError(f"{name} must be a whole number, got {value!r}") from error
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def one_of(name: str, value: str, choices: Sequence[str]) -> str:
    """Return a setting that must be one of a few words, or say which."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def _is_plain(value: Any) -> bool:
    """Whether a setting is a value, not an object of which the agent has a copy."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return all(_is_plain(part) for part in value)
    return value is None or isinstance(value, bool | int | float | str | np.generic | np.ndarray)


def _listed(value: Any) -> Any:
    """Return a sequence of another kind, such as a range, as a list."""
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str | list | tuple) else value


def _as_floats(values: ArrayLike, what: str) -> Array:
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{what} must be a regular array of numbers: {error}") from error
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{what} must hold real numbers only, got {array.dtype} values")
    return array.astype(np.float64, copy=False)


def _as_float(value: Any) -> float:
    array = np.asarray(value)
    if array.ndim or array.dtype.kind not in "fiub":
        raise ValueError(f"a reward must be one real number, got {value!r}")
    return float(array)


def _size(x: NDArray[Any]) -> float:
    """Return the norm of all values, NaN if one is; whole numbers are always finite and small enough."""
    return 0.0 if x.dtype.kind in "iub" else float(_norm(x.ravel()))


def _why_not(x: NDArray[Any], what: str) -> str:
    bad = np.argwhere(~np.isfinite(x))
    if bad.size:
        where = tuple(bad[0].tolist())
        position = where[0] if len(where) == 1 else where
        return f"{what} has {x[where]} at position {position}: all values must be finite. Replace missing values first."
    return f"{what} is too large: its norm is {_size(x):.3g}, it must be below {LARGEST:g}. Scale it."
