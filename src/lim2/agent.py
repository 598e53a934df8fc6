"""The shell around every algorithm: it checks inputs, names the arms, holds the random streams, and swaps states whole.

It is the only mutable thing. A state is a value (``state.py``), so an update that fails has changed nothing, and a
snapshot is a reference.
"""

import copy
import logging
import os
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import fields, replace
from itertools import starmap
from operator import setitem
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2 import state as trees
from lim2 import streams
from lim2._blas import one_thread
from lim2.algorithms.base import Algorithm, Diagnostics, check_floor
from lim2.arms import arm_names, describe, is_range, is_same
from lim2.checks import LARGEST, as_float, as_floats, size_of, why_not
from lim2.decision import Decision
from lim2.exploration import StudentT
from lim2.exploration.propensity import one_hot
from lim2.info import Info
from lim2.snapshot import Snapshot
from lim2.state import Array, Ints
from lim2.streams import Streams

P = ParamSpec("P")
_logger = logging.getLogger("lim2")


class Core(NamedTuple):
    """Everything that an update changes: it is replaced whole."""

    names: tuple[Hashable, ...]  # of the arms, in the order of their indices
    places: Mapping[Hashable, int]  # the index of each name
    state: Any
    pulls: Ints  # updates of each arm
    rounds: int
    latest: tuple[Hashable, Diagnostics] | None = None  # the arm updated last, and what the update did


