"""``lim2.Bandit``: an encoder and an agent in one object. It takes dictionaries and returns names."""

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from lim2 import batches
from lim2.agent import Agent
from lim2.agents import AGENTS
from lim2.arms import arm_names
from lim2.bandit.deciding import NAME, Encoding, Learned, RawDecider, RawDecision, RawItems, item_of, with_key
from lim2.bandit.lessons import Lessons, check_position, encoded, lessons
from lim2.batches import Progress, Size
from lim2.decision import Slate
from lim2.encoding import Encoder
from lim2.evaluation import evaluate
from lim2.evaluation.evaluate import Evaluation
from lim2.exploration.epsilon import LOGGED
from lim2.info import Info
from lim2.items import ItemAgent
from lim2.log import DecisionLog, LogError, Proof
from lim2.log.ids import position_named
from lim2.state import Write, put
from lim2.warm_start import raw_of

# The default encoders: for contexts alone, and for contexts and items together, where width costs more.
CONTEXT, BESIDE_ITEMS = Encoder(), Encoder(buckets=32)


class Bandit(RawDecider):
    """Contextual bandit over raw data: call ``decide``, observe a reward, call ``update``.

    Contexts and items are dictionaries, dataclasses or rows of data frames. They may be nested and hold strings,
    numbers, booleans, None, lists, dates and times. You declare, scale and impute nothing. New keys may appear at any
    time, and the order of keys does not matter. There are three ways to define the choices:

    - ``Bandit(arms=["spring", "shoes"])``: a few arms. Each arm has its own posterior.
    - ``Bandit()``: a catalogue. Pass the items with every call, as ``items={name: features}``. All items share one
      posterior, so a new item has a score at once. Add a key such as ``"id"`` to the features if the bandit should
      also learn about each item individually.
    - ``Bandit(arms={"spring": {"price": 9.9}, ...})``: a few arms with features. They share one posterior, and the
      bandit also learns about each arm individually.

    Use a bandit in one thread at a time. Only :meth:`snapshot` and :meth:`save` may be called while another thread
    updates it.

    Parameters
    ----------
    arms
        Names of the arms, or a mapping from name to features. None: items are passed with every call.
    algorithm
        Learning algorithm: a name in ``lim2.AGENTS``, or a function that makes an agent, such as ``lim2.LinearTS``.
    encoder
        Encoder of contexts: a :class:`lim2.encoding.Encoder`, or declared :class:`lim2.encoding.Columns`. None: an
        Encoder with default settings, or with 32 buckets if there are items.
    item_encoder
        Encoder of items. None: an Encoder with 32 buckets.
    log
        A :class:`lim2.DecisionLog`, or its path. The bandit then records its decisions, and rewards may arrive late.
        It first learns the rewards that are already in the log.
    epsilon
        Share of decisions that are drawn uniformly among the eligible arms or items, so that the log can be evaluated.
        None: 0.03 with ``log``; without, that of the algorithm, which is 0.
    seed
        Seed of the random streams. The same seed and inputs give the same decisions.
    **settings
        Further settings of the algorithm, such as ``initial_pulls``.

    Examples
    --------
    >>> import lim2
    >>> bandit = lim2.Bandit(arms=["spring", "shoes", "gift card"], seed=0)
    >>> decision = bandit.decide({"country": "AT", "age": 31, "basket": {"items": 3, "total": 80.5}, "device": None})
    >>> decision.arm, decision.propensity
    ('spring', 1.0)
    >>> bandit.update(decision, reward=1.0)

    A catalogue:

    >>> shop = lim2.Bandit(seed=0)
    >>> items = {"sku1": {"price": 9.9, "tags": ["new", "red"]}, "sku2": {"price": 120, "tags": ["red"]}}
    >>> for _ in range(60):
    ...     decision = shop.decide({"budget": "small"}, items)
    ...     shop.update(decision, reward=float(decision.arm == "sku1"))
    >>> shop.decide({"budget": "small"}, items).arm, shop.rank({"budget": "small"}, items).arms
    ('sku1', ('sku1', 'sku2'))
    """

    _inner: Agent | ItemAgent
    _numbered = 0  # the latest decision

    def __init__(
        self,
        arms: Iterable[Hashable] | Mapping[Hashable, Any] | None = None,
        *,
        algorithm: str | Callable[..., Any] = "AdaptiveTS",
        encoder: Encoding | None = None,
        item_encoder: Encoding | None = None,
        log: DecisionLog | str | os.PathLike[str] | None = None,
        epsilon: float | None = None,
        seed: int | None = None,
        **settings: Any,
    ) -> None:
        plain = arms is not None and not isinstance(arms, Mapping)
        own, of_items = encoder or (CONTEXT if plain else BESIDE_ITEMS), item_encoder or BESIDE_ITEMS
        make = _maker(algorithm)
        if epsilon is not None:
            settings["epsilon"] = epsilon
        if plain:
            if item_encoder is not None:
                raise ValueError("item_encoder is for items with features: leave it out, or pass arms={name: features}")
            inner = make(arms=arms, n_features=own.width, seed=seed, **settings)
        else:
            inner = make(n_features=own.width, n_item_features=of_items.width, seed=seed, **settings)
        if not isinstance(inner, Agent | ItemAgent):
            raise ValueError(
                f"algorithm must be a name in lim2.AGENTS or a function that makes a lim2 agent, got {algorithm!r}"
            )
        if log is not None and epsilon is None and not inner.epsilon:
            inner.epsilon = LOGGED
        encoders = (own, None if plain else of_items)
        learned = Learned(own.init(), None if plain else of_items.init(trusted=True))
        features = None
        if isinstance(arms, Mapping):
            features = {name: with_key(arms[name], NAME, name) for name in arm_names(arms)}
        super().__init__(inner, encoders, learned, features)
        if features is not None:
            self.encodable(features)
        self.log: DecisionLog | None = None
        if log is not None:
            self.attach(log)

    @classmethod
    def restored(
        cls,
        inner: Agent | ItemAgent,
        encoders: tuple[Encoding, Encoding | None],
        learned: Learned,
        features: Mapping[Hashable, Any] | None,
    ) -> Self:
        """Return a bandit with these parts and without a log; used by loading and copying."""
        bandit = object.__new__(cls)
        RawDecider.__init__(bandit, inner, encoders, learned, features)
        bandit.log = None
        return bandit

    # Deciding, with a log

    def decide(
        self,
        context: Any,
        items: RawItems | None = None,
        *,
        arms: Iterable[Hashable] | None = None,
        exploit: bool = False,
        joint: bool = False,
        id: str | None = None,
        key: str | None = None,
        metadata: Any = None,
    ) -> Any:
        """Choose an arm or an item for a context; record the decision if the bandit has a log.

        Parameters
        ----------
        context
            A dictionary, dataclass or row of a data frame; see :class:`lim2.encoding.Encoder` for the allowed values.
        items
            The candidates, as a mapping from name to features. Only for a bandit whose choices have features.
        arms
            Names of the eligible arms or items. None: all are eligible.
        exploit
            Choose the largest posterior mean: no exploration, no ``epsilon``, no random draw.
        joint
            Draw the scores of all items jointly, see :meth:`lim2.ItemAgent.act`. The decision then has no propensities.
            Not possible with a log.
        id
            With a log: unique ID of the decision. None: the log generates one.
        key
            With a log: key of the person concerned. :meth:`lim2.DecisionLog.erase` deletes all decisions with this key.
        metadata
            With a log: JSON value that is stored with the decision.

        Returns
        -------
        RawDecision or LoggedDecision
            The decision: ``decision.arm`` is the chosen name, ``decision.id`` its ID. With a log, a LoggedDecision.
        """
        if not self._logs(joint, id, key, metadata):
            return super().decide(context, items, arms=arms, exploit=exploit, joint=joint)
        eligible = None if arms is None else list(arms)
        made = super().decide(context, items, arms=eligible, exploit=exploit)
        assert self.log is not None
        candidates = self._candidates(items, eligible)
        return self.log.record(made, raw=context, raw_items=candidates, id=id, key=key, metadata=metadata, agent=self)

    def rank(
        self,
        context: Any,
        items: RawItems | None = None,
        k: int | None = None,
        *,
        arms: Iterable[Hashable] | None = None,
        exploit: bool = False,
        joint: bool = False,
        id: str | None = None,
        key: str | None = None,
        metadata: Any = None,
    ) -> Slate[Any]:
        """Rank arms or items, best first, with one decision per position; record the slate if the bandit has a log.

        Parameters
        ----------
        context, items, arms, exploit, joint, key, metadata
            The same as for :meth:`decide`.
        k
            Number of positions. None: one for each candidate.
        id
            With a log: unique ID of the slate. None: the log generates one.

        Returns
        -------
        Slate
            One decision per position. The propensity of each is the probability that its arm or item comes first.
        """
        if not self._logs(joint, id, key, metadata):
            return super().rank(context, items, k, arms=arms, exploit=exploit, joint=joint)
        eligible = None if arms is None else list(arms)
        made = super().rank(context, items, k, arms=eligible, exploit=exploit)
        candidates = self._candidates(items, eligible)
        assert self.log is not None
        return self.log.record_slate(
            made, raw=context, raw_items=candidates, id=id, key=key, metadata=metadata, agent=self
        )

    def _logs(self, joint: bool, *kept: Any) -> bool:
        """Return whether decisions are recorded; raise a ValueError if an argument does not fit."""
        if self.log is None and any(value is not None for value in kept):
            raise ValueError(
                "id, key and metadata need a decision log, and this bandit has none: make it with log='decisions.db'"
            )
        if self.log is not None and joint:
            raise ValueError(
                "joint=True gives no propensities, and a decision log needs them: leave out joint=True, or use no log"
            )
        return self.log is not None

    def _next_number(self) -> int:
        agent = self._inner.agent if isinstance(self._inner, ItemAgent) else self._inner
        newest = agent.algorithm.newest(agent._core.state)
        self._numbered = max(self._numbered, newest) + 1
        return self._numbered

    # Learning

    def update(self, decision: Any, reward: float | Mapping[Any, float]) -> None:
        """Learn the reward of a decision. With a log, record the reward and learn it from there.

        Parameters
        ----------
        decision
            The decision or slate that :meth:`decide` or :meth:`rank` returned.
        reward
            The reward; for a slate, rewards by position: ``{1: 0.0, "slot 2": 1.0}``.
        """
        if isinstance(decision, Slate) != isinstance(reward, Mapping):
            raise ValueError(
                f"reward must be a number for a decision, or a mapping by position for a slate, got {reward!r}"
            )
        if self.log is not None:
            self.reward(decision.id, reward)
            return
        if isinstance(decision, Slate):
            assert isinstance(reward, Mapping)
            self._update_slate(decision, reward)
        elif isinstance(decision, RawDecision):
            self._learn_decision(decision, reward, max(decision.position, 1))  # type: ignore[arg-type]
        else:
            raise ValueError(f"decision must be what decide or rank returned, got {type(decision).__name__}")

    def _update_slate(self, slate: Slate[Any], rewards: Mapping[Any, float]) -> None:
        positions = {position_named(key): value for key, value in rewards.items()}
        outside = [position for position in positions if position > len(slate)]
        if outside or len(positions) < len(rewards):
            raise ValueError(
                f"rewards must name each of the {len(slate)} positions at most once, got {dict(rewards)!r}"
            )
        with self._inner.all_or_nothing([(self.__dict__, "_learned", self._learned)]):
            for position, value in sorted(positions.items()):
                self._learn_decision(slate[position - 1], value, position)

    def _learn_decision(self, decision: Any, reward: float, position: int) -> None:
        """Learn the reward of a decision, in the order of decisions."""
        self._inner.refuse_beside_log()
        context, arm, item, decided = decision.context, decision.arm, item_of(decision), decision.number or None
        self.learn_logged(context, arm, reward, (), item=item, position=position, decided=decided)

    def learn(self, context: Any, arm: Hashable, reward: float, *, item: Any = None, position: int = 1) -> None:
        """Learn one reward without a decision object, for example from historical data.

        Parameters
        ----------
        context
            The raw context.
        arm
            Name of the arm or item that was chosen.
        reward
            Its reward.
        item
            Raw features of the chosen item. None: it has no features, or the bandit knows them.
        position
            Position in a slate, counted from 1.

        Examples
        --------
        >>> import lim2
        >>> bandit = lim2.Bandit(arms=["spring", "shoes"], seed=0)
        >>> bandit.learn({"country": "AT"}, "shoes", 1.0)
        >>> bandit.rounds
        1
        """
        self._inner.refuse_beside_log()
        self.learn_logged(context, arm, reward, (), item=item, position=position)

    def learn_logged(
        self,
        context: Any,
        arm: Hashable,
        reward: float,
        also: Iterable[Write],
        *,
        item: Any = None,
        position: int = 1,
        decided: int | None = None,
    ) -> None:
        """Learn a reward from a log, as :meth:`learn` does; set ``also``, its log position, in the same step."""
        check_position(position)
        known, inner = self._learned, self._inner
        sources = self._sources(context, arm, item, position)
        moved = [encoder.observe(value, raw) for _, raw, encoder, value in sources]
        vectors = [encoder.encode(value, raw) for (_, raw, encoder, _), value in zip(sources, moved, strict=True)]
        new = Learned(*moved) if len(moved) == 2 else known._replace(context=moved[0])
        writes = [(self.__dict__, "_learned", new), *also]  # with the agent's new state, in one step
        if isinstance(inner, ItemAgent):
            inner.learn_row(inner.joined(vectors[0], vectors[1][None])[0], reward, writes, decided)
        else:
            inner.learn_row(vectors[0], arm, reward, writes, decided)

    def learn_many(
        self,
        contexts: Iterable[Any],
        arms: Iterable[Hashable],
        rewards: ArrayLike,
        *,
        items: Iterable[Any] | None = None,
        positions: Iterable[int] | None = None,
        batch: Size = 1,
        progress: Progress | None = None,
    ) -> int:
        """Learn many rewards: all of them or, if one fails, none. Return their number.

        Parameters
        ----------
        contexts, arms, rewards, items, positions
            The same as for :meth:`learn`, one entry per reward.
        batch
            Number of rewards learned in one update, see :meth:`lim2.Agent.update_many`. The encoder first observes all
            contexts of a batch and then encodes them.
        progress
            Called after every batch as ``progress(done, total)``.

        Examples
        --------
        >>> import lim2
        >>> bandit = lim2.Bandit(arms=["spring", "shoes"], seed=0)
        >>> bandit.learn_many([{"age": 31}, {"age": 55}], ["spring", "shoes"], [1.0, 0.0])
        2
        """
        self._inner.refuse_beside_log()
        size = batches.checked(batch, self.batches, self._inner.algorithm.no_batches)
        given = lessons(contexts, arms, rewards, items, positions)
        n = len(given.rewards)
        with self._inner.all_or_nothing([(self.__dict__, "_learned", self._learned)]):
            for rows in batches.slices(n, size, self.rounds):
                self._learn_batch(given.part(rows), ())
                if progress is not None:
                    progress(rows.stop, n)
        return n

    def learn_logged_many(
        self,
        contexts: Iterable[Any],
        arms: Iterable[Hashable],
        rewards: ArrayLike,
        also: Iterable[Write],
        *,
        items: Iterable[Any] | None = None,
        positions: Iterable[int] | None = None,
        decided: Sequence[int] | None = None,
    ) -> None:
        """Learn rewards from a log as one batch; set ``also``, the log position of the last, in the same step."""
        self._learn_batch(lessons(contexts, arms, rewards, items, positions), also, decided)

    def _learn_batch(self, given: Lessons, also: Iterable[Write], decided: Sequence[int] | None = None) -> None:
        """Learn one batch: first update the encoders, then the agent; assign all new values in one step."""
        if not len(given.rewards):
            put(also)
            return
        rows = zip(given.contexts, given.arms, given.items, given.positions, strict=True)
        moved, vectors = encoded([self._sources(*row) for row in rows])
        new = Learned(*moved) if len(moved) == 2 else self._learned._replace(context=moved[0])
        inner = self._inner.agent if isinstance(self._inner, ItemAgent) else self._inner
        arms = [0] * len(vectors) if isinstance(self._inner, ItemAgent) else given.arms
        inner.learn_logged_many(vectors, arms, given.rewards, [(self.__dict__, "_learned", new), *also], decided)

    def warm_start(self, table: Any, batch: Size = "auto", progress: Progress | None = None) -> int:
        """Learn all rewards of a table with raw contexts, as :meth:`lim2.Agent.warm_start` does. Return their number.

        Parameters
        ----------
        table, batch, progress
            The same as for :meth:`lim2.Agent.warm_start`.

        Returns
        -------
        int
            Number of rewards learned.
        """
        contexts, arms, rewards, items = raw_of(table, self._encoders[1] is not None)
        return self.learn_many(contexts, arms, rewards, items=items, batch=batch, progress=progress)

    def reward(self, id: str, reward: float | Mapping[Any, float]) -> Any:
        """Record the reward of a logged decision, or of a slate's positions, and learn all rewards that have arrived.

        Parameters
        ----------
        id
            ID of the decision or slate.
        reward
            The reward; for a slate ``{"slot 2": 1.0}`` or ``{2: 1.0}``.

        Returns
        -------
        str or dict
            ``"recorded"``, ``"duplicate"``, ``"late"`` or ``"ignored"``, see :meth:`lim2.DecisionLog.reward`. For a
            slate: a mapping from position to one of these.

        Examples
        --------
        >>> import tempfile, lim2
        >>> with tempfile.TemporaryDirectory() as folder, lim2.DecisionLog(f"{folder}/decisions.db") as log:
        ...     bandit = lim2.Bandit(arms=["spring", "shoes"], seed=0, log=log)
        ...     decision = bandit.decide({"country": "AT"})
        ...     bandit.reward(decision.id, 1.0), bandit.rounds
        ('recorded', 1)
        """
        log = self._logged("reward")
        status = log.reward(id, reward)
        log.apply(self)
        return status

    def attach(self, log: DecisionLog | str | os.PathLike[str]) -> None:
        """Use a log from now on, and learn its rewards that the bandit has not learned yet. ``epsilon`` stays as it is.

        Parameters
        ----------
        log
            A :class:`lim2.DecisionLog`, or its path, which opens it with default settings.
        """
        opened = log if isinstance(log, DecisionLog) else DecisionLog(Path(log))
        opened.apply(self)
        self.log = opened

    def evaluate(self, policy: Any = None, **options: Any) -> Evaluation:
        """Estimate from the log what a policy would have earned; see :func:`lim2.evaluate`.

        Parameters
        ----------
        policy
            A bandit, a snapshot of one, or a function of context and candidates. None: this bandit as it is now.
        **options
            Further arguments of :func:`lim2.evaluate`.
        """
        return evaluate(self._logged("evaluate"), self.snapshot() if policy is None else policy, **options)

    def proof(self, against: Any, **options: Any) -> Proof:
        """Compare the logged decisions with a rule, by an interval that is valid however often one looks at it.

        Parameters
        ----------
        against
            The rule, as for :meth:`lim2.DecisionLog.proof`.
        **options
            Further arguments of :meth:`lim2.DecisionLog.proof`.
        """
        return self._logged("proof").proof(against, **options)

    def _logged(self, what: str) -> DecisionLog:
        if self.log is None:
            raise LogError(f"{what} needs a decision log: make the bandit with log='decisions.db', or call attach")
        return self.log

    # Arms

    def add_arm(
        self, name: Hashable, like: Hashable | None = None, *, features: Any = None, also: Iterable[Write] = ()
    ) -> None:
        """Add an arm, and record the change if the bandit has a log.

        Parameters
        ----------
        name
            Name of the new arm.
        like
            For arms without features: name of an arm to copy, see :meth:`lim2.Agent.add_arm`.
        features
            For arms with features: features of the new arm.
        also
            Assignments made together with the change; used by a log.

        Examples
        --------
        >>> import lim2
        >>> bandit = lim2.Bandit(arms=["spring", "shoes"], seed=0)
        >>> bandit.add_arm("gift card", like="shoes")
        >>> bandit.arms
        ('spring', 'shoes', 'gift card')
        """
        if self.log is not None and not also:
            self.log.add_arm(self, name, like, features=features)
            return
        if isinstance(self._inner, Agent):
            if features is not None:
                raise ValueError("the arms of this bandit have no features: leave out features=")
            self._inner.add_arm(name, like, also=also)
            return
        if self._features is None:
            raise ValueError("this bandit has no arms to add to: pass the item in items= of the next call")
        if like is not None or features is None:
            raise ValueError(
                f"the arms of this bandit have features: give the new arm features= and leave out like=, "
                f"got features={features!r} and like={like!r}"
            )
        names = arm_names((*self._features, name))
        new = self.encodable({**self._features, names[-1]: with_key(features, NAME, names[-1])})
        put([(self.__dict__, "_features", new), *also])

    def remove_arm(self, name: Hashable, *, also: Iterable[Write] = ()) -> None:
        """Remove an arm, and record the change if the bandit has a log. Shared parameters stay as they are.

        Parameters
        ----------
        name
            Name of the arm.
        also
            Assignments made together with the change; used by a log.
        """
        if self.log is not None and not also:
            self.log.remove_arm(self, name)
        elif isinstance(self._inner, Agent):
            self._inner.remove_arm(name, also=also)
        elif self._features is None:
            raise ValueError("this bandit has no arms to remove: leave the item out of items= in the next call")
        elif name not in list(self._features) or len(self._features) == 1:  # a list, for what is not hashable
            raise ValueError(
                f"cannot remove {name!r}: name one of the arms {list(self._features)!r}, of which one must remain"
            )
        else:
            left = {key: value for key, value in self._features.items() if key != name}
            put([(self.__dict__, "_features", left), *also])

    def encodable(self, features: dict[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the arms' features unchanged; raise a ValueError if they cannot be encoded."""
        self._rows(np.zeros(self._encoders[0].width), features)
        return features

    # Copies and files

    def snapshot(self) -> RawDecider:
        """Return a read-only copy that other threads can decide with while this bandit learns; it has no log."""
        while True:
            learned, inner = self._learned, self._inner.snapshot()
            if self._learned is learned:  # of one moment
                features = self._features
                return RawDecider(inner, self._encoders, learned, features)

    def copy(self) -> Self:
        """Return an independent copy, random streams included, without a log."""
        return type(self).restored(self._inner.copy(), self._encoders, self._learned, self._features)

    def clone(self) -> Self:
        """Return a new, untrained bandit with the same settings, without a log."""
        own, of_items = self._encoders
        learned = Learned(own.init(), None if of_items is None else of_items.init(trusted=True))
        return type(self).restored(self._inner.clone(), self._encoders, learned, self._features)

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __getstate__(self) -> dict[str, Any]:  # for pickle
        return {**self.copy().__dict__, "log": None}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the bandit to a file atomically; :func:`lim2.load` reads it. The log is not saved with it.

        Parameters
        ----------
        path
            Path of the file, in an existing folder. An existing file is replaced.
        """
        from lim2.persistence.files import write

        write(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the bytes that :meth:`save` would write; :func:`lim2.from_bytes` reads them."""
        from lim2.bandit.files import dump  # here, because it makes bandits, too

        return dump(self)

    # Properties

    @property
    def agent(self) -> Agent | ItemAgent:
        """The agent inside the bandit, which takes vectors."""
        return self._inner

    @property
    def epsilon(self) -> float:
        """Share of decisions that are drawn uniformly; another one holds from then on."""
        return self._inner.epsilon

    @epsilon.setter
    def epsilon(self, epsilon: float) -> None:
        self._inner.epsilon = epsilon

    @property
    def batches(self) -> bool:
        """Whether the algorithm can learn several rewards in one update."""
        return self._inner.batches

    @property
    def info(self) -> Info | None:
        """Diagnostics of the latest update; None before the first update, and in a copy."""
        return self._inner.info

    @property
    def nbytes(self) -> int:
        """Size of the agent's state in bytes."""
        return self._inner.nbytes

    def __repr__(self) -> str:
        shown = {} if self.arms is None else {"arms": list(self.arms)}
        parts = [f"{name}={value!r}" for name, value in {**shown, "algorithm": self._inner.name}.items()]
        return f"Bandit({', '.join(parts)}, rounds={self.rounds})"


def _maker(algorithm: str | Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that makes the agent."""
    if callable(algorithm):
        return algorithm
    if algorithm not in AGENTS:
        known = ", ".join(AGENTS)
        raise ValueError(f"algorithm must be one of {known}, or a function such as lim2.LinearTS, got {algorithm!r}")
    return AGENTS[algorithm]
