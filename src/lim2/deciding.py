"""Decisions: a question is rows of numbers, its answer a choice among rows x arms.

Arms are one row and several arms; items are several rows and one arm, whose posterior they share. Shells around a
:class:`Decider` make the rows: agents from vectors, bandits from raw data.
"""

import functools
import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2 import streams
from lim2._blas import one_thread
from lim2.algorithms.base import Algorithm, Diagnostics
from lim2.arms import describe, is_same
from lim2.checks import LARGEST, norm, shown, size_of, why_not
from lim2.decision import Decision
from lim2.encoding import EncoderState
from lim2.exploration import StudentT, Thompson
from lim2.exploration.epsilon import uniform_choice, with_uniform
from lim2.exploration.propensity import one_hot
from lim2.state import Array, Ints
from lim2.streams import Streams

FLOAT64 = np.dtype(np.float64)
MIN_GROUP = 6  # decisions among as many candidates, from which on their propensities take less time together


class BanditState(NamedTuple):
    """Everything that learning changes, replaced as a whole."""

    names: tuple[Hashable, ...]  # of the arms, in the order of their indices
    places: Mapping[Hashable, int]  # the index of each name
    model: Any  # state of the algorithm
    pulls: Ints  # updates of each arm
    rounds: int
    latest: tuple[Hashable, Diagnostics] | None  # the arm updated last, and what the update did
    encoders: tuple[EncoderState, ...]  # states of the encoders of contexts and of items; none for vectors
    features: Mapping[Hashable, Any] | None  # raw features of the arms by name
    metadata: dict[str, Any]  # the position in a log, and what the user adds


class Question(NamedTuple):
    """A decision to be made."""

    names: tuple[Hashable, ...]  # of the candidates
    rows: NDArray[Any]  # one context, or a row of context and item for each candidate
    arms: Ints | None = None  # indices of the eligible arms; None: all, or items
    exploit: bool = False
    joint: bool = False  # whether the scores of items are drawn with their correlations


