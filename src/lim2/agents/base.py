"""What every agent does: check its inputs, play the start, choose, learn.

An algorithm adds to :class:`Agent` how a context is looked at (``_look``), and, from that, how scores are drawn
(``_draw``), what is believed (``_beliefs``) and how likely each arm is chosen (``_chances``); what is learned from a
reward (``_learn``); which components hold its state (``_components``); how an arm comes and goes (``_add_arm``,
``_remove_arm``).
"""

import inspect
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2._arrays import OwnsArrays, with_row, without_row
from lim2._blas import one_thread
from lim2._state import Locks, frozen, shallow
from lim2.agents.arms import arm_names, describe, is_range, is_same
from lim2.agents.checks import LARGEST, as_float, as_floats, is_plain, listed, positive_int, size_of, why_not
from lim2.agents.decision import Decision
from lim2.agents.info import Info
from lim2.agents.snapshot import Snapshot
from lim2.exploration.propensity import one_hot

Array = NDArray[np.float64]

_logger = logging.getLogger("lim2")


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
        Number of arms, which are then called 0, 1, 2, ...
    n_features
        Size of a context.
    arms
        Instead of ``n_arms``: what the arms are called, any hashable values.
    initial_pulls
        How often every arm is played, in turn, before the agent decides.
    min_propensity
        Every eligible arm is chosen with at least this probability; at most 1 / n_arms.
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
    _passing: ClassVar[frozenset[str]] = frozenset({"_updated"})  # tells of the latest update, and is not copied

    # What changes as the agent works, and so is saved; and which of that is needed to decide, and so is in a snapshot.
    # An algorithm adds its own.
    _kept: ClassVar[tuple[str, ...]] = (
        "rounds", "pulls", "_asked", "_starting", "_init_rng", "_act_rng", "_learn_rng", "_serve_rng",
    )  # fmt: skip
    _served: ClassVar[tuple[str, ...]] = ("pulls",)

    def __init__(
        self,
        n_arms: int | None,
        n_features: int | None,
        *,
        arms: Iterable[Hashable] | None = None,
        initial_pulls: int,
        min_propensity: float = 0.0,
        seed: int | None,
        settings: dict[str, Any],
    ) -> None:
        self._name_arms(_names_of(n_arms, arms))
        if n_features is None:
            raise ValueError("n_features is missing: give the size of a context")
        self.n_features = positive_int("n_features", n_features)
        self.context_shape: tuple[int, ...] = (self.n_features,)
        self.initial_pulls = positive_int("initial_pulls", initial_pulls, least=0)
        self.min_propensity = _checked_floor(min_propensity, self.n_arms)
        # Deciding and learning draw from streams of their own, so what is learned depends on the updates alone.
        # Snapshots decide from one stream as well.
        streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(4)]
        self._init_rng, self._act_rng, self._learn_rng, self._serve_rng = streams
        self.rounds = 0
        self.pulls = np.zeros(self.n_arms, dtype=np.intp)  # updates of each arm
        self._asked = np.zeros(self.n_arms, dtype=np.intp)  # decisions for each arm made by taking turns
        self._starting = self.initial_pulls > 0
        self._shown = self._to_show(settings)
        self._updated: Hashable | None = None  # the arm updated last
        given = {name: settings[name] for name in inspect.signature(type(self)).parameters if name in settings}
        self._settings = {name: listed(value) for name, value in given.items() if is_plain(value)}
        self.metadata: dict[str, Any] = {}
        self._locks = Locks()

    @classmethod
    def _to_show(cls, settings: dict[str, Any]) -> dict[str, str]:
        """Return the settings for the ``repr``, less those that are None by default."""
        parameters = inspect.signature(cls).parameters
        shown = {name: settings[name] for name in parameters if name in settings}
        return {k: repr(v) for k, v in shown.items() if v is not None or parameters[k].default is not None}

    def _name_arms(self, names: tuple[Hashable, ...]) -> None:
        self.arms = names  # in the order of their indices
        self.n_arms = len(names)
        self._index = {name: index for index, name in enumerate(names)}

    # What an algorithm adds

    @abstractmethod
    def _look(self, contexts: Array) -> Any:
        """Return what deciding needs of one context (n_features,) or many (n, n_features), e.g. their features."""

    @abstractmethod
    def _draw(self, seen: Any) -> Array:
        """Draw a score for every arm, (n_arms,) or (n, n_arms); the arm with the largest is played."""

    @abstractmethod
    def _beliefs(self, seen: Any) -> tuple[Array, Array]:
        """Return mean and standard deviation of every arm's score, in the shape of the scores."""

    @abstractmethod
    def _chances(self, seen: Any, eligible: NDArray[np.intp]) -> Array:
        """Return how likely each eligible arm has the largest score, (k,) or (n, k); draw nothing."""

    @abstractmethod
    def _learn(self, context: Array, arm: int, reward: float) -> None:
        """Take one observed reward into account; the inputs have been checked."""

    def _add_arm(self, like: int | None) -> None:
        """Let all that holds state take in one more arm, from the prior or like another; all of it, or raise."""
        raise NotImplementedError(f"the arms of a {type(self).__name__} cannot change")

    def _remove_arm(self, arm: int) -> None:
        """Let all that holds state drop an arm; those after it move up. All of it, or raise."""
        raise NotImplementedError(f"the arms of a {type(self).__name__} cannot change")

    def _components(self) -> Iterable[Sized]:
        """Return what holds the agent's state."""
        return ()

    def _diagnosis(self) -> dict[str, Any]:
        """Return what the algorithm can tell of its latest update, as fields of :class:`lim2.agents.info.Info`."""
        return {}

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
        return as_floats(values, what)

    # What a user calls

    def act(self, context: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False) -> Any:
        """Choose an arm for a context, among all arms or the eligible ones.

        Until every arm has been decided for, or updated, ``initial_pulls`` times, the arms take turns. Rewards may be
        late: turns are counted when decided.

        Parameters
        ----------
        context
            A 1-D array of n_features.
        arms
            The eligible arms; None for all.
        exploit
            Play the arm with the largest mean: no exploration, no turn, no ``min_propensity``, nothing drawn.
        """
        x = self._checked_context(context)
        eligible = None if arms is None else self._checked_eligible(arms)
        chosen = None if exploit else self._unscored(eligible)
        if chosen is None:
            with one_thread:
                seen = self._look(x)
                chosen = _largest(self._beliefs(seen)[0] if exploit else self._draw(seen), eligible)
        return self.arms[chosen]

    def act_many(
        self, contexts: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False
    ) -> NDArray[Any]:
        """Choose an arm for each row of contexts, as a loop over :meth:`act` would.

        Returns an array of whole numbers for arms that are called by such, and of objects for others.
        """
        xs = self._checked_contexts(contexts)
        eligible = None if arms is None else self._checked_eligible(arms)
        rest, chosen = slice(0, len(xs)), np.empty(len(xs), dtype=np.intp)
        if not exploit and (self._starting or self.min_propensity):
            for row, x in enumerate(xs):
                first = self._unscored(eligible)
                if first is None:
                    with one_thread:
                        first = _largest(self._draw(self._look(x)), eligible)
                chosen[row] = first
                if not (self._starting or self.min_propensity):
                    rest = slice(row + 1, len(xs))
                    break
            else:
                rest = slice(0, 0)
        if len(xs[rest]):
            with one_thread:
                seen = self._look(xs[rest])
                chosen[rest] = _largest_of_rows(self._beliefs(seen)[0] if exploit else self._draw(seen), eligible)
        return self._named(chosen)

    def decide(self, context: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False) -> Decision:
        """Choose an arm as :meth:`act` does, and tell what a decision log needs: see :class:`lim2.Decision`.

        The agent draws what ``act`` would have drawn, so the two choose the same arm from the same state.
        """
        x = self._checked_context(context)
        subset = None if arms is None else self._checked_eligible(arms)
        eligible = np.arange(self.n_arms) if subset is None else subset
        with one_thread:
            seen = self._look(x)
            means, stds = self._beliefs(seen)
            propensities = self._policy(seen, eligible, exploit)  # before a turn is taken
            chosen = None if exploit else self._unscored(subset)
            if chosen is None:
                chosen = _largest(means if exploit else self._draw(seen), subset)
        if subset is not None:
            means, stds = means[subset], stds[subset]
        position = chosen if subset is None else int(np.flatnonzero(subset == chosen)[0])
        names = self.arms if subset is None else tuple(self.arms[index] for index in subset)
        return Decision(
            self.arms[chosen], float(propensities[position]), names, means, stds, propensities, bool(exploit)
        )

    def propensities(
        self, contexts: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False
    ) -> Array:
        """Return the probability with which the next decision chooses each arm; nothing is drawn or changed.

        Parameters
        ----------
        contexts
            One context, giving (k,) for k eligible arms, or rows, giving (n, k): each as if it came next.
        arms
            The eligible arms, in the order of the result; None for all.
        exploit
            As for :meth:`act`.
        """
        one = np.ndim(contexts) == len(self.context_shape)
        xs = self._checked_context(contexts) if one else self._checked_contexts(contexts)
        eligible = np.arange(self.n_arms) if arms is None else self._checked_eligible(arms)
        with one_thread:
            return self._policy(self._look(xs), eligible, exploit)

    def update(self, context: ArrayLike, arm: Hashable, reward: float) -> None:
        """Learn from the reward that an arm earned in a context; it need not follow the ``act`` that chose it."""
        self._update(self._checked_context(context), self._checked_arm(arm), self._checked_reward(reward))

    def update_many(self, contexts: ArrayLike, arms: Iterable[Hashable], rewards: ArrayLike) -> None:
        """Learn from many rewards as a loop over :meth:`update` would; all are checked before any is used."""
        xs = self._checked_contexts(contexts)
        if isinstance(arms, str) or not isinstance(arms, Iterable) or (isinstance(arms, np.ndarray) and not arms.ndim):
            raise ValueError(f"arms must be {len(xs)} arms, one a context, got {arms!r}")
        played = arms.tolist() if isinstance(arms, np.ndarray) else list(arms)
        if len(played) != len(xs):
            raise ValueError(f"arms must be {len(xs)} arms, one a context, got {len(played)}")
        checked_arms = [self._checked_arm(arm) for arm in played]
        earned = as_floats(rewards, "rewards")
        if earned.shape != (len(xs),):
            raise ValueError(f"rewards must be {len(xs)} numbers, one a context, got shape {earned.shape}")
        checked_rewards = [self._checked_reward(reward) for reward in earned.tolist()]
        for x, arm, reward in zip(xs, checked_arms, checked_rewards, strict=True):
            self._update(x, arm, reward)

    def add_arm(self, name: Hashable, like: Hashable | None = None) -> None:
        """Take in a new arm, which is owed its ``initial_pulls`` like the others at the start.

        Parameters
        ----------
        name
            What it is called.
        like
            An arm to start as: its beliefs, its part of the network and, as far as there is room, its tuples in memory
            are taken over. None: start from the prior. Either way nothing changes for the other arms, but that the
            network is shared.
        """
        names = arm_names((*self.arms, name))
        source = None if like is None else self._checked_arm(like)
        _checked_floor(self.min_propensity, len(names))
        with self._locks.learning, one_thread:
            self._add_arm(source)
            self._change_arms(names, with_row(self.pulls, 0), with_row(self._asked, 0))

    def remove_arm(self, name: Hashable) -> None:
        """Forget an arm: its beliefs, its part of the network and its tuples in memory."""
        arm = self._checked_arm(name)
        if self.n_arms == 1:
            raise ValueError(f"{name!r} is the only arm: an agent needs at least one")
        names = self.arms[:arm] + self.arms[arm + 1 :]
        with self._locks.learning, one_thread:
            self._remove_arm(arm)
            self._change_arms(names, without_row(self.pulls, arm), without_row(self._asked, arm))

    def _change_arms(self, names: tuple[Hashable, ...], pulls: NDArray[np.intp], asked: NDArray[np.intp]) -> None:
        self._name_arms(names)
        self.pulls, self._asked = pulls, asked
        self._starting = bool(self._owed().max() > 0)
        sizes = {k: v for k, v in self._shown.items() if k == "n_features"}
        rest = {k: v for k, v in self._shown.items() if k not in ("n_arms", "arms", "n_features")}
        self._shown = {**sizes, "arms": repr(list(names)), **rest}

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
    def info(self) -> Info | None:
        """What the latest update did; None before the first, and in a copy.

        Computed when asked for: an update itself only keeps what that needs.
        """
        if self._updated is None:
            return None
        with one_thread:
            return Info(self.rounds, self._updated, **self._diagnosis())

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
            self._updated = self.arms[arm]
        if _logger.isEnabledFor(logging.DEBUG):
            _logger.debug("%s: %r", self.name, self.info)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **dict.fromkeys(self._passing & self.__dict__.keys())}

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

    def _named(self, chosen: NDArray[np.intp]) -> NDArray[Any]:
        """Return the names of many arms as an array."""
        if is_range(self.arms):
            return chosen
        whole = all(type(name) is int for name in self.arms)
        names = np.empty(self.n_arms, dtype=np.intp if whole else object)
        for index, name in enumerate(self.arms):  # one by one: a name may be a tuple
            names[index] = name
        return names[chosen]

    def _unscored(self, eligible: NDArray[np.intp] | None) -> int | None:
        """Choose an arm for the floor's or the start's sake; None when scores should decide."""
        chosen = None
        if self.min_propensity:
            # One draw tells whether, and which: each arm has a piece of length min_propensity.
            piece = int(self._act_rng.random() / self.min_propensity)
            if piece < (self.n_arms if eligible is None else len(eligible)):
                chosen = piece if eligible is None else int(eligible[piece])
        if self._starting:
            with self._locks.turns:
                if chosen is None:
                    chosen = self._whose_turn(eligible)
                if chosen is not None:
                    self._asked[chosen] += 1
                self._starting = bool(self._owed().max() > 0)
        return chosen

    def _policy(self, seen: Any, eligible: NDArray[np.intp], exploit: bool) -> Array:
        """Return the probability of each eligible arm, (k,) or (n, k)."""
        if exploit:
            return one_hot(self._beliefs(seen)[0][..., eligible])
        turn = self._whose_turn(eligible) if self._starting else None
        if turn is None:
            policy = self._chances(seen, eligible)
        else:
            policy = np.zeros((*self._beliefs(seen)[0].shape[:-1], len(eligible)))
            policy[..., eligible == turn] = 1.0
        if self.min_propensity:
            policy = self.min_propensity + (1.0 - len(eligible) * self.min_propensity) * policy
        return policy

    def _owed(self) -> NDArray[np.intp]:
        """Return how many more turns each arm is owed at the start."""
        return self.initial_pulls - np.maximum(self._asked, self.pulls)

    def _whose_turn(self, eligible: NDArray[np.intp] | None) -> int | None:
        """Return the arm whose turn it is at the start; None when no eligible arm is owed one."""
        owed = self._owed()
        candidates = owed if eligible is None else owed[eligible]
        first = int(candidates.argmax())
        if candidates[first] <= 0:
            return None
        return first if eligible is None else int(eligible[first])

    def _checked_context(self, context: ArrayLike) -> Array:
        x = self._read(context, "a context")
        if x.shape != self.context_shape:
            expected = f"of {self.n_features} numbers" if len(self.context_shape) == 1 else str(self.context_shape)
            raise ValueError(f"a context must be a {len(self.context_shape)}-D array {expected}, got shape {x.shape}")
        if not size_of(x) < LARGEST:  # false for NaN, too
            raise ValueError(why_not(x, "the context"))
        return x

    def _checked_contexts(self, contexts: ArrayLike) -> Array:
        xs = self._read(contexts, "contexts")
        if xs.ndim != len(self.context_shape) + 1 or xs.shape[1:] != self.context_shape:
            shape = ", ".join(map(str, ("n", *self.context_shape)))
            raise ValueError(
                f"contexts must be a {len(self.context_shape) + 1}-D array ({shape}), got shape {xs.shape}"
            )
        if xs.size and not size_of(xs) < LARGEST:
            for row, x in enumerate(xs):
                if not size_of(x) < LARGEST:
                    raise ValueError(why_not(x, f"context {row}"))
        return xs

    def _checked_arm(self, arm: Any) -> int:
        """Return the index of an arm."""
        try:
            index = self._index[arm]
        except (KeyError, TypeError):  # TypeError: not hashable
            index = -1
        if index < 0 or not is_same(self.arms[index], arm):
            raise ValueError(f"unknown arm {arm!r}: {describe(self.arms)}")
        return index

    def _checked_eligible(self, arms: Iterable[Hashable]) -> NDArray[np.intp]:
        if not isinstance(arms, Iterable) or isinstance(arms, str):
            example = list(self.arms[:2])
            raise ValueError(f"arms must be a sequence of the eligible arms, such as {example!r}, got {arms!r}")
        indices = [self._checked_arm(arm) for arm in arms]
        if not indices:
            raise ValueError("arms is empty: at least one arm must be eligible; None means all of them")
        if len(set(indices)) < len(indices):
            twice = next(self.arms[index] for index in indices if indices.count(index) > 1)
            raise ValueError(f"the eligible arm {twice!r} is there twice: name every eligible arm once")
        return np.array(indices, dtype=np.intp)

    def _checked_reward(self, reward: float) -> float:
        value = float(reward) if isinstance(reward, float) else as_float(reward)
        if not abs(value) < LARGEST:
            raise ValueError(f"a reward must be finite and smaller than {LARGEST:g}, got {value!r}")
        return value


