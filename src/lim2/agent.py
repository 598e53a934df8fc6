"""The shell around every algorithm: it names the arms, holds the random streams, learns, and swaps states whole.

It is the only mutable thing. A state is a value (``state.py``), so an update that fails has changed nothing, and a
snapshot is a reference. How it decides is in ``deciding.py``.
"""

import copy
import logging
import os
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
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
from lim2.algorithms.base import Algorithm, check_floor
from lim2.arms import arm_names
from lim2.batches import Progress, Size
from lim2.checks import LARGEST, as_float, as_floats, plain
from lim2.deciding import Core, Decider
from lim2.info import Info
from lim2.snapshot import Snapshot
from lim2.state import Array, Ints
from lim2.streams import Streams

_logger = logging.getLogger("lim2")


class Agent(Decider):
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
        algorithm = plain(algorithm)
        algorithm.validate()
        names = tuple(algorithm.names)
        self._begin(algorithm, Streams(algorithm.seed))
        state = algorithm.init(len(names), self._streams.init)
        self._core = _core(names, state, np.zeros(len(names), dtype=np.intp), 0)
        self._asked = np.zeros(len(names), dtype=np.intp)  # decisions for each arm made by taking turns
        self._starting = algorithm.turns > 0

    def _begin(self, algorithm: Algorithm, its_streams: Streams) -> None:
        self._set_up(algorithm, its_streams)
        self.metadata: dict[str, Any] = {}
        self._shared = False  # whether somebody else has this very state
        self._drawn: tuple[Any, Any] = (None, None)  # the round of the latest update, and where its stream was

    # Learning

    def update(self, context: ArrayLike, arm: Hashable, reward: float) -> None:
        """Learn from the reward that an arm earned in a context; it need not follow the ``act`` that chose it."""
        self.refuse_beside_log()
        self._learn(self._context(context), self._arm(arm), self._reward(reward))

    def update_many(self, contexts: ArrayLike, arms: Iterable[Hashable], rewards: ArrayLike, batch: Size = 1) -> None:
        """Learn from many rewards: from all of them or, if one fails, from none.

        Parameters
        ----------
        contexts, arms, rewards
            (n, n_features), n names and (n,): a row, an arm and a reward each.
        batch
            How many rewards are learned by one update. 1: each by one of its own, as a loop over :meth:`update` would.
            ``"auto"``: an eighth of the rounds so far, at most 256; where :attr:`batches` is False, 1. A batch takes
            far less time, see ``docs/batches.md``.

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
        """Learn a table of logged rewards, in order and at full speed; all of it or, if anything fails, nothing.

        Parameters
        ----------
        table
            A ``lim2.log.Table``, or a :class:`lim2.DecisionLog`, which counts as its table. Other than after
            ``log.apply(agent)``, the agent has no position in the log afterwards.
        batch
            As for :meth:`update_many`.
        progress
            Called after every batch as ``progress(done, total)``.

        Returns
        -------
        int
            How many rewards were learned.

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
        """Return contexts, indices of arms and rewards that are known to be right."""
        xs = self._contexts(contexts)
        if isinstance(arms, str) or not isinstance(arms, Iterable) or (isinstance(arms, np.ndarray) and not arms.ndim):
            raise ValueError(f"arms must be {len(xs)} arms, one per context, got {arms!r}")
        played = arms.tolist() if isinstance(arms, np.ndarray) else list(arms)
        if len(played) != len(xs):
            raise ValueError(f"arms must be {len(xs)} arms, one per context, got {len(played)}")
        indices = np.fromiter(map(self._arm, played), dtype=np.intp, count=len(xs))
        earned = as_floats(rewards, "rewards")
        if earned.shape != (len(xs),):
            raise ValueError(f"rewards must be {len(xs)} numbers, one per context, got shape {earned.shape}")
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
        """Learn from all rewards, in batches, or from none; return how many there were."""
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
        """Learn several rewards; if anything fails meanwhile, none of them is learned, and ``also`` is written."""
        before, position, self._shared = self._core, self._streams.learn.bit_generator.state, True
        undone = [(self.__dict__, "_core", before), (self.__dict__, "_shared", True), *also]
        try:
            yield
        except BaseException:
            with streams.lock:
                deque(starmap(setitem, undone), maxlen=0)  # one call: nobody sees a part of it
            self._streams.learn.bit_generator.state = position
            raise

    def learn_row(self, context: NDArray[Any], arm: Hashable, reward: float, also: Iterable[trees.Write] = ()) -> None:
        """Learn from a vector that is known to be right; ``also`` is written together with the new state."""
        self._learn(context, self._arm(arm), self._reward(reward), also)

    def learn_logged(self, context: ArrayLike, arm: Hashable, reward: float, also: Iterable[trees.Write]) -> None:
        """Learn from a reward of a log, as :meth:`update` does; ``also``, its position, is written with it."""
        self._learn(self._context(context), self._arm(arm), self._reward(reward), also)

    def learn_logged_many(
        self, contexts: ArrayLike, arms: Iterable[Hashable], rewards: ArrayLike, also: Iterable[trees.Write]
    ) -> None:
        """Learn from rewards of a log as one batch; ``also``, the position of the last, is written with it."""
        self.learn_rows(*self._checked(contexts, arms, rewards), also)

    def learn_rows(self, contexts: NDArray[Any], arms: Ints, rewards: Array, also: Iterable[trees.Write] = ()) -> None:
        """Learn one batch of what is known to be right, arms as indices; ``also`` is written with the new state.

        A batch of one reward is learned as :meth:`update` does, bit for bit.
        """
        if len(rewards) == 1:
            self._learn(contexts[0], int(arms[0]), float(rewards[0]), also)
        elif not self.batches:
            raise ValueError(f"{self.algorithm.no_batches}, got {len(rewards)} rewards")
        elif len(rewards):
            counts = np.bincount(arms)
            pulled = np.flatnonzero(counts), counts[counts > 0]
            self._advance(self.algorithm.learn_many, (contexts, arms, rewards), int(arms[-1]), pulled, also)
        else:
            trees.put(also)

    def refuse_beside_log(self) -> None:
        """Raise a ValueError if the agent learns from a log, which would give it the same reward again."""
        if "log_id" in self.metadata:
            raise ValueError(
                "this agent learns from a decision log: record the reward by log.reward(id, reward), and "
                "log.apply(agent) learns it. To go on without the log, delete log_id, log_position and log_event from "
                "agent.metadata."
            )

    def _learn(self, context: NDArray[Any], arm: int, reward: float, also: Iterable[trees.Write] = ()) -> None:
        """Learn from one reward."""
        self._advance(self.algorithm.learn, (context, arm, reward), arm, (arm, 1), also)

    def _advance(
        self, learn: Callable[..., Any], seen: tuple[Any, ...], arm: int, pulled: Any, also: Iterable[trees.Write]
    ) -> None:
        """Swap the state for the one after an update, and write ``also`` with it; if it fails, nothing has happened.

        Parameters
        ----------
        learn, seen
            A function of the algorithm, and what it learns from.
        arm
            The latest.
        pulled
            The arms that were played, and how often each was.
        also
            What is written with it.
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
                                f"a row of shape {np.shape(row)} does not fit {array.shape}: of {self.name}"
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
        """Copy a state that somebody else has, too."""
        with streams.lock:
            core = self._core
            self._core = core._replace(state=trees.copied(core.state), pulls=core.pulls.copy())
            self._shared = False
            return self._core

    def add_arm(self, name: Hashable, like: Hashable | None = None, *, also: Iterable[trees.Write] = ()) -> None:
        """Add a new arm, which is owed its ``initial_pulls`` like the others at the start.

        Parameters
        ----------
        name
            What it is called.
        like
            An arm to start as: its beliefs, its part of the network and, as far as there is room, its tuples in memory
            are copied. None: start from the prior. Either way nothing changes for the other arms, except that the
            network is shared.
        also
            Written together with the change; for a log.
        """
        core = self._core
        names = arm_names((*core.names, name))
        source = None if like is None else self._arm(like)
        check_floor(self._floor, len(names))
        rng = copy.deepcopy(self._streams.init)
        with one_thread:
            new = trees.copied(self.algorithm.add_arm(core.state, source, rng))
        pulls, asked = trees.with_row(core.pulls, 0), trees.with_row(self._asked, 0)
        self._change_arms(_core(names, new, pulls, core.rounds), asked, rng, also)

    def remove_arm(self, name: Hashable, *, also: Iterable[trees.Write] = ()) -> None:
        """Forget an arm: its beliefs, its part of the network and its tuples in memory."""
        core, arm = self._core, self._arm(name)
        if len(core.names) == 1:
            raise ValueError(f"{name!r} is the only arm: an agent needs at least one")
        names = core.names[:arm] + core.names[arm + 1 :]
        with one_thread:
            new = trees.copied(self.algorithm.remove_arm(core.state, arm))
        pulls, asked = trees.without_row(core.pulls, arm), trees.without_row(self._asked, arm)
        self._change_arms(_core(names, new, pulls, core.rounds), asked, also=also)

    def _change_arms(
        self, core: Core, asked: Ints, rng: np.random.Generator | None = None, also: Iterable[trees.Write] = ()
    ) -> None:
        """Swap core, turns and, where a new arm was drawn, the stream that it was drawn from; all in one call."""
        starting = bool((self.algorithm.turns - np.maximum(asked, core.pulls)).max() > 0)
        changes = {"_core": core, "_asked": asked, "_starting": starting, "_shared": False}
        writes: list[trees.Write] = [(self.__dict__, name, value) for name, value in changes.items()]
        writes.append((self._streams.__dict__, "init", self._streams.init if rng is None else rng))
        writes.extend(also)
        with streams.lock:
            deque(starmap(setitem, writes), maxlen=0)

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
        with streams.lock:
            self._shared = True
            return Snapshot(self.__dict__)

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
        from lim2.persistence.files import write

        write(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return what :meth:`save` would write; :func:`lim2.from_bytes` makes an agent of it."""
        from lim2.loading import dump  # here, because it knows all algorithms

        return dump(self)

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
        with streams.lock:  # no update ends meanwhile
            self._shared = True
            core, asked, positions = self._core, self._asked.copy(), self._streams.positions()
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
    def batches(self) -> bool:
        """Whether several rewards can be learned by one update."""
        return self.algorithm.batches

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
        if self._core.names != tuple(self.algorithm.names):
            differing = {k: v for k, v in differing.items() if k != "n_arms"} | {"arms": list(self._core.names)}
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in differing.items())})"

    def _reward(self, reward: float) -> float:
        value = float(reward) if isinstance(reward, float) else as_float(reward)
        if not abs(value) < LARGEST:
            raise ValueError(f"a reward must be finite and smaller than {LARGEST:g}, got {value!r}")
        return value


def _core(names: tuple[Hashable, ...], state: Any, pulls: Ints, rounds: int) -> Core:
    return Core(names, {name: index for index, name in enumerate(names)}, state, pulls, rounds)


def _iterable(arms: Any) -> Iterable[Hashable]:
    if not isinstance(arms, Iterable) or isinstance(arms, bytes | set | frozenset):
        arm_names(arms)
    return arms  # type: ignore[no-any-return]


def _same(given: Any, default: Any) -> bool:
    return given is default or (type(given) is type(default) and bool(np.all(given == default)))
