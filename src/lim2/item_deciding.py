"""Decisions among items: candidates passed with every call, described by features, that share one posterior."""

import functools
import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lim2._blas import one_thread
from lim2.algorithms.base import Algorithm
from lim2.arms import arm_names
from lim2.checks import LARGEST, as_floats, size_of, why_not
from lim2.deciding import Decider, check_positions, no_propensities, order_of
from lim2.decision import Decision
from lim2.exploration import StudentT, Thompson
from lim2.exploration.epsilon import uniform_choice, with_uniform
from lim2.exploration.propensity import one_hot
from lim2.state import Array

Items = ArrayLike | Mapping[Any, ArrayLike]  # rows, called 0, 1, 2, ..., or vectors by name

MANY = 6  # decisions among as many candidates, from which on their propensities take less time together


class Question(NamedTuple):
    """A decision to be made: names of the candidates, and rows of context and candidate."""

    names: tuple[Hashable, ...]
    rows: Array
    exploit: bool = False


class ItemDecider:
    """Base class of item agents and their snapshots: chooses among items but does not learn.

    Parameters
    ----------
    decider
        A snapshot of an agent with one arm.
    """

    def __init__(self, decider: Decider) -> None:
        crossing = decider.algorithm.crossing
        if crossing is None:
            raise ValueError(f"{decider!r} was made for arms, not for items: give n_item_features instead of n_arms")
        self._inner, self._sizes = decider, (crossing.context, crossing.item)

    def act(self, context: ArrayLike, items: Items, *, exploit: bool = False, joint: bool = False) -> Any:
        """Choose an item for a context; return its name, or its row if it has no name.

        Parameters
        ----------
        context
            A 1-D array of n_features.
        items
            The candidates: an array (k, n_item_features), or vectors by name.
        exploit
            Choose the item with the largest posterior mean: no exploration, no ``epsilon``, no random draw.
        joint
            Draw the scores of all candidates jointly, with their correlations, instead of independently. Similar
            candidates then get similar scores. The decision has no propensities.
        """
        names, rows = self._candidates(context, items)
        return names[self._first(self.score_items(rows), rows, exploit, joint)]

    def decide(self, context: ArrayLike, items: Items, *, exploit: bool = False, joint: bool = False) -> Decision:
        """Choose an item as :meth:`act` does, and return it with its propensity as a :class:`lim2.Decision`.

        With ``joint=True`` the propensities are NaN.
        """
        return self.decide_rows(*self._candidates(context, items), exploit=exploit, joint=joint)

    def rank(
        self, context: ArrayLike, items: Items, k: int | None = None, *, exploit: bool = False, joint: bool = False
    ) -> list[Decision]:
        """Rank items by one draw of each score, best first; return one decision per position.

        All decisions have the same candidates. The propensity of each is the probability that its item comes first.

        Parameters
        ----------
        context, items, exploit, joint
            The same as for :meth:`act`.
        k
            Number of positions. None: one per candidate.
        """
        return self.rank_rows(*self._candidates(context, items), k, exploit=exploit, joint=joint)

    def propensities(self, context: ArrayLike, items: Items, *, exploit: bool = False) -> Array:
        """Return the probability that the next decision chooses each item, without drawing or changing anything."""
        return self.chances_of_rows(self._candidates(context, items)[1], exploit=exploit)

    def means(self, context: ArrayLike, items: Items) -> Array:
        """Return the posterior mean of every item's score, (k,); NaN for an algorithm without a posterior."""
        return self.score_items(self._candidates(context, items)[1]).mean

    def variances(self, context: ArrayLike, items: Items) -> Array:
        """Return the posterior variance of every item's score, (k,); infinite if undefined."""
        return self.score_items(self._candidates(context, items)[1]).variance

    # The same for rows of context and item that are known to be right; those of a decision have the same context

    def joined(self, context: Array, items: Array) -> Array:
        """Return rows of context and item, (k, n_features + n_item_features)."""
        rows = np.empty((len(items), sum(self._sizes)))
        rows[:, : len(context)], rows[:, len(context) :] = context, items
        return rows

    def score_rows(self, rows: Array) -> StudentT:
        """Return the score of every row, whatever its context."""
        with one_thread:
            return _of_rows(self._inner.algorithm.score(self._inner._core.state, rows))

    def score_items(self, rows: Array, decisions: int = 1) -> StudentT:
        """Return the score of every row of one decision, which share its context, or of several."""
        with one_thread:
            return _of_rows(self._inner.algorithm.score_items(self._scores_by, rows, decisions))

    @functools.cached_property
    def _scores_by(self) -> Any:
        """What items are scored by: of a state that stays, only what that needs."""
        with one_thread:
            return self._inner.algorithm.for_items(self._inner._core.state)

    def prepare(self) -> None:
        """Compute now what items are scored by."""
        _ = self._scores_by

    def chances_of_rows(self, rows: Array, *, exploit: bool) -> Array:
        """Return the propensity of every row."""
        return self._propensities(self.score_items(rows), exploit, joint=False)

    def decide_rows(self, names: tuple[Hashable, ...], rows: Array, *, exploit: bool, joint: bool) -> Decision:
        """Choose one of the rows."""
        with one_thread:  # once for all that follows
            score = self.score_items(rows)
            chances = self._propensities(score, exploit, joint)
            return _decisions([self._first(score, rows, exploit, joint)], names, score, chances, exploit)[0]

    def decide_many(self, questions: Sequence[Question]) -> list[Decision]:
        """Make several decisions as one: those of :meth:`decide_rows`, one after the other, up to rounding."""
        if len(questions) == 1:
            ((names, rows, exploit),) = questions
            return [self.decide_rows(names, rows, exploit=exploit, joint=False)]
        with one_thread:
            score = self.score_items(np.concatenate([question.rows for question in questions]), len(questions))
            bounds = itertools.pairwise(itertools.accumulate((len(one.names) for one in questions), initial=0))
            places, deviations = [slice(*pair) for pair in bounds], np.sqrt(score.variance)
            scores = [StudentT(*(part[place] for part in score)) for place in places]
            chances = self._propensities_of_many(scores, [question.exploit for question in questions])
            return [
                _decision(self._first(own, rows, exploit, False), names, own.mean, deviations[place], each, exploit)
                for (names, rows, exploit), own, place, each in zip(questions, scores, places, chances, strict=True)
            ]

    def _propensities_of_many(self, scores: list[StudentT], exploit: list[bool]) -> list[Array]:
        """Return the propensities of several decisions; those among as many candidates are computed together."""
        groups: dict[tuple[int, bool], list[int]] = {}
        for place, score in enumerate(scores):
            groups.setdefault((len(score.mean), exploit[place]), []).append(place)
        out: dict[int, Array] = {}
        for (_, best), places in groups.items():
            own = [scores[place] for place in places]
            if len(own) >= MANY:
                means, scales, freedom = zip(*own, strict=True)
                found = self._propensities(StudentT(np.stack(means), np.stack(scales), freedom[0]), best, joint=False)
                out |= dict(zip(places, found, strict=True))
            else:
                out |= {place: self._propensities(scores[place], best, joint=False) for place in places}
        return [out[place] for place in range(len(scores))]

    def rank_rows(
        self, names: tuple[Hashable, ...], rows: Array, k: int | None, *, exploit: bool, joint: bool
    ) -> list[Decision]:
        """Order the rows."""
        score, count = self.score_items(rows), check_positions(k, len(names))
        chances = self._propensities(score, exploit, joint)
        first = None if exploit else uniform_choice(self.epsilon, len(names), self._inner._rng())
        drawn = self._drawn(score, rows, exploit, joint)
        return _decisions(order_of(drawn, first, count), names, score, chances, exploit)

    def _first(self, score: StudentT, rows: Array, exploit: bool, joint: bool) -> int:
        """Return the place of the item that is chosen."""
        chosen = None if exploit else uniform_choice(self.epsilon, len(rows), self._inner._rng())
        return int(self._drawn(score, rows, exploit, joint).argmax()) if chosen is None else chosen

    def _drawn(self, score: StudentT, rows: Array, exploit: bool, joint: bool) -> Array:
        """Return one score per item: the mean, or drawn one by one, or all together."""
        if exploit:
            return score.mean
        algorithm, rng = self._inner.algorithm, self._inner._rng()
        with one_thread:
            if not joint:
                return algorithm.policy.scores(score, rng)
            if not isinstance(algorithm.policy, Thompson):
                raise ValueError(f"joint draws are of Thompson sampling, not of {algorithm.policy!r}: leave out joint")
            return algorithm.policy.joint_scores(score, algorithm.joint_covariance(self._inner._core.state, rows), rng)

    def _propensities(self, score: StudentT, exploit: bool, joint: bool) -> Array:
        if joint:
            return np.full(len(score.mean), np.nan)
        if exploit:
            return one_hot(score.mean)
        policy = self._inner.algorithm.policy
        given = getattr(policy, "propensities", None)  # a check of the protocol takes longer than the rest
        if given is None:
            raise NotImplementedError(no_propensities(policy))
        with one_thread:
            return with_uniform(given(score), self.epsilon)

    # Checks of input

    def _context(self, context: ArrayLike) -> Array:
        x = as_floats(context, "a context")
        if x.shape != (self._sizes[0],):
            raise ValueError(f"a context must be a 1-D array of {self._sizes[0]} numbers, got shape {x.shape}")
        if not size_of(x) < LARGEST:  # false for NaN, too
            raise ValueError(why_not(x, "the context"))
        return x

    def _candidates(self, context: ArrayLike, items: Items) -> tuple[tuple[Hashable, ...], Array]:
        """Return the names of the items, and rows of context and item."""
        x = self._context(context)
        if isinstance(items, Mapping):
            if not items:
                raise ValueError("items is empty: there must be at least one to choose from")
            names = arm_names(items)
            vectors = [as_floats(item, f"the item {name!r}") for name, item in items.items()]
            for name, vector in zip(names, vectors, strict=True):
                if vector.shape != (self._sizes[1],):
                    raise ValueError(
                        f"the item {name!r} must be a 1-D array of {self._sizes[1]} numbers, got shape {vector.shape}"
                    )
            features = np.array(vectors)
        else:
            features = as_floats(items, "items")
            if features.ndim != 2 or features.shape[1] != self._sizes[1] or not len(features):
                raise ValueError(
                    f"items must be an array (k, {self._sizes[1]}), one row per item, or vectors by name; got shape "
                    f"{features.shape}"
                )
            names = tuple(range(len(features)))
        if not size_of(features) < LARGEST:
            for name, vector in zip(names, features, strict=True):
                if not size_of(vector) < LARGEST:
                    raise ValueError(why_not(vector, f"the item {name!r}"))
        return names, self._inner._contexts(self.joined(x, features))

    # What it says of itself

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm and its settings."""
        return self._inner.algorithm

    @property
    def name(self) -> str:
        """The name of the algorithm."""
        return self._inner.name

    @property
    def epsilon(self) -> float:
        """Share of decisions that are drawn uniformly among the items of the call."""
        return self._inner.epsilon

    @property
    def n_features(self) -> int:
        """Number of features of a context."""
        return self._sizes[0]

    @property
    def n_item_features(self) -> int:
        """Number of features of an item."""
        return self._sizes[1]

    @property
    def rounds(self) -> int:
        """Number of updates so far."""
        return self._inner.rounds

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict of JSON values for the user, saved with the agent."""
        return self._inner.metadata  # type: ignore[attr-defined, no-any-return]

    def __repr__(self) -> str:
        return repr(self._inner)


def _of_rows(score: StudentT) -> StudentT:
    """Return the scores of the one arm, in several rows, as those of several arms."""
    mean, scale, freedom = score
    return StudentT(mean[:, 0], scale[:, 0], freedom.repeat(len(mean)))


def _decisions(
    places: list[int], names: tuple[Hashable, ...], score: StudentT, chances: Array, exploit: bool
) -> list[Decision]:
    """Return decisions for some of the candidates."""
    stds = np.sqrt(score.variance)
    return [_decision(at, names, score.mean, stds, chances, exploit) for at in places]


def _decision(
    at: int, names: tuple[Hashable, ...], means: Array, stds: Array, chances: Array, exploit: bool
) -> Decision:
    """Return the decision for one of the candidates."""
    return Decision(names[at], float(chances[at]), names, means, stds, chances, bool(exploit))