class Decider:
    """Answers questions from one state, and learns nothing."""

    algorithm: Algorithm
    state: BanditState
    streams: Streams
    _asked: Ints  # decisions for each arm made by taking turns
    _serves = False  # whether it decides from the stream of snapshots

    def configure(self, algorithm: Algorithm) -> None:
        """Take over settings, and what follows from them."""
        self.algorithm, self.policy, self.epsilon = algorithm, algorithm.policy, float(algorithm.epsilon)
        self._shape, self.axes, self.takes_floats = algorithm.shape, len(algorithm.shape), algorithm.takes_floats
        self._of_items = algorithm.crossing is not None
        self._turns = 0 if self._of_items else algorithm.turns

    # Answers

    def act(self, question: Question) -> int:
        """Return the place of the chosen candidate."""
        first = None
        if (self._starting or self.epsilon) and not question.exploit:
            first = self._unscored(question)
        if first is None:
            with one_thread:
                first = int(self._drawn(self._scores(question.rows), question).argmax())
        return first

    def act_many(self, question: Question) -> Ints:
        """Return the place of the choice for each row, the same as a loop over :meth:`act`."""
        rows, exploit = question.rows, question.exploit
        chosen, row = np.empty(len(rows), dtype=np.intp), 0
        if len(rows) == 1:
            chosen[0] = self.act(question._replace(rows=rows[0]))
        elif len(rows):
            with one_thread:
                mean, scale, freedom = self._scores(rows)
                while row < len(rows) and not exploit and (self._starting or self.epsilon):
                    first = self._unscored(question)
                    if first is None:
                        one = StudentT(mean[row], scale[row], freedom)
                        first = int(self._drawn(one, question).argmax())
                    chosen[row] = first
                    row += 1
                if row < len(rows):
                    chosen[row:] = self._drawn(StudentT(mean[row:], scale[row:], freedom), question).argmax(axis=1)
        return chosen

    def decide(self, question: Question) -> Decision:
        """Return a choice with its propensity."""
        return self.rank(question, 1)[0]

    def rank(self, question: Question, k: int | None) -> list[Decision]:
        """Return the first k candidates by one draw of each score, all if k is None."""
        candidates = len(question.names)
        if k is None:
            k = candidates
        elif isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= candidates:
            raise ValueError(f"k must be from 1 to the number of candidates, {candidates}, got {k!r}")
        with one_thread:
            return self._ordered(question, self._scores(question.rows), None, int(k))

    def decide_many(self, questions: Sequence[Question]) -> list[Decision]:
        """Return the decisions of :meth:`decide`, one after the other, up to rounding; faster for items."""
        if len(questions) == 1 or not self._of_items:
            return [self.decide(question) for question in questions]
        with one_thread:
            whole = self._scores(np.concatenate([question.rows for question in questions]), len(questions))
            bounds = itertools.pairwise(itertools.accumulate((len(one.names) for one in questions), initial=0))
            scores = [StudentT(*(part[slice(*pair)] for part in whole)) for pair in bounds]
            chances = self._propensities_of_many(scores, questions)
            return [self._ordered(*parts, 1)[0] for parts in zip(questions, scores, chances, strict=True)]

    def propensities(self, question: Question) -> Array:
        """Return the probability that each candidate comes next, (k,), or (n, k) for n contexts; nothing is drawn."""
        with one_thread:
            score, arms = self._scores(question.rows), question.arms
            turn = None if question.exploit else self._turn(arms)
            return self._propensities(score if arms is None else score.of(arms), question, turn)

    def scores(self, rows: NDArray[Any]) -> StudentT:
        """Return the scores of the candidates of one decision."""
        with one_thread:
            return self._scores(rows)

    def _scores(self, rows: NDArray[Any], decisions: int = 1) -> StudentT:
        """Return the scores of rows x arms, flat; rows of items are those of so many decisions."""
        if rows.ndim == self.axes or not self._of_items:
            return self.algorithm.score(self.state.model, rows)
        mean, scale, freedom = self.algorithm.score_items(self.item_model, rows, decisions)
        return StudentT(mean[:, 0], scale[:, 0], freedom.repeat(len(mean)))

    def posterior(self, rows: NDArray[Any]) -> StudentT:
        """Return the scores of every arm, for one row or several, whatever their contexts."""
        with one_thread:
            return self.algorithm.score(self.state.model, rows)

    @functools.cached_property
    def item_model(self) -> Any:
        """What items are scored by: of a state that stays, only what that needs."""
        with one_thread:
            return self.algorithm.for_items(self.state.model)

    def _ordered(self, question: Question, score: StudentT, propensities: Array | None, count: int) -> list[Decision]:
        """Return decisions for the first candidates in the order of their scores."""
        names, _, arms, exploit, _ = question
        eligible = score if arms is None else score.of(arms)
        turn = self._turn(arms) if self._starting and not exploit else None
        if propensities is None:  # before anything is drawn
            propensities = self._propensities(eligible, question, turn)
        first = self._unscored(question, turn) if (self._starting or self.epsilon) and not exploit else None
        order: list[int] = [] if first is None else [first]
        if first is None or count > 1:
            drawn = self._drawn(score, question)
            best = [int(drawn.argmax())] if count == 1 else (-drawn).argsort(kind="stable").tolist()
            order += [place for place in best if place != first]
        stds = np.sqrt(eligible.variance)
        return [
            Decision(names[at], float(propensities[at]), names, eligible.mean, stds, propensities, bool(exploit))
            for at in order[:count]
        ]

    def _drawn(self, score: StudentT, question: Question) -> Array:
        """Return one score for each candidate: the mean, or drawn one by one, or all together."""
        arms, rng = question.arms, self.streams.serve if self._serves else self.streams.act
        if question.exploit:
            drawn = score.mean
        elif not question.joint:
            drawn = self.policy.scores(score, rng)
        elif isinstance(self.policy, Thompson):
            covariance = self.algorithm.joint_covariance(self.state.model, question.rows)
            drawn = self.policy.joint_scores(score, covariance, rng)
        else:
            raise ValueError(f"joint draws are of Thompson sampling, not of {self.policy!r}: leave out joint")
        return drawn if arms is None else drawn[..., arms]

    def _propensities(self, score: StudentT, question: Question, turn: int | None) -> Array:
        """Return the probability of each candidate."""
        if question.joint:
            return np.full(len(score.mean), np.nan)
        if question.exploit:
            return one_hot(score.mean)
        if turn is not None:
            chances = np.zeros(score.mean.shape)
            chances[..., turn] = 1.0
        elif callable(getattr(self.policy, "propensities", None)):  # a check of the protocol takes longer
            chances = self.policy.propensities(score)  # type: ignore[attr-defined]
        else:
            raise NotImplementedError(
                f"{self.policy!r} does not give its propensities, so only `act` works: give it a method "
                "`propensities(score)`, see lim2.exploration.KnowsPropensities"
            )
        return with_uniform(chances, self.epsilon) if self.epsilon else chances

    def _propensities_of_many(self, scores: list[StudentT], questions: Sequence[Question]) -> list[Array]:
        """Return the propensities of several decisions; those among as many candidates are computed together."""
        groups: dict[tuple[int, bool], list[int]] = {}
        for place, question in enumerate(questions):
            groups.setdefault((len(question.names), question.exploit), []).append(place)
        out: dict[int, Array] = {}
        for places in groups.values():
            parts, like = [scores[place] for place in places], questions[places[0]]
            if len(places) >= MIN_GROUP:
                means, scales, freedom = zip(*parts, strict=True)
                together = self._propensities(StudentT(np.stack(means), np.stack(scales), freedom[0]), like, None)
                out |= dict(zip(places, together, strict=True))
            else:
                out |= {place: self._propensities(scores[place], like, None) for place in places}
        return [out[place] for place in range(len(scores))]

    # What is chosen without scores

    def _unscored(self, question: Question, turn: int | None = None) -> int | None:
        """Return the candidate that ``epsilon`` or the initial turns choose; None if the scores decide.

        A turn that was promised is kept, even if another thread has taken it meanwhile: the propensities say so.
        """
        arms, rng = question.arms, self.streams.serve if self._serves else self.streams.act
        place = uniform_choice(self.epsilon, len(question.names), rng)
        if self._starting:
            with streams.lock:
                if place is None:
                    place = self._turn(arms) if turn is None else turn
                if place is not None:
                    self._asked[place if arms is None else arms[place]] += 1
                self._count_turns()
        return place

    def _turn(self, arms: Ints | None) -> int | None:
        """Return the place of the candidate whose initial turn it is; None if none has one left."""
        if not self._starting:
            return None
        owed = self._owed() if arms is None else self._owed()[arms]
        place = int(owed.argmax())
        return place if owed[place] > 0 else None

    def _owed(self) -> Ints:
        """Return the number of initial turns left for each arm."""
        return self._turns - np.maximum(self._asked, self.state.pulls)

    def _count_turns(self) -> None:
        self._starting = bool(self._owed().max() > 0)

    def succeed(self, other: "Decider", *, draws: bool = False) -> None:
        """Count the initial turns that another decider has given; with ``draws``, go on in its random stream."""
        with streams.lock:
            for place, name in enumerate(self.state.names):
                if name in other.state.places:
                    self._asked[place] = max(self._asked[place], other._asked[other.state.places[name]])
            self._count_turns()
        if draws:
            self.streams = other.streams

    # Rows of vectors, and indices of arms

    def row(self, context: ArrayLike) -> NDArray[Any]:
        """Return a context as an array; raise a ValueError if it is none."""
        if type(context) is np.ndarray and context.dtype is FLOAT64 and self.takes_floats:
            x: NDArray[Any] = context
            if x.ndim == 1 and x.shape == self._shape and norm(x) < LARGEST:  # nearly always
                return x
        else:
            x = self.algorithm.read(self.state.model, context, "a context")
        if x.shape != self._shape:
            expected = f"of {self._shape[0]} numbers" if self.axes == 1 else str(self._shape)
            raise ValueError(f"a context must be a {self.axes}-D array {expected}, got shape {x.shape}")
        if not size_of(x) < LARGEST:  # false for NaN, too
            raise ValueError(why_not(x, "the context"))
        return x

    def rows(self, contexts: ArrayLike) -> NDArray[Any]:
        """Return contexts as an array, one per row; raise a ValueError if they are none."""
        xs = self.algorithm.read(self.state.model, contexts, "contexts")
        if xs.ndim != self.axes + 1 or xs.shape[1:] != self._shape:
            shape = ", ".join(map(str, ("n", *self._shape)))
            raise ValueError(f"contexts must be a {self.axes + 1}-D array ({shape}), got shape {xs.shape}")
        if xs.size and not size_of(xs) < LARGEST:
            for row, x in enumerate(xs):
                if not size_of(x) < LARGEST:
                    raise ValueError(why_not(x, f"context {row}"))
        return xs

    def arm(self, name: Any) -> int:
        """Return the index of an arm."""
        state = self.state
        try:
            index = state.places[name]
        except (KeyError, TypeError):  # TypeError: not hashable
            index = -1
        if index < 0 or not (type(state.names[index]) is type(name) or is_same(state.names[index], name)):
            raise ValueError(f"unknown arm {shown(name)}: {describe(state.names)}")
        return index

    def question(self, row: NDArray[Any], arms: Iterable[Hashable] | None, exploit: bool) -> Question:
        """Return the question which of the eligible arms to choose, all if ``arms`` is None."""
        names = self.state.names
        if arms is None:
            return Question(names, row, None, exploit)
        if not isinstance(arms, Iterable) or isinstance(arms, str):
            raise ValueError(f"arms must be a sequence of eligible arms, such as {list(names[:2])!r}, got {arms!r}")
        indices = [self.arm(arm) for arm in arms]
        if not indices:
            raise ValueError("arms is empty: name at least one eligible arm, or pass None for all")
        if len(set(indices)) < len(indices):
            twice = next(names[index] for index in indices if indices.count(index) > 1)
            raise ValueError(f"arms names {twice!r} twice: name each eligible arm once")
        return Question(tuple(names[index] for index in indices), row, np.array(indices, dtype=np.intp), exploit)

    # In another process

    def __getstate__(self) -> dict[str, Any]:
        with streams.lock:
            parts = {**self.__dict__, "_asked": self._asked.copy()}
        parts.pop("item_model", None)
        if not self.streams.seeded:
            del parts["streams"]
        with one_thread:
            model = self.algorithm.for_deciding(self.state.model)
        return {**parts, "state": self.state._replace(latest=None, model=model)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "streams" not in state:
            self.streams = Streams(None)
