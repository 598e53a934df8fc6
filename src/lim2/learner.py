"""Learning: from lessons to the next state, which replaces the one before as a whole.

The learner is the only mutable object. A state is a value (``state.py``), so a failed update changes nothing, and a
snapshot is a reference.
"""

import copy
import logging
from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from itertools import starmap
from operator import setitem
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2 import state as trees
from lim2 import streams
from lim2._blas import one_thread
from lim2.algorithms.base import Algorithm
from lim2.arms import arm_names
from lim2.checks import LARGEST, as_float, as_floats
from lim2.deciding import BanditState, Decider
from lim2.encoding import EncoderState
from lim2.info import Info
from lim2.pending import Pending
from lim2.state import Array, Ints
from lim2.streams import Streams

_logger = logging.getLogger("lim2")

Position = Mapping[str, Any]  # in a log: its log_position and log_event


class Lesson(NamedTuple):
    """Rewards that are learned in one update: one, or a batch."""

    rows: NDArray[Any]  # a context or, with items, context and item side by side; one row for each reward of a batch
    arms: Any  # the index of the arm, or those of a batch
    rewards: Any  # a float, or an array
    decided: Any = None  # when the decisions were made, in whole numbers that grow; None: now
    encoders: tuple[EncoderState, ...] | None = None  # after the rows; None: as before

    def part(self, rows: slice) -> "Lesson":
        """Return some rewards of a batch."""
        xs, arms, rewards, decided, encoders = self
        if rows.stop - rows.start > 1:
            times = None if decided is None else np.array(decided[rows], dtype=np.intp)
            return Lesson(xs[rows], arms[rows], rewards[rows], times, encoders)
        at = rows.start  # learned as one, bit for bit as without a batch
        return Lesson(xs[at], int(arms[at]), float(rewards[at]), None if decided is None else decided[at], encoders)


