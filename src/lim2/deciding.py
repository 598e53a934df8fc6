"""Decisions of agents and snapshots: from a context to an arm."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2 import streams
from lim2._blas import one_thread
from lim2.algorithms.base import Algorithm, Diagnostics
from lim2.arms import describe, is_range, is_same
from lim2.checks import LARGEST, shown, size_of, why_not
from lim2.decision import Decision
from lim2.exploration import StudentT
from lim2.exploration.epsilon import uniform_choice, with_uniform
from lim2.exploration.propensity import one_hot
from lim2.state import Array, Ints
from lim2.streams import Streams

FLOAT64 = np.dtype(np.float64)


class Core(NamedTuple):
    """Everything that an update changes; it is replaced as a whole."""

    names: tuple[Hashable, ...]  # of the arms, in the order of their indices
    places: Mapping[Hashable, int]  # the index of each name
    state: Any
    pulls: Ints  # updates of each arm
    rounds: int
    latest: tuple[Hashable, Diagnostics] | None = None  # the arm updated last, and what the update did


class Decider:
    """Base class of agents and snapshots: chooses arms but does not learn.

    Attributes
    ----------
    algorithm
        The algorithm and its settings.
    """

    algorithm: Algorithm
    _core: Core
    _streams: Streams
    _serves: bool  # whether it decides from the stream of snapshots
    _asked: Ints  # decisions for each arm made by taking turns
    _starting: bool  # whether arms are still owed turns

    def _set_up(self, algorithm: Algorithm, its_streams: Streams) -> None:
        self.algorithm, self._streams, self._serves = algorithm, its_streams, False
        self._shape, self._epsilon = algorithm.shape, float(algorithm.epsilon)
        self._axes, self._policy = len(algorithm.shape), algorithm.policy
        self._takes_floats = algorithm.takes_floats

    def act(self, context: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False) -> Any:
        """Choose an arm for a context, among all arms or the eligible ones.

        At the start the arms are played in turn until each has been chosen or updated ``initial_pulls`` times. A turn
        counts when the decision is made, so rewards may be late.

        Parameters
        ----------
        context
            A 1-D array of n_features.
        arms
            Names of the eligible arms. None: all arms.
        exploit
            Choose the arm with the largest posterior mean: no exploration, no initial turns, no ``epsilon``, no
            random draw.
        """
        core, x = self._core, self._context(context)
        chosen = self._choose(core.state, x, None if arms is None else self._eligible(arms), exploit)
        self._decided(x, chosen)
        return core.names[chosen]

    def _decided(self, x: NDArray[Any], arm: int) -> None:
        """Take note of a decision; only an agent does."""

    def _choose(self, state: Any, x: NDArray[Any], eligible: Ints | None, exploit: bool) -> int:
        """Return the index of the arm for a context."""
        chosen = self._unscored(eligible) if (self._starting or self._epsilon) and not exploit else None
        if chosen is None:
            with one_thread:
                score = self.algorithm.score(state, x)
                rng = self._streams.serve if self._serves else self._streams.act
                scores = score.mean if exploit else self._policy.scores(score, rng)
            chosen = int(scores.argmax()) if eligible is None else int(eligible[scores[eligible].argmax()])
        return chosen

    def act_many(
        self, contexts: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False
    ) -> NDArray[Any]:
        """Choose an arm for each row of contexts, the same as a loop over :meth:`act`.

        Returns an array of integers if the arms are named by integers, otherwise an array of objects.
        """
        xs = self._contexts(contexts)
        eligible = None if arms is None else self._eligible(arms)
        chosen, row = np.empty(len(xs), dtype=np.intp), 0
        if len(xs) == 1:
            chosen[0] = self._choose(self._core.state, xs[0], eligible, exploit)
        elif len(xs):
            with one_thread:
                score = self.algorithm.score(self._core.state, xs)
                while row < len(xs) and not exploit and (self._starting or self._epsilon):
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
        for x, arm in zip(xs, chosen.tolist(), strict=True):
            self._decided(x, arm)
        return _named(chosen, self._core.names)

    def decide(self, context: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False) -> Decision:
        """Choose an arm as :meth:`act` does, and return it with its propensity as a :class:`lim2.Decision`.

        From the same state, ``decide`` and ``act`` use the same random draws and choose the same arm.

        Examples
        --------
        >>> import lim2
        >>> agent = lim2.LinearTS(arms=["red", "blue"], n_features=1, seed=0)
        >>> agent.update_many([[1.0]] * 4, ["red", "red", "blue", "blue"], [1.0, 1.0, 0.0, 0.0])
        >>> decision = agent.decide([1.0])
        >>> decision.arm, round(decision.propensity, 3), decision.means.round(3).tolist()
        ('red', 0.839, [0.941, 0.0])
        """
        return self._ordered(context, arms, exploit, 1)[0]

    def rank(
        self, context: ArrayLike, arms: Iterable[Hashable] | None = None, k: int | None = None, *, exploit: bool = False
    ) -> list[Decision]:
        """Rank arms by one draw of each score, best first; return one decision per position.

        All decisions have the same eligible arms. The propensity of each is the probability that its arm comes first.
        An arm played for its initial turn or for ``epsilon`` comes first.

        Parameters
        ----------
        context, arms, exploit
            The same as for :meth:`act`.
        k
            Number of positions. None: one per eligible arm.

        Examples
        --------
        >>> import lim2
        >>> agent = lim2.LinearTS(arms=["red", "blue"], n_features=1, seed=0)
        >>> agent.update_many([[1.0]] * 4, ["red", "red", "blue", "blue"], [1.0, 1.0, 0.0, 0.0])
        >>> [decision.arm for decision in agent.rank([1.0])]
        ['red', 'blue']
        """
        return self._ordered(context, arms, exploit, k)

    def _ordered(
        self, context: ArrayLike, arms: Iterable[Hashable] | None, exploit: bool, k: int | None
    ) -> list[Decision]:
        """Return decisions for the first k arms in the order of their scores."""
        core, x = self._core, self._context(context)
        subset = None if arms is None else self._eligible(arms)
        count = check_positions(k, len(core.names) if subset is None else len(subset))
        with one_thread:
            score = self.algorithm.score(core.state, x)
            own = score if subset is None else score.of(subset)
            turn = None if exploit else self._whose_turn(subset)
            propensities = self._propensities(own, subset, turn, exploit)  # before anything is drawn
            first = None if exploit else self._unscored(subset, turn)
            drawn = None
            if first is None or count > 1:
                drawn = score.mean if exploit else self._policy.scores(score, self._rng())
                drawn = drawn if subset is None else drawn[subset]
        names = core.names if subset is None else tuple(core.names[index] for index in subset)
        place = None if first is None else first if subset is None else int(np.flatnonzero(subset == first)[0])
        stds = np.sqrt(own.variance)
        order = order_of(drawn, place, count)
        for at in order:
            self._decided(x, at if subset is None else int(subset[at]))
        return [
            Decision(names[at], float(propensities[at]), names, own.mean, stds, propensities, bool(exploit))
            for at in order
        ]

    def propensities(
        self, contexts: ArrayLike, arms: Iterable[Hashable] | None = None, *, exploit: bool = False
    ) -> Array:
        """Return the probability that the next decision chooses each arm, without drawing or changing anything.

        Parameters
        ----------
        contexts
            One context, which gives (k,) for k eligible arms, or n rows, which give (n, k), each as if it came next.
        arms
            Names of the eligible arms, in the order of the result. None: all arms.
        exploit
            The same as for :meth:`act`.

        Examples
        --------
        >>> import lim2
        >>> agent = lim2.LinearTS(arms=["red", "blue"], n_features=1, seed=0)
        >>> agent.update_many([[1.0]] * 4, ["red", "red", "blue", "blue"], [1.0, 1.0, 0.0, 0.0])
        >>> agent.propensities([1.0]).round(3).tolist(), agent.propensities([1.0], arms=["blue"]).tolist()
        ([0.839, 0.161], [1.0])
        """
        subset = None if arms is None else self._eligible(arms)
        with one_thread:
            score, turn = self._score(contexts), self._whose_turn(subset)
            return self._propensities(score if subset is None else score.of(subset), subset, turn, exploit)

    def means(self, contexts: ArrayLike) -> Array:
        """Return the posterior mean of every arm's score: (n_arms,) for one context, (n, n_arms) for n rows.

        It is NaN for an algorithm without a posterior.

        Examples
        --------
        >>> import lim2
        >>> agent = lim2.LinearTS(arms=["red", "blue"], n_features=1, seed=0)
        >>> agent.update_many([[1.0]] * 4, ["red", "red", "blue", "blue"], [1.0, 1.0, 0.0, 0.0])
        >>> agent.means([[1.0], [2.0]]).round(3).tolist()
        [[0.941, 0.0], [1.412, 0.0]]
        """
        return self._score(contexts).mean

    def variances(self, contexts: ArrayLike) -> Array:
        """Return the posterior variance of every arm's score, in the shape of :meth:`means`; infinite if undefined."""
        return self._score(contexts).variance

    def _score(self, contexts: ArrayLike) -> StudentT:
        one = np.ndim(contexts) == self._axes
        xs = self._context(contexts) if one else self._contexts(contexts)
        with one_thread:
            return self.algorithm.score(self._core.state, xs)

    def _propensities(self, score: StudentT, eligible: Ints | None, turn: int | None, exploit: bool) -> Array:
        """Return the probability of each eligible arm, given their scores, (k,) or (n, k), and whose turn it is."""
        if exploit:
            return one_hot(score.mean)
        if turn is not None:
            policy = np.zeros(score.mean.shape)
            policy[..., [turn] if eligible is None else eligible == turn] = 1.0
        elif callable(getattr(self._policy, "propensities", None)):
            policy = self._policy.propensities(score)  # type: ignore[attr-defined]
        else:
            raise NotImplementedError(no_propensities(self._policy))
        return with_uniform(policy, self._epsilon)

    def _rng(self) -> np.random.Generator:
        return self._streams.serve if self._serves else self._streams.act

    def _unscored(self, eligible: Ints | None, turn: int | None = None) -> int | None:
        """Return the arm that ``epsilon`` or the initial turns choose; None if the scores decide.

        A turn that was promised is kept, even if another thread has taken it meanwhile: the propensities say so.
        """
        chosen = uniform_choice(self._epsilon, self.n_arms if eligible is None else len(eligible), self._rng())
        if chosen is not None and eligible is not None:
            chosen = int(eligible[chosen])
        if self._starting:
            with streams.lock:
                if chosen is None:
                    chosen = self._whose_turn(eligible) if turn is None else turn
                if chosen is not None:
                    self._asked[chosen] += 1
                self._starting = bool(self._owed().max() > 0)
        return chosen

    def _owed(self) -> Ints:
        """Return the number of initial turns left for each arm."""
        return self.algorithm.turns - np.maximum(self._asked, self._core.pulls)

    def draw_like(self, before: "Decider") -> None:
        """Decide from the random stream of another snapshot from now on."""
        self._streams = before._streams

    def count_turns_of(self, before: "Decider") -> None:
        """Count the initial turns that another snapshot has given to the same arms: they are not given again."""
        with streams.lock:
            for place, name in enumerate(self._core.names):
                if name in before._core.places:
                    given = before._asked[before._core.places[name]]
                    self._asked[place] = max(self._asked[place], given)
            self._starting = bool(self._owed().max() > 0)

    def _whose_turn(self, eligible: Ints | None) -> int | None:
        """Return the eligible arm whose initial turn it is; None if no eligible arm has one left."""
        if not self._starting:
            return None
        owed = self._owed()
        candidates = owed if eligible is None else owed[eligible]
        first = int(candidates.argmax())
        if candidates[first] <= 0:
            return None
        return first if eligible is None else int(eligible[first])

    # What it says of itself

    @property
    def name(self) -> str:
        """The name of the algorithm."""
        return self.algorithm.name

    @property
    def arms(self) -> tuple[Any, ...]:
        """Names of the arms."""
        return self._core.names

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return len(self._core.names)

    @property
    def epsilon(self) -> float:
        """Share of decisions that are drawn uniformly among the eligible arms."""
        return self._epsilon

    @property
    def context_shape(self) -> tuple[int, ...]:
        """Shape of a context."""
        return self._shape

    @property
    def n_features(self) -> int:
        """Number of features of a context."""
        return int(np.prod(self._shape))

    @property
    def rounds(self) -> int:
        """Number of updates so far."""
        return self._core.rounds

    # Checks of input

    def _context(self, context: ArrayLike) -> NDArray[Any]:
        if type(context) is np.ndarray and context.dtype is FLOAT64 and self._takes_floats:
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
        if index < 0 or not (type(core.names[index]) is type(arm) or is_same(core.names[index], arm)):
            raise ValueError(f"unknown arm {shown(arm)}: {describe(core.names)}")
        return index

    def _eligible(self, arms: Iterable[Hashable]) -> Ints:
        if not isinstance(arms, Iterable) or isinstance(arms, str):
            example = list(self.arms[:2])
            raise ValueError(f"arms must be a sequence of eligible arms, such as {example!r}, got {arms!r}")
        indices = [self._arm(arm) for arm in arms]
        if not indices:
            raise ValueError("arms is empty: name at least one eligible arm, or pass None for all")
        if len(set(indices)) < len(indices):
            twice = next(self.arms[index] for index in indices if indices.count(index) > 1)
            raise ValueError(f"arms names {twice!r} twice: name each eligible arm once")
        return np.array(indices, dtype=np.intp)


