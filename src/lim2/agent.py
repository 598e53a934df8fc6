"""The agent around every algorithm: it names the arms, holds the random streams and replaces the state per update.

The agent is the only mutable object. A state is a value (``state.py``), so a failed update changes nothing, and a
snapshot is a reference. Decisions are in ``deciding.py``.
"""

import copy
import logging
import os
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from itertools import starmap
from operator import setitem
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2 import batches, streams
from lim2 import state as trees
from lim2 import warm_start as tables
from lim2._blas import one_thread
from lim2.algorithms.base import Algorithm, check_epsilon
from lim2.arms import arm_names
from lim2.batches import Progress, Size
from lim2.checks import LARGEST, as_float, as_floats, plain, positive_int
from lim2.deciding import Core, Decider
from lim2.info import Info
from lim2.pending import Pending
from lim2.persistence.agents import dump
from lim2.persistence.files import write
from lim2.snapshot import Snapshot
from lim2.state import Array, Ints
from lim2.streams import Streams

_logger = logging.getLogger("lim2")


class Agent(Decider):
    """Contextual bandit agent: call ``act``, observe a reward, call ``update``.

    ``lim2.LiM2(...)`` and the other functions in ``lim2.AGENTS`` make agents. Use an agent in one thread at a time.
    Only :meth:`snapshot` and :meth:`save` may be called while another thread updates it. Other threads decide with
    a snapshot.

    Parameters
    ----------
    algorithm
        The algorithm with all settings.

    Attributes
    ----------
    algorithm
        The algorithm and its settings.
    metadata
        A dict of JSON values for the user, saved with the agent.

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
        algorithm = plain(algorithm)
        algorithm.validate()
        names = tuple(algorithm.names)
        self._begin(algorithm, Streams(algorithm.seed))
        state = algorithm.init(len(names), self._streams.init)
        self._core = _core(names, state, np.zeros(len(names), dtype=np.intp), 0)
        self._asked = np.zeros(len(names), dtype=np.intp)  # round-robin decisions per arm
        self._starting = algorithm.turns > 0

    def _begin(self, algorithm: Algorithm, its_streams: Streams) -> None:
        self._set_up(algorithm, its_streams)
        self.metadata: dict[str, Any] = {}
        self._shared = False  # whether somebody else has this very state
        self._drawn: tuple[Any, Any] = (None, None)  # the round of the latest update, and where its stream was
        self._pending = Pending()

    # Learning

    def _decided(self, x: NDArray[Any], arm: int) -> None:
        if self.algorithm.dated:
            core = self._core
            self._pending.add(x, core.names[arm], self.algorithm.newest(core.state))

    def update(self, context: ArrayLike, arm: Hashable, reward: float, decided: int | None = None) -> None:
        """Learn the reward of an arm in a context. Updates may come in any order and long after ``act``.

        Parameters
        ----------
        context
            A 1-D array of n_features.
        arm
            Name of the arm that was played.
        reward
            Its reward.
        decided
            When the decision was made: its number, or a time in whole seconds or smaller units; any whole numbers from
            1 that grow. ``AdaptiveTS`` tests for changes in this order. None: the agent recognises the latest decisions
            that it made itself by context and arm; all others count as made now.
        """
        self.refuse_beside_log()
        x, index, value = self._context(context), self._arm(arm), self._reward(reward)
        number = positive_int("decided", decided) if decided is not None else None
        if number is None and self.algorithm.dated:
            number = self._pending.pop(x, self._core.names[index])
        self._learn(x, index, value, decided=number)

    def update_many(self, contexts: ArrayLike, arms: Iterable[Hashable], rewards: ArrayLike, batch: Size = 1) -> None:
        """Learn many rewards: all of them or, if one fails, none.

        Parameters
        ----------
        contexts
            One context per row, (n, n_features).
        arms
            Names of the arms that were played, n of them.
        rewards
            Their rewards, (n,).
        batch
            Number of rewards learned in one update. 1: one update per reward, the same as a loop over :meth:`update`.
            ``"auto"``: an eighth of the rounds so far, at most 256, or 1 if :attr:`batches` is False. Large batches are
            much faster, see ``docs/guides/batches.md``.

        Examples
        --------
        >>> import lim2
        >>> agent = lim2.LinearTS(n_arms=2, n_features=1, seed=0)
        >>> agent.update_many([[1.0], [2.0], [3.0]], [0, 1, 0], [1.0, 0.0, 3.0], batch=3)
        >>> agent.rounds, agent.means([1.0]).round(3).tolist()
        (3, [1.062, 0.0])
        """
        self.learn_all(contexts, arms, rewards, batch)

    def warm_start(self, table: Any, batch: Size = "auto", progress: Progress | None = None) -> int:
        """Learn all rewards of a table in order or, if one fails, none. Return their number.

        Parameters
        ----------
        table
            A ``lim2.log.Table``, or a :class:`lim2.DecisionLog`, whose table is used. Unlike ``log.apply(agent)``, this
            does not store a log position in the agent.
        batch
            Number of rewards learned in one update, see :meth:`update_many`.
        progress
            Called after every batch as ``progress(done, total)``.

        Returns
        -------
        int
            Number of rewards learned.

        Examples
        --------
        >>> import lim2
        >>> table = lim2.log.Table.of([[1.0], [2.0]], ["red", "blue"], rewards=[1.0, 0.0], propensity=[0.5, 0.5])
        >>> agent = lim2.AdaptiveTS(arms=["blue", "red"], n_features=1, seed=0)
        >>> agent.warm_start(table), agent.rounds
        (2, 2)
        """
        return self.learn_all(*tables.of_arms(table), batch, progress)

    def _checked(
        self, contexts: ArrayLike, arms: Iterable[Hashable], rewards: ArrayLike
    ) -> tuple[NDArray[Any], Ints, Array]:
        """Return contexts, arm indices and rewards as arrays; raise a ValueError if they are invalid."""
        xs = self._contexts(contexts)
        if isinstance(arms, str) or not isinstance(arms, Iterable) or (isinstance(arms, np.ndarray) and not arms.ndim):
            raise ValueError(f"arms must be a sequence of {len(xs)} arms, one per context, got {arms!r}")
        played = arms.tolist() if isinstance(arms, np.ndarray) else list(arms)
        if len(played) != len(xs):
            raise ValueError(f"arms must have {len(xs)} entries, one per context, got {len(played)}")
        indices = np.fromiter(map(self._arm, played), dtype=np.intp, count=len(xs))
        earned = as_floats(rewards, "rewards")
        if earned.shape != (len(xs),):
            raise ValueError(f"rewards must have shape ({len(xs)},), one per context, got shape {earned.shape}")
        if not (np.abs(earned) < LARGEST).all():
            for reward in earned.tolist():  # to say which
                self._reward(reward)
        return xs, indices, earned

    def learn_all(
        self,
        contexts: ArrayLike,
        arms: Iterable[Hashable],
        rewards: ArrayLike,
        batch: Size,
        progress: Progress | None = None,
    ) -> int:
        """Learn all rewards in batches or, if one fails, none; return their number."""
        self.refuse_beside_log()
        size = batches.checked(batch, self.batches, self.algorithm.no_batches)
        xs, indices, earned = self._checked(contexts, arms, rewards)
        n = len(earned)
        with self.all_or_nothing():
            for rows in batches.slices(n, size, self.rounds):
                self.learn_rows(xs[rows], indices[rows], earned[rows])
                if progress is not None:
                    progress(rows.stop, n)
        return n

    @contextmanager
    def all_or_nothing(self, also: Iterable[trees.Write] = ()) -> Iterator[None]:
        """Restore the agent, and make the assignments ``also``, if anything in the ``with`` block fails."""
        before, position, self._shared = self._core, self._streams.learn.bit_generator.state, True
        undone = [(self.__dict__, "_core", before), (self.__dict__, "_shared", True), *also]
        try:
            yield
        except BaseException:
            with streams.lock:
                deque(starmap(setitem, undone), maxlen=0)  # one call: nobody sees a part of it
            self._streams.learn.bit_generator.state = position
            raise

    def learn_row(
        self,
        context: NDArray[Any],
        arm: Hashable,
        reward: float,
        also: Iterable[trees.Write] = (),
        decided: int | None = None,
    ) -> None:
        """Learn from a vector without checking it; make the assignments ``also`` together with the new state."""
        self._learn(context, self._arm(arm), self._reward(reward), also, decided)

    def learn_logged(
        self,
        context: ArrayLike,
        arm: Hashable,
        reward: float,
        also: Iterable[trees.Write],
        decided: int | None = None,
    ) -> None:
        """Learn a reward from a log, as :meth:`update` does; set ``also``, its log position, in the same step."""
        self._learn(self._context(context), self._arm(arm), self._reward(reward), also, decided)

    def learn_logged_many(
        self,
        contexts: ArrayLike,
        arms: Iterable[Hashable],
        rewards: ArrayLike,
        also: Iterable[trees.Write],
        decided: Sequence[int] | None = None,
    ) -> None:
        """Learn rewards from a log as one batch; set ``also``, the log position of the last, in the same step."""
        self.learn_rows(*self._checked(contexts, arms, rewards), also, decided)

    def learn_rows(
        self,
        contexts: NDArray[Any],
        arms: Ints,
        rewards: Array,
        also: Iterable[trees.Write] = (),
        decided: Sequence[int] | None = None,
    ) -> None:
        """Learn one batch without checking it, arms as indices; make the assignments ``also`` in the same step.

        A batch of one reward gives the same result as :meth:`update`, bit for bit.
        """
        if len(rewards) == 1:
            self._learn(contexts[0], int(arms[0]), float(rewards[0]), also, None if decided is None else decided[0])
        elif not self.batches:
            raise ValueError(f"{self.algorithm.no_batches}, got {len(rewards)} rewards")
        elif len(rewards):
            counts = np.bincount(arms)
            pulled = np.flatnonzero(counts), counts[counts > 0]
            times = None if decided is None else np.array(decided, dtype=np.intp)
            learn = self._dated(self.algorithm.learn_many, times)
            self._advance(learn, (contexts, arms, rewards), int(arms[-1]), pulled, also)
        else:
            trees.put(also)

    def refuse_beside_log(self) -> None:
        """Raise a ValueError if the agent learns from a log: it would learn the same reward twice."""
        if "log_id" in self.metadata:
            raise ValueError(
                "this agent learns from a decision log, so a direct update would count twice: call "
                "log.reward(id, reward) and log.apply(agent). To continue without the log, delete log_id, log_position "
                "and log_event from agent.metadata."
            )

    def _learn(
        self,
        context: NDArray[Any],
        arm: int,
        reward: float,
        also: Iterable[trees.Write] = (),
        decided: int | None = None,
    ) -> None:
        """Learn one reward."""
        self._advance(self._dated(self.algorithm.learn, decided), (context, arm, reward), arm, (arm, 1), also)

    def _dated(self, learn: Callable[..., Any], decided: Any) -> Callable[..., Any]:
        """Return an update function that knows when decisions were made, if the algorithm uses that."""
        return learn if decided is None or not self.algorithm.dated else partial(learn, decided=decided)

    def _advance(
        self, learn: Callable[..., Any], seen: tuple[Any, ...], arm: int, pulled: Any, also: Iterable[trees.Write]
    ) -> None:
        """Replace the state by the updated one and make the assignments ``also``; on failure, change nothing.

        Parameters
        ----------
        learn, seen
            The algorithm's update function, and its data.
        arm
            Index of the last arm played.
        pulled
            The arms played, and the number of pulls of each.
        also
            Assignments made together with the new state.
        """
        algorithm, rng = self.algorithm, self._streams.learn
        with one_thread:
            core = self._own_core() if self._shared else self._core
            names, places, state, pulls, rounds, _ = core
            (arms, counts), position = pulled, None
            after = rounds + (1 if type(counts) is int else int(counts.sum()))
            if algorithm.draws:  # noted for a failure, and for who saves the agent meanwhile
                position = rng.bit_generator.state
                self._drawn = (rounds, position)
            try:
                new, diagnostics = learn(state, *seen, rng)
                latest = (names[arm], diagnostics)
                rows: list[trees.Write] = []
                if type(new) is trees.Writes:
                    new, rows = new
                    for array, _, row in rows:
                        shape = () if type(row) is float else getattr(row, "shape", None)
                        if shape != array.shape[1:] and np.shape(row) != array.shape[1:]:
                            raise ValueError(
                                f"{self.name}: a row of shape {np.shape(row)} does not fit an array {array.shape}"
                            )
                with streams.lock:
                    if self._shared:  # by a snapshot that came in between: what it sees must stay
                        new, pulls, rows = trees.written(trees.Writes(new, rows)), pulls.copy(), []
                    rows.append((pulls, arms, pulls[arms] + counts))
                    rows.append((self.__dict__, "_core", Core(names, places, new, pulls, after, latest)))
                    rows.extend(also)
                    deque(starmap(setitem, rows), maxlen=0)  # one call: no interrupt comes between rows and swap
            except BaseException:
                if position is not None and self._core is core:
                    rng.bit_generator.state = position
                raise
        if _logger.isEnabledFor(logging.DEBUG):
            _logger.debug("%s: %r", self.name, self.info)

    def _own_core(self) -> Core:
        """Copy a state that a snapshot or another caller shares, and return the copy."""
        with streams.lock:
            core = self._core
            self._core = core._replace(state=trees.copied(core.state), pulls=core.pulls.copy())
            self._shared = False
            return self._core

    def add_arm(self, name: Hashable, like: Hashable | None = None, *, also: Iterable[trees.Write] = ()) -> None:
        """Add an arm. It is first played ``initial_pulls`` times, like the other arms at the start.

        Parameters
        ----------
        name
            Name of the new arm.
        like
            Name of an arm to copy: its posterior, its part of the network and, as far as there is room, its tuples in
            memory. None: the new arm starts from the prior. The posteriors of the other arms do not change.
        also
            Assignments made together with the change; used by a log.

        Examples
        --------
        >>> import lim2
        >>> agent = lim2.LinearTS(arms=["red", "blue"], n_features=1, seed=0)
        >>> agent.update([1.0], "red", 1.0)
        >>> agent.add_arm("green", like="red")
        >>> agent.arms, agent.means([1.0]).round(3).tolist()
        (('red', 'blue', 'green'), [0.889, 0.0, 0.889])
        """
        core = self._core
        names = arm_names((*core.names, name))
        source = None if like is None else self._arm(like)
        rng = copy.deepcopy(self._streams.init)
        with one_thread:
            new = trees.copied(self.algorithm.add_arm(core.state, source, rng))
        pulls, asked = trees.with_row(core.pulls, 0), trees.with_row(self._asked, 0)
        self._change_arms(_core(names, new, pulls, core.rounds), asked, rng, also)

    def remove_arm(self, name: Hashable, *, also: Iterable[trees.Write] = ()) -> None:
        """Remove an arm: its posterior, its part of the network and its tuples in memory.

        Parameters
        ----------
        name
            Name of the arm.
        also
            Assignments made together with the change; used by a log.
        """
        core, arm = self._core, self._arm(name)
        if len(core.names) == 1:
            raise ValueError(f"cannot remove {name!r}, the only arm: an agent needs at least one")
        names = core.names[:arm] + core.names[arm + 1 :]
        with one_thread:
            new = trees.copied(self.algorithm.remove_arm(core.state, arm))
        pulls, asked = trees.without_row(core.pulls, arm), trees.without_row(self._asked, arm)
        self._change_arms(_core(names, new, pulls, core.rounds), asked, also=also)

    def _change_arms(
        self, core: Core, asked: Ints, rng: np.random.Generator | None = None, also: Iterable[trees.Write] = ()
    ) -> None:
        """Replace core, turn counts and, for a new arm, the random stream that initialised it; all in one step."""
        starting = bool((self.algorithm.turns - np.maximum(asked, core.pulls)).max() > 0)
        changes = {"_core": core, "_asked": asked, "_starting": starting, "_shared": False}
        writes: list[trees.Write] = [(self.__dict__, name, value) for name, value in changes.items()]
        writes.append((self._streams.__dict__, "init", self._streams.init if rng is None else rng))
        writes.extend(also)
        with streams.lock:
            deque(starmap(setitem, writes), maxlen=0)

    # Copies and files

    def snapshot(self) -> Snapshot:
        """Return a read-only view of the current agent, which other threads can decide with while this one learns.

        Later changes to the agent do not change a snapshot. Taking one is cheap: only the next update copies the state.

        Examples
        --------
        >>> import lim2
        >>> agent = lim2.LinearTS(n_arms=2, n_features=1, seed=0)
        >>> snapshot = agent.snapshot()
        >>> agent.update([1.0], 0, 1.0)
        >>> snapshot.means([1.0]).tolist(), agent.means([1.0]).round(3).tolist()
        ([0.0, 0.0], [0.889, 0.0])
        """
        with streams.lock:
            self._shared = True
            return Snapshot(self.__dict__)

    @property
    def state(self) -> Any:
        """The state of the algorithm, a value: later updates do not change it."""
        with streams.lock:
            self._shared = True
            return self._core.state

    def copy(self) -> Self:
        """Return an independent copy of the agent, random streams included."""
        return copy.deepcopy(self)

    def clone(self) -> "Agent":
        """Return a new, untrained agent with the same settings."""
        return Agent(self.algorithm)

    def reseed(self, seed: int | None = None) -> None:
        """Replace the random streams of decisions; learning does not depend on them.

        Parameters
        ----------
        seed
            Seed of the new streams. None: a random seed from the operating system.
        """
        self._streams.reseed(seed)

    def get_params(self) -> dict[str, Any]:
        """Return all settings as they were given, as a mapping from argument name to value."""
        return {field.name: getattr(self.algorithm, field.name) for field in fields(self.algorithm)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to a file atomically: a crash leaves either the old file or the new one.

        When the call returns, the file is on disk. :func:`lim2.load` reads it; the loaded agent learns exactly, bit for
        bit, as this one would. A ValueError is raised before anything is written if the agent cannot be saved, for
        example with a custom exploration or with names of arms that are not JSON values. The format is described in
        ``docs/reference/file-format.md``.

        Parameters
        ----------
        path
            Path of the file, in an existing folder. An existing file is replaced and keeps its permissions.
        """
        write(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the bytes that :meth:`save` would write; :func:`lim2.from_bytes` reads them."""
        return dump(self.algorithm, *self.parts())

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
        kept["_pending"] = copy.deepcopy(self._pending)
        return {**kept, "_core": core._replace(state=trees.canonical(core.state))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Unpickled arrays can be read-only views of foreign memory, so they are copied.
        self._core = self._core._replace(state=trees.copied(self._core.state), pulls=self._core.pulls.copy())
        self._asked = self._asked.copy()

    def parts(self) -> tuple[Core, Ints, dict[str, Any], dict[str, Any]]:
        """Return what a file stores: the core, turn counts, positions of the random streams, and metadata.

        The parts are consistent even while another thread updates the agent, or lets it learn from a log.
        """
        with streams.lock:  # no update ends meanwhile
            self._shared = True
            core, asked, positions = self._core, self._asked.copy(), self._streams.positions()
            begun, position = self._drawn
            metadata = copy.copy(self.metadata)  # its log position is that of the core
        if begun == core.rounds and position is not None:  # one has begun to draw
            positions["learn"] = streams.described(position)
        return core, asked, positions, metadata

    @classmethod
    def restored(
        cls,
        algorithm: Algorithm,
        its_streams: Streams,
        names: tuple[Hashable, ...],
        state: Any,
        counts: tuple[Ints, Ints, int],
        metadata: dict[str, Any] | None = None,
    ) -> Self:
        """Return an agent with these parts; ``counts`` are pulls, turns and rounds. Used by loading."""
        pulls, asked, rounds = counts
        agent = object.__new__(cls)
        agent._begin(algorithm, its_streams)
        agent._change_arms(_core(names, state, pulls, rounds), asked)
        agent.metadata = metadata or {}
        return agent

    # Properties

    @property
    def epsilon(self) -> float:
        """Share of decisions that are drawn uniformly among the eligible arms; another one holds from then on."""
        return self._epsilon

    @epsilon.setter
    def epsilon(self, epsilon: float) -> None:
        check_epsilon(epsilon)
        self._epsilon = float(epsilon)
        self.algorithm = replace(self.algorithm, epsilon=self._epsilon)

    @property
    def batches(self) -> bool:
        """Whether the algorithm can learn several rewards in one update."""
        return self.algorithm.batches

    @property
    def pulls(self) -> Ints:
        """Number of updates per arm."""
        return self._core.pulls.copy()

    @property
    def info(self) -> Info | None:
        """Diagnostics of the latest update, computed on access; None before the first update, and in a copy."""
        core = self._core
        if core.latest is None:
            return None
        with one_thread:
            return Info(core.rounds, core.latest[0], **core.latest[1]())

    @property
    def nbytes(self) -> int:
        """Size of the agent's state in bytes."""
        return trees.nbytes(self._core.state)

    def __repr__(self) -> str:
        given = {f.name: getattr(self.algorithm, f.name) for f in fields(self.algorithm)}
        differing = {f.name: given[f.name] for f in fields(self.algorithm) if not _same(given[f.name], f.default)}
        if self._core.names != tuple(self.algorithm.names):
            differing = {k: v for k, v in differing.items() if k != "n_arms"} | {"arms": list(self._core.names)}
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in differing.items())})"

    def _reward(self, reward: float) -> float:
        value = float(reward) if isinstance(reward, float) else as_float(reward)
        if not abs(value) < LARGEST:
            raise ValueError(f"a reward must be finite and below {LARGEST:g} in absolute value, got {value!r}")
        return value


def _core(names: tuple[Hashable, ...], state: Any, pulls: Ints, rounds: int) -> Core:
    return Core(names, {name: index for index, name in enumerate(names)}, state, pulls, rounds)


def _iterable(arms: Any) -> Iterable[Hashable]:
    if not isinstance(arms, Iterable) or isinstance(arms, bytes | set | frozenset):
        arm_names(arms)
    return arms  # type: ignore[no-any-return]


def _same(given: Any, default: Any) -> bool:
    return given is default or (type(given) is type(default) and bool(np.all(given == default)))