class Learner(Decider):
    """A decider that learns. Only its snapshot and its parts may be taken while another thread lets it learn."""

    def __init__(
        self,
        algorithm: Algorithm,
        random: Streams,
        names: tuple[Hashable, ...],
        model: Any,
        counts: tuple[Ints, Ints, int] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Start from a state of the algorithm; ``counts`` are updates and turns of each arm, and updates."""
        self.configure(algorithm)
        zeros, places = np.zeros(len(names), dtype=np.intp), {name: index for index, name in enumerate(names)}
        pulls, asked, rounds = counts or (zeros, zeros.copy(), 0)
        self.streams, self._asked, self.pending = random, asked, Pending()
        self.state = BanditState(names, places, model, pulls, rounds, None, (), None, metadata or {})
        self._shared = False  # whether somebody else has this very state
        self._draws: tuple[Any, Any] = (None, None)  # the round of the latest update, and where its stream was
        self._count_turns()

    @property
    def item_model(self) -> Any:  # not computed ahead: the next update changes it
        """What items are scored by."""
        return self.state.model

    # Learning

    def learn(self, lesson: Lesson | None, position: Position | None = None) -> None:
        """Learn a lesson, and take over its position in a log in the same step; on failure, change nothing.

        None is a step in a log from which nothing is learned.
        """
        algorithm, rng = self.algorithm, self.streams.learn
        with one_thread:
            if self._shared:
                self._unshare()
            old, drawn = self.state, None
            names, places, model, pulls, rounds, _, encoders, features, metadata = old
            if position is not None:
                metadata = {**metadata, **position}
            elif "log_id" in metadata:
                raise ValueError(
                    "this agent learns from a decision log, so a direct update would count twice: call "
                    "log.reward(id, reward) and log.apply(agent). To continue without the log, delete log_id, "
                    "log_position and log_event from agent.metadata."
                )
            if lesson is None:
                self.state = old._replace(metadata=metadata)
                return
            xs, arms, rewards, decided, observed = lesson
            learn: Any = algorithm.learn if type(arms) is int else algorithm.learn_many
            if decided is not None and algorithm.dated:
                learn = partial(learn, decided=decided)
            if algorithm.draws:  # noted for a failure, and for who saves the agent meanwhile
                drawn = rng.bit_generator.state
                self._draws = (rounds, drawn)
            try:
                model, diagnostics = learn(model, xs, arms, rewards, rng)
                writes: list[trees.Write] = []
                if type(model) is trees.Writes:
                    model, writes = model
                    for array, _, row in writes:
                        shape = () if type(row) is float else getattr(row, "shape", None)
                        if shape != array.shape[1:] and np.shape(row) != array.shape[1:]:
                            raise ValueError(
                                f"{algorithm.name}: a row of shape {np.shape(row)} does not fit an array {array.shape}"
                            )
                pulled: Any
                if type(arms) is int:
                    last, pulled, count, rounds = arms, arms, pulls[arms] + 1, rounds + 1
                else:
                    counts = np.bincount(arms, minlength=len(names))
                    last, pulled, count, rounds = int(arms[-1]), slice(None), pulls + counts, rounds + len(arms)
                latest, encoders = (names[last], diagnostics), observed or encoders
                with streams.lock:
                    if self._shared:  # by a snapshot that came in between: what it sees must stay
                        model, pulls, writes = trees.written(trees.Writes(model, writes)), pulls.copy(), []
                    state = BanditState(names, places, model, pulls, rounds, latest, encoders, features, metadata)
                    changes = [*writes, (pulls, pulled, count), (self.__dict__, "state", state)]
                    deque(starmap(setitem, changes), maxlen=0)  # one call: no interrupt comes between rows and swap
            except BaseException:
                if drawn is not None and self.state is old:
                    rng.bit_generator.state = drawn
                raise
        if _logger.isEnabledFor(logging.DEBUG):
            _logger.debug("%s: %r", algorithm.name, self.info)

    def learn_all(self, lessons: Iterable[Lesson]) -> None:
        """Learn lessons in order or, if one fails, none. A lesson is asked for once those before are learned."""
        before, drawn, self._shared = self.state, self.streams.learn.bit_generator.state, True
        try:
            for lesson in lessons:
                self.learn(lesson)
        except BaseException:
            with streams.lock:
                trees.put([(self.__dict__, "state", before), (self.__dict__, "_shared", True)])
            self.streams.learn.bit_generator.state = drawn
            raise

    def _unshare(self) -> None:
        """Copy a state that a snapshot or another caller shares."""
        with streams.lock:
            state = self.state
            self.state = state._replace(model=trees.copied(state.model), pulls=state.pulls.copy())
            self._shared = False

    # Arms

    def add_arm(self, name: Hashable, like: Hashable | None = None, position: Position | None = None) -> None:
        """Add an arm with a posterior, as a copy of another or from the prior."""
        state = self.state
        names = arm_names((*state.names, name))
        source = None if like is None else self.arm(like)
        rng = copy.deepcopy(self.streams.init)
        with one_thread:
            model = trees.copied(self.algorithm.add_arm(state.model, source, rng))
        counts = trees.with_row(state.pulls, 0), trees.with_row(self._asked, 0)
        self._change_arms(names, model, *counts, position, rng)

    def remove_arm(self, name: Hashable, position: Position | None = None) -> None:
        """Remove an arm with its posterior."""
        state, arm = self.state, self.arm(name)
        if len(state.names) == 1:
            raise ValueError(f"cannot remove {name!r}, the only arm: an agent needs at least one")
        with one_thread:
            model = trees.copied(self.algorithm.remove_arm(state.model, arm))
        counts = trees.without_row(state.pulls, arm), trees.without_row(self._asked, arm)
        self._change_arms(state.names[:arm] + state.names[arm + 1 :], model, *counts, position, self.streams.init)

    def _change_arms(
        self,
        names: tuple[Hashable, ...],
        model: Any,
        pulls: Ints,
        asked: Ints,
        position: Position | None,
        rng: np.random.Generator,
    ) -> None:
        """Replace arms, their counts and the random stream that initialises them, all in one step."""
        old = self.state
        metadata = {**old.metadata, **position} if position else old.metadata
        places = {name: index for index, name in enumerate(names)}
        state = old._replace(names=names, places=places, model=model, pulls=pulls, latest=None, metadata=metadata)
        starting = bool((self._turns - np.maximum(asked, pulls)).max() > 0)
        new = {"state": state, "_asked": asked, "_starting": starting, "_shared": False}
        with streams.lock:
            trees.put([(self.streams.__dict__, "init", rng), *((self.__dict__, *item) for item in new.items())])

    def set_features(self, features: Mapping[Hashable, Any], position: Position | None = None) -> None:
        """Replace the raw features of the arms."""
        metadata = {**self.state.metadata, **position} if position else self.state.metadata
        self.state = self.state._replace(features=features, metadata=metadata)

    # Copies and files

    def snapshot(self) -> Decider:
        """Return a decider with the current state, which the next update does not change."""
        decider = Decider.__new__(Decider)
        with streams.lock:
            self._shared = True
            decider.__dict__.update(self.__dict__)
        for name in ("pending", "_shared", "_draws"):
            del decider.__dict__[name]
        decider._serves = True
        return decider

    def value(self) -> BanditState:
        """Return the state, which later updates do not change."""
        with streams.lock:
            self._shared = True
            return self.state

    def parts(self) -> tuple[BanditState, Ints, dict[str, Any]]:
        """Return what a file stores: state, turn counts and positions of the random streams.

        They are consistent even while another thread updates the agent, or lets it learn from a log.
        """
        with streams.lock:  # no update ends meanwhile
            self._shared = True
            state, asked, positions = self.state, self._asked.copy(), self.streams.positions()
            begun, position = self._draws
        if begun == state.rounds and position is not None:  # one has begun to draw
            positions["learn"] = streams.described(position)
        return state, asked, positions

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = object.__new__(type(self))
        memo[id(self)] = twin
        twin.__setstate__({**self.__getstate__(), "streams": copy.deepcopy(self.streams, memo)})
        twin.state = twin.state._replace(metadata=copy.deepcopy(self.state.metadata, memo))
        return twin

    def __getstate__(self) -> dict[str, Any]:
        with streams.lock:
            parts = {**self.__dict__, "_asked": self._asked.copy(), "_shared": False, "_draws": (None, None)}
        parts["pending"], state = copy.deepcopy(self.pending), parts["state"]
        return {**parts, "state": state._replace(latest=None, model=trees.canonical(state.model))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Unpickled arrays can be read-only views of foreign memory, so they are copied.
        self.state = self.state._replace(model=trees.copied(self.state.model), pulls=self.state.pulls.copy())
        self._asked = self._asked.copy()

    @property
    def info(self) -> Info | None:
        """Diagnostics of the latest update; None before the first update, and in a copy."""
        state = self.state
        if state.latest is None:
            return None
        with one_thread:
            return Info(state.rounds, state.latest[0], **state.latest[1]())


def checked_reward(reward: Any) -> float:
    """Return a reward as a float; raise a ValueError if it is not finite or too large."""
    value = float(reward) if isinstance(reward, float) else as_float(reward)
    if not abs(value) < LARGEST:
        raise ValueError(f"a reward must be finite and below {LARGEST:g} in absolute value, got {value!r}")
    return value


def checked_rewards(rewards: ArrayLike, n: int) -> Array:
    """Return n rewards as an array; raise a ValueError if one is not finite or too large."""
    values = as_floats(rewards, "rewards")
    if values.shape != (n,):
        raise ValueError(f"rewards must have shape ({n},), one per context, got shape {values.shape}")
    if not (np.abs(values) < LARGEST).all():
        for value in values.tolist():  # to say which
            checked_reward(value)
    return values