def _names_of(n_arms: int | None, arms: Iterable[Hashable] | None) -> tuple[Hashable, ...]:
    if (n_arms is None) == (arms is None):
        raise ValueError(f"give either n_arms or arms, their names: got n_arms={n_arms!r} and arms={arms!r}")
    return arm_names(arms) if arms is not None else tuple(range(positive_int("n_arms", n_arms or 0)))


def _checked_floor(floor: float, n_arms: int) -> float:
    """Return the least propensity of an arm, or say why there cannot be such a policy."""
    value = as_float(floor, "min_propensity")
    if not 0.0 <= value * n_arms <= 1.0 + 1e-12:
        raise ValueError(f"min_propensity must be from 0 to 1 / n_arms = {1.0 / n_arms:.4g}, got {floor!r}")
    return value


def _largest(scores: Array, eligible: NDArray[np.intp] | None) -> int:
    """Return the index of the eligible arm with the largest score; the first of equals."""
    return int(scores.argmax()) if eligible is None else int(eligible[scores[eligible].argmax()])


def _largest_of_rows(scores: Array, eligible: NDArray[np.intp] | None) -> NDArray[np.intp]:
    best: NDArray[np.intp] = (scores if eligible is None else scores[:, eligible]).argmax(axis=1)
    return best if eligible is None else eligible[best]