class Agent:
    """A contextual bandit agent: ``act``, get a reward, ``update``.

    ``lim2.LiM2(...)`` and its like make agents. An agent is for one thread at a time, except that :meth:`snapshot` and
    :meth:`save` may be called while another thread updates it. Other threads decide by a snapshot.

    Parameters
    ----------
    algorithm
        What it plays by, with all settings.

    Attributes
    ----------
    algorithm
        The algorithm and its settings.
    metadata
        A dict of JSON values that belongs to the user, and is saved with the agent.

    Examples
    --------
    >>> import lim2
    >>> agent = lim2.LinearTS(n_arms=3, n_features=2, seed=0)
    >>> agent
    LinearTS(n_arms=3, n_features=2, seed=0)
    >>> arm = agent.act([0.5, 1.0])
    >>> agent.update([0.5, 1.0], arm, reward=1.0)
    >>> agent.rounds, agent.clone().rounds
    (1, 0)
    """

    def __init__(self, algorithm: Algorithm) -> None:
        if algorithm.arms is not None and not isinstance(algorithm.arms, str | list | tuple):
            algorithm = replace(algorithm, arms=list(_iterable(algorithm.arms)))
        algorithm.validate()
        names = algorithm.names
        self._begin(algorithm, Streams(algorithm.seed))
        state = algorithm.init(len(names), self._streams.init)
        self._core = _core(names, state, np.zeros(len(names), dtype=np.intp), 0)
        self._asked = np.zeros(len(names), dtype=np.intp)  # decisions for each arm made by taking turns
        self._starting = algorithm.initial_pulls > 0

    def _begin(self, algorithm: Algorithm, its_streams: Streams) -> None:
        self.algorithm, self._streams, self._serves = algorithm, its_streams, False
        self.metadata: dict[str, Any] = {}
        self._shared = False  # whether somebody else has this very state
        self._drawn: tuple[Any, Any] = (None, None)  # the round of the latest update, and where its stream was
        self._shape, self._floor = algorithm.shape, float(algorithm.min_propensity)
        self._axes, self._policy = len(algorithm.shape), algorithm.policy
        self._takes_floats = algorithm.takes_floats

    # Deciding

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
        core, x = self._core, self._context(context)
        eligible = None if arms is None else self._eligible(arms)
        chosen = self._unscored(eligible) if (self._starting or self._floor) and not exploit else None
        if chosen is None:
            with one_thread:
                score = self.algorithm.score(core.state, x)
                scores = score.mean if exploit else self._policy.scores(score, self._rng())
            chosen = _largest(scores, eligible)
        return core.names[chosen]

    def act_many(
        self, contexts: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False
    ) -> NDArray[Any]:
        """Choose an arm for each row of contexts, as a loop over :meth:`act` would.

        Returns an array of whole numbers for arms that are called by such, and of objects for others.
        """
        xs = self._contexts(contexts)
        eligible = None if arms is None else self._eligible(arms)
        chosen, row = np.empty(len(xs), dtype=np.intp), 0
        if len(xs):
            with one_thread:
                score = self.algorithm.score(self._core.state, xs) if len(xs) > 1 else self._score_of_row(xs[0])
                while row < len(xs) and not exploit and (self._starting or self._floor or len(xs) == 1):
                    first = self._unscored(eligible)
                    if first is None:
                        one = StudentT(score.mean[row], score.scale[row], score.freedom)
                        first = _largest(self._policy.scores(one, self._rng()), eligible)
                    chosen[row] = first
                    row += 1
                if row < len(xs):
                    rest = StudentT(score.mean[row:], score.scale[row:], score.freedom)
                    scores = rest.mean if exploit else self._policy.scores(rest, self._rng())
                    best = (scores if eligible is None else scores[:, eligible]).argmax(axis=1)
                    chosen[row:] = best if eligible is None else eligible[best]
        return _named(chosen, self._core.names)

    def _score_of_row(self, x: NDArray[Any]) -> StudentT:
        mean, scale, freedom = self.algorithm.score(self._core.state, x)
        return StudentT(mean[None], scale[None], freedom)

    def decide(self, context: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False) -> Decision:
        """Choose an arm as :meth:`act` does, and return what a decision log needs: see :class:`lim2.Decision`.

        The agent draws what ``act`` would have drawn, so the two choose the same arm from the same state.
        """
        core, x = self._core, self._context(context)
        subset = None if arms is None else self._eligible(arms)
        with one_thread:
            score = self.algorithm.score(core.state, x)
            own = score if subset is None else score.of(subset)
            propensities = self._propensities(own, subset, exploit)  # before a turn is taken
            chosen = None if exploit else self._unscored(subset)
            if chosen is None:
                chosen = _largest(score.mean if exploit else self._policy.scores(score, self._rng()), subset)
        position = chosen if subset is None else int(np.flatnonzero(subset == chosen)[0])
        names = core.names if subset is None else tuple(core.names[index] for index in subset)
        arm, stds = core.names[chosen], np.sqrt(own.variance)
        return Decision(arm, float(propensities[position]), names, own.mean, stds, propensities, bool(exploit))

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
        subset = None if arms is None else self._eligible(arms)
        score = self._score(contexts)
        with one_thread:
            return self._propensities(score if subset is None else score.of(subset), subset, exploit)

    def means(self, contexts: ArrayLike) -> Array:
        """Return the expected score of every arm: (n_arms,) for one context, (n, n_arms) for rows of contexts.

        NaN for an algorithm without beliefs.
        """
        return self._score(contexts).mean

    def variances(self, contexts: ArrayLike) -> Array:
        """Return the variance of every arm's score, in the shape of :meth:`means`; infinite where it has none."""
        return self._score(contexts).variance

    def _score(self, contexts: ArrayLike) -> StudentT:
        one = np.ndim(contexts) == self._axes
        xs = self._context(contexts) if one else self._contexts(contexts)
        with one_thread:
            return self.algorithm.score(self._core.state, xs)

    def _propensities(self, score: StudentT, eligible: Ints | None, exploit: bool) -> Array:
        """Return the probability of each eligible arm, given their scores, (k,) or (n, k)."""
        if exploit:
            return one_hot(score.mean)
        turn = self._whose_turn(eligible) if self._starting else None
        if turn is not None:
            policy = np.zeros(score.mean.shape)
            policy[..., [turn] if eligible is None else eligible == turn] = 1.0
        elif callable(getattr(self._policy, "propensities", None)):
            policy = self._policy.propensities(score)  # type: ignore[attr-defined]
        else:
            raise NotImplementedError(
                f"{self._policy!r} does not give its propensities, so only `act` works: give it a method "
                "`propensities(score)`, see lim2.exploration.KnowsPropensities"
            )
        if self._floor:
            policy = self._floor + (1.0 - len(score.freedom) * self._floor) * policy
        return policy

    def _rng(self) -> np.random.Generator:
        return self._streams.serve if self._serves else self._streams.act

    def _unscored(self, eligible: Ints | None) -> int | None:
        """Choose an arm for the floor's or the start's sake; None when scores should decide."""
        chosen = None
        if self._floor:
            # One draw says whether, and which: each arm has a piece of length min_propensity.
            piece = int(self._rng().random() / self._floor)
            if piece < (self.n_arms if eligible is None else len(eligible)):
                chosen = piece if eligible is None else int(eligible[piece])
        if self._starting:
            with streams.lock:
                if chosen is None:
                    chosen = self._whose_turn(eligible)
                if chosen is not None:
                    self._asked[chosen] += 1
                self._starting = bool(self._owed().max() > 0)
        return chosen

    def _owed(self) -> Ints:
        """Return how many more turns each arm is owed at the start."""
        return self.algorithm.initial_pulls - np.maximum(self._asked, self._core.pulls)

    def _whose_turn(self, eligible: Ints | None) -> int | None:
        """Return the arm whose turn it is at the start; None when no eligible arm is owed one."""
        owed = self._owed()
        candidates = owed if eligible is None else owed[eligible]
        first = int(candidates.argmax())
        if candidates[first] <= 0:
            return None
        return first if eligible is None else int(eligible[first])

    # Learning

    def update(self, context: ArrayLike, arm: Hashable, reward: float) -> None:
        """Learn from the reward that an arm earned in a context; it need not follow the ``act`` that chose it."""
        self._learn(self._context(context), self._arm(arm), self._reward(reward))

    def update_many(self, contexts: ArrayLike, arms: Iterable[Hashable], rewards: ArrayLike) -> None:
        """Learn from many rewards as a loop over :meth:`update` would; from all of them or, if one fails, from none."""
        xs = self._contexts(contexts)
        if isinstance(arms, str) or not isinstance(arms, Iterable) or (isinstance(arms, np.ndarray) and not arms.ndim):
            raise ValueError(f"arms must be {len(xs)} arms, one per context, got {arms!r}")
        played = arms.tolist() if isinstance(arms, np.ndarray) else list(arms)
        if len(played) != len(xs):
            raise ValueError(f"arms must be {len(xs)} arms, one per context, got {len(played)}")
        indices = [self._arm(arm) for arm in played]
        earned = as_floats(rewards, "rewards")
        if earned.shape != (len(xs),):
            raise ValueError(f"rewards must be {len(xs)} numbers, one per context, got shape {earned.shape}")
        numbers = [self._reward(reward) for reward in earned.tolist()]
        before, position, self._shared = self._core, self._streams.learn.bit_generator.state, True
        try:
            for x, index, number in zip(xs, indices, numbers, strict=True):
                self._learn(x, index, number)
        except BaseException:
            self._core, self._shared = before, True
            self._streams.learn.bit_generator.state = position
            raise

    def _learn(self, context: NDArray[Any], arm: int, reward: float) -> None:
        """Swap the state for the one after a reward; if anything fails, nothing has happened."""
        algorithm, rng = self.algorithm, self._streams.learn
        with one_thread:
            core = self._own_core() if self._shared else self._core
            names, places, state, pulls, rounds, _ = core
            position = None
            if algorithm.draws:  # noted for a failure, and for who saves the agent meanwhile
                position = rng.bit_generator.state
                self._drawn = (rounds, position)
            try:
                new, diagnostics = algorithm.learn(state, context, arm, reward, rng)
                latest = (names[arm], diagnostics)
                rows: list[trees.Write] = []
                if type(new) is trees.Writes:
                    new, rows = new
                with streams.lock:
                    if self._shared:  # by a snapshot that came in between: what it sees must stay
                        new, pulls, rows = trees.written(trees.Writes(new, rows)), pulls.copy(), []
                    rows.append((pulls, arm, pulls[arm] + 1))
                    rows.append((self.__dict__, "_core", Core(names, places, new, pulls, rounds + 1, latest)))
                    deque(starmap(setitem, rows), maxlen=0)  # one call: no interrupt comes between rows and swap
            except BaseException:
                if position is not None and self._core is core:
                    rng.bit_generator.state = position
                raise
        if _logger.isEnabledFor(logging.DEBUG):
            _logger.debug("%s: %r", self.name, self.info)

    def _own_core(self) -> Core:
        """Copy a state that somebody else has, too."""
        with streams.lock:
            core = self._core
            self._core = core._replace(state=trees.copied(core.state), pulls=core.pulls.copy())
            self._shared = False
            return self._core

    def add_arm(self, name: Hashable, like: Hashable | None = None) -> None:
        """Add a new arm, which is owed its ``initial_pulls`` like the others at the start.

        Parameters
        ----------
        name
            What it is called.
        like
            An arm to start as: its beliefs, its part of the network and, as far as there is room, its tuples in memory
            are copied. None: start from the prior. Either way nothing changes for the other arms, except that the
            network is shared.
        """
        core = self._core
        names = arm_names((*core.names, name))
        source = None if like is None else self._arm(like)
        check_floor(self._floor, len(names))
        rng = copy.deepcopy(self._streams.init)
        with one_thread:
            new = trees.copied(self.algorithm.add_arm(core.state, source, rng))
        self._change_arms(_core(names, new, trees.with_row(core.pulls, 0), core.rounds), trees.with_row(self._asked, 0))
        self._streams.init = rng

    def remove_arm(self, name: Hashable) -> None:
        """Forget an arm: its beliefs, its part of the network and its tuples in memory."""
        core, arm = self._core, self._arm(name)
        if len(core.names) == 1:
            raise ValueError(f"{name!r} is the only arm: an agent needs at least one")
        names = core.names[:arm] + core.names[arm + 1 :]
        with one_thread:
            new = trees.copied(self.algorithm.remove_arm(core.state, arm))
        pulls, asked = trees.without_row(core.pulls, arm), trees.without_row(self._asked, arm)
        self._change_arms(_core(names, new, pulls, core.rounds), asked)

    def _change_arms(self, core: Core, asked: Ints) -> None:
        starting = bool((self.algorithm.initial_pulls - np.maximum(asked, core.pulls)).max() > 0)
        with streams.lock:
            self._core, self._asked, self._starting, self._shared = core, asked, starting, False

    # Copies and files

    def snapshot(self) -> Snapshot:
        """Return the agent as it is now, to decide by in other threads while this one learns.

        Nothing that happens to the agent afterwards changes a snapshot. It is a reference: the next update copies the
        state once.

        Examples
        --------
        >>> import lim2
        >>> agent = lim2.LinearTS(n_arms=2, n_features=1, seed=0)
        >>> snapshot = agent.snapshot()
        >>> agent.update([1.0], 0, 1.0)
        >>> snapshot.means([1.0]).tolist(), agent.means([1.0]).round(3).tolist()
        ([0.0, 0.0], [0.889, 0.0])
        """
        twin = object.__new__(Agent)
        with streams.lock:
            self._shared = True
            twin.__dict__.update(self.__dict__)
        twin._serves = True
        return Snapshot(twin)

    @property
    def state(self) -> Any:
        """The state of the algorithm, a value: what happens to the agent afterwards does not change it."""
        with streams.lock:
            self._shared = True
            return self._core.state

    def copy(self) -> Self:
        """Return an agent that is the same, streams included, and goes on by itself."""
        return copy.deepcopy(self)

    def clone(self) -> "Agent":
        """Return a fresh agent with the same settings."""
        return Agent(self.algorithm)

    def reseed(self, seed: int | None = None) -> None:
        """Decide from new random streams; what is learned does not depend on them.

        Parameters
        ----------
        seed
            With the same seed, the same decisions. None: a seed from the system.
        """
        self._streams.reseed(seed)

    def get_params(self) -> dict[str, Any]:
        """Return every setting as it was given, by the name of its argument."""
        return {field.name: getattr(self.algorithm, field.name) for field in fields(self.algorithm)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to a file, whole or not at all, whatever happens to the process or the machine.

        :func:`lim2.load` makes an agent of it that learns on, bit for bit, as this one would. When this returns the
        file is on disk. The format is described in ``docs/file-format.md``. What cannot be saved, such as an
        exploration of your own or names of arms that are not JSON values, is a ValueError before anything is written.

        Parameters
        ----------
        path
            Where to; its folder must exist. A file that is there is replaced, and keeps its permissions.
        """
        from lim2.loading import dump  # here, because it knows all algorithms
        from lim2.persistence.files import write

        write(Path(path), dump(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = object.__new__(type(self))
        memo[id(self)] = twin
        twin.__setstate__({**self.__getstate__(), "_streams": copy.deepcopy(self._streams, memo)})
        twin.metadata = copy.deepcopy(self.metadata, memo)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        with streams.lock:
            core = self._core._replace(latest=None)
            kept = {**self.__dict__, "_asked": self._asked.copy(), "_shared": False, "_drawn": (None, None)}
        return {**kept, "_core": core._replace(state=trees.canonical(core.state))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Unpickled arrays can be read-only views of memory that belongs to others: they are copied on arrival.
        self._core = self._core._replace(state=trees.copied(self._core.state), pulls=self._core.pulls.copy())
        self._asked = self._asked.copy()

    def parts(self) -> tuple[Core, Ints, dict[str, Any]]:
        """Return what a file holds of the agent: its core, its turns, and the positions of its streams.

        They are of one moment, even while another thread updates it.
        """
        its_streams = self._streams.here()
        with streams.lock:  # no update ends meanwhile
            self._shared = True
            core, asked, positions = self._core, self._asked.copy(), its_streams.positions()
            begun, position = self._drawn
        if begun == core.rounds and position is not None:  # one has begun to draw
            positions["learn"] = streams.described(position)
        return core, asked, positions

    @classmethod
    def restored(
        cls,
        algorithm: Algorithm,
        its_streams: Streams,
        names: tuple[Hashable, ...],
        state: Any,
        counts: tuple[Ints, Ints, int],
    ) -> Self:
        """Return the agent that has these parts; ``counts`` are pulls, turns and rounds. Loading ends here."""
        pulls, asked, rounds = counts
        agent = object.__new__(cls)
        agent._begin(algorithm, its_streams)
        agent._change_arms(_core(names, state, pulls, rounds), asked)
        return agent

    # What it says of itself

    @property
    def name(self) -> str:
        """The name of the algorithm."""
        return self.algorithm.name

    @property
    def arms(self) -> tuple[Any, ...]:
        """The names of the arms."""
        return self._core.names

    @property
    def n_arms(self) -> int:
        """The number of arms."""
        return len(self._core.names)

    @property
    def context_shape(self) -> tuple[int, ...]:
        """The shape of a context."""
        return self._shape

    @property
    def n_features(self) -> int:
        """How many numbers a context has."""
        return int(np.prod(self._shape))

    @property
    def rounds(self) -> int:
        """How many updates there were."""
        return self._core.rounds

    @property
    def pulls(self) -> Ints:
        """How many updates of each arm there were."""
        return self._core.pulls.copy()

    @property
    def info(self) -> Info | None:
        """What the latest update did; None before the first, and in a copy. Computed when asked for."""
        core = self._core
        if core.latest is None:
            return None
        with one_thread:
            return Info(core.rounds, core.latest[0], **core.latest[1]())

    @property
    def nbytes(self) -> int:
        """Bytes that the agent's state occupies."""
        return trees.nbytes(self._core.state)

    def __repr__(self) -> str:
        given = {f.name: getattr(self.algorithm, f.name) for f in fields(self.algorithm)}
        differing = {f.name: given[f.name] for f in fields(self.algorithm) if not _same(given[f.name], f.default)}
        if self._core.names != self.algorithm.names:
            differing = {k: v for k, v in differing.items() if k != "n_arms"} | {"arms": list(self._core.names)}
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in differing.items())})"

    # Checks of input

    def _context(self, context: ArrayLike) -> NDArray[Any]:
        if type(context) is np.ndarray and context.dtype == np.float64 and self._takes_floats:
            x: NDArray[Any] = context
        else:
            x = self.algorithm.read(self._core.state, context, "a context")
        if x.shape != self._shape:
            expected = f"of {self.n_features} numbers" if self._axes == 1 else str(self._shape)
            raise ValueError(f"a context must be a {self._axes}-D array {expected}, got shape {x.shape}")
        if not size_of(x) < LARGEST:  # false for NaN, too
            raise ValueError(why_not(x, "the context"))
        return x

    def _contexts(self, contexts: ArrayLike) -> NDArray[Any]:
        xs = self.algorithm.read(self._core.state, contexts, "contexts")
        if xs.ndim != self._axes + 1 or xs.shape[1:] != self._shape:
            shape = ", ".join(map(str, ("n", *self._shape)))
            raise ValueError(f"contexts must be a {self._axes + 1}-D array ({shape}), got shape {xs.shape}")
        if xs.size and not size_of(xs) < LARGEST:
            for row, x in enumerate(xs):
                if not size_of(x) < LARGEST:
                    raise ValueError(why_not(x, f"context {row}"))
        return xs

    def _arm(self, arm: Any) -> int:
        """Return the index of an arm."""
        core = self._core
        try:
            index = core.places[arm]
        except (KeyError, TypeError):  # TypeError: not hashable
            index = -1
        if index < 0 or not is_same(core.names[index], arm):
            raise ValueError(f"unknown arm {arm!r}: {describe(core.names)}")
        return index

    def _eligible(self, arms: Iterable[Hashable]) -> Ints:
        if not isinstance(arms, Iterable) or isinstance(arms, str):
            example = list(self.arms[:2])
            raise ValueError(f"arms must be a sequence of the eligible arms, such as {example!r}, got {arms!r}")
        indices = [self._arm(arm) for arm in arms]
        if not indices:
            raise ValueError("arms is empty: at least one arm must be eligible; None means all of them")
        if len(set(indices)) < len(indices):
            twice = next(self.arms[index] for index in indices if indices.count(index) > 1)
            raise ValueError(f"the eligible arm {twice!r} is there twice: name every eligible arm once")
        return np.array(indices, dtype=np.intp)

    def _reward(self, reward: float) -> float:
        value = float(reward) if isinstance(reward, float) else as_float(reward)
        if not abs(value) < LARGEST:
            raise ValueError(f"a reward must be finite and smaller than {LARGEST:g}, got {value!r}")
        return value