def no_propensities(policy: Any) -> str:
    """Return the error message for a policy without propensities."""
    return (
        f"{policy!r} does not give its propensities, so only `act` works: give it a method `propensities(score)`, see "
        "lim2.exploration.KnowsPropensities"
    )


def check_positions(k: int | None, candidates: int) -> int:
    """Return the number of positions of a ranking; raise a ValueError if there are not enough candidates."""
    if k is None:
        return candidates
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= candidates:
        raise ValueError(f"k must be from 1 to the number of candidates, {candidates}, got {k!r}")
    return int(k)


def order_of(drawn: Array | None, first: int | None, count: int) -> list[int]:
    """Return the indices of the largest scores in descending order; ``first``, if given, comes before them.

    Examples
    --------
    >>> order_of(np.array([0.1, 0.7, 0.5]), None, 2), order_of(np.array([0.1, 0.7, 0.5]), 0, 2)
    ([1, 2], [0, 1])
    """
    if drawn is None or count == 1:
        return [int(drawn.argmax()) if first is None and drawn is not None else first]  # type: ignore[list-item]
    places: list[int] = (-drawn).argsort(kind="stable").tolist()
    if first is not None:
        places = [first, *(place for place in places if place != first)]
    return places[:count]


def _largest(scores: Array, eligible: Ints | None) -> int:
    """Return the index of the eligible arm with the largest score; ties go to the first."""
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