def agent_of(algorithm: Callable[P, Algorithm]) -> Callable[P, Agent]:
    """Return what makes an agent that plays by an algorithm, from the algorithm's settings."""

    def make(*args: P.args, **kwargs: P.kwargs) -> Agent:
        return Agent(algorithm(*args, **kwargs))

    for name in ("__name__", "__qualname__", "__doc__"):
        setattr(make, name, getattr(algorithm, name))
    make.__wrapped__ = algorithm  # type: ignore[attr-defined]  # its signature
    return make


def _core(names: tuple[Hashable, ...], state: Any, pulls: Ints, rounds: int) -> Core:
    return Core(names, {name: index for index, name in enumerate(names)}, state, pulls, rounds)


def _iterable(arms: Any) -> Iterable[Hashable]:
    if not isinstance(arms, Iterable) or isinstance(arms, bytes | set | frozenset):
        arm_names(arms)
    return arms  # type: ignore[no-any-return]


def _same(given: Any, default: Any) -> bool:
    return given is default or (type(given) is type(default) and bool(np.all(given == default)))


def _largest(scores: Array, eligible: Ints | None) -> int:
    """Return the index of the eligible arm with the largest score; the first of equals."""
    return int(scores.argmax()) if eligible is None else int(eligible[scores[eligible].argmax()])


def _named(chosen: Ints, names: tuple[Hashable, ...]) -> NDArray[Any]:
    """Return the names of many arms as an array."""
    if is_range(names):
        return chosen
    whole = all(type(name) is int for name in names)
    out = np.empty(len(names), dtype=np.intp if whole else object)
    for index, name in enumerate(names):  # one by one: a name may be a tuple
        out[index] = name
    return out[chosen]
