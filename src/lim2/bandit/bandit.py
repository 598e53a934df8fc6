"""``lim2.Bandit``: dictionaries in, names out. An encoder and the recommended agent, in one object and one file."""

import os
from collections.abc import Callable, Hashable, Iterable, Mapping
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
from lim2.info import Info
from lim2.items import ItemAgent
from lim2.log import DecisionLog, LogError
from lim2.log.slates import position_named
from lim2.state import Write, put
from lim2.warm_start import raw_of

# Unless others are given: of contexts, and of contexts and items side by side, where width costs more.
CONTEXT, BESIDE_ITEMS = Encoder(), Encoder(buckets=32)


class Bandit(RawDecider):
    """A contextual bandit over raw data: ``decide``, get a reward, ``update``.

    Contexts and items are dictionaries, dataclasses or rows of data frames, nested or not: strings, numbers, truth
    values, None, lists, dates and times. Nothing is declared, scaled or filled in, new keys may come at any time, and
    the order of keys does not matter. What is chosen from has one of three forms:

    - ``Bandit(arms=["spring", "shoes"])``: a few arms. Each has a belief of its own.
    - ``Bandit()``: a catalogue. Items come with every call, as ``items={name: features}``, and share one belief, so an
      item that was never seen has a score, too. Give items a key such as ``"id"`` if each should also have a part of
      its own.
    - ``Bandit(arms={"spring": {"price": 9.9}, ...})``: a few arms with features. They share one belief, and each has a
      part of its own.

    A bandit belongs to one thread, except that :meth:`snapshot` and :meth:`save` may be called while another updates
    it.

    Parameters
    ----------
    arms
        Names of the arms, or their features by name. None: items come with every call.
    algorithm
        What learns: the name of one of ``lim2.AGENTS``, or its maker, e.g. ``lim2.LinearTS``.
    encoder, item_encoder
        How contexts and items become vectors: a :class:`lim2.encoding.Encoder`, or declared
        :class:`lim2.encoding.Columns`. None: an Encoder with its usual settings; with items one with 32 buckets for
        each of the two.
    log
        A :class:`lim2.DecisionLog`, or the path of one: decisions are written down, and rewards may come late. The
        bandit first learns what the log holds.
    seed
        The same seed and inputs give the same decisions.
    **settings
        Further settings of the algorithm, such as ``min_propensity``.

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

    def __init__(
        self,
        arms: Iterable[Hashable] | Mapping[Hashable, Any] | None = None,
        *,
        algorithm: str | Callable[..., Any] = "AdaptiveTS",
        encoder: Encoding | None = None,
        item_encoder: Encoding | None = None,
        log: DecisionLog | str | os.PathLike[str] | None = None,
        seed: int | None = None,
        **settings: Any,
    ) -> None:
        plain = arms is not None and not isinstance(arms, Mapping)
        own, of_items = encoder or (CONTEXT if plain else BESIDE_ITEMS), item_encoder or BESIDE_ITEMS
        make = _maker(algorithm)
        if plain:
            if item_encoder is not None:
                raise ValueError("item_encoder is for items; these arms have no features: give arms={name: features}")
            inner = make(arms=arms, n_features=own.width, seed=seed, **settings)
        else:
            inner = make(n_features=own.width, n_item_features=of_items.width, seed=seed, **settings)
        if not isinstance(inner, Agent | ItemAgent):
            raise ValueError(f"algorithm must be the name or the maker of an agent of lim2, got {algorithm!r}")
        encoders = (own, None if plain else of_items)
        learned = Learned(own.init(), None if plain else of_items.init())
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
        """Return the bandit that has these parts, without a log. Loading and copying end here."""
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
        """Choose an arm or an item for a context; with a log, write the decision down.

        Parameters
        ----------
        context, items, arms, exploit, joint
            As for :meth:`lim2.bandit.RawDecider.decide`.
        id
            With a log: a name of your own for the decision, used once. None makes one.
        key, metadata
            With a log: of the person whom it is about, by which :meth:`lim2.DecisionLog.erase` finds it, and what else
            is to be kept with it, as JSON.

        Returns
        -------
        RawDecision or LoggedDecision
            ``decision.arm`` is the name of what was chosen, ``decision.id`` names the decision. The second kind with a
            log.
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
        """Order arms or items, the best first: a decision per position; with a log, write the slate down.

        Parameters
        ----------
        context, items, k, arms, exploit, joint
            As for :meth:`lim2.bandit.RawDecider.rank`.
        id
            With a log: a name of your own for the slate, used once. None makes one.
        key, metadata
            As for :meth:`decide`.
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
        """Return whether decisions are written down; a ValueError if what is asked for does not go with that."""
        if self.log is None and any(value is not None for value in kept):
            raise ValueError(
                "a name of your own, a key and metadata are for a decision that is logged: give the bandit a log"
            )
        if self.log is not None and joint:
            raise ValueError("joint draws have no propensities, which a log keeps: leave out joint=True, or the log")
        return self.log is not None

    # Learning

    def update(self, decision: Any, reward: float | Mapping[Any, float]) -> None:
        """Learn what a decision has earned. With a log, it is written down, and learned from there.

        Parameters
        ----------
        decision
            What :meth:`decide` or :meth:`rank` returned.
        reward
            What it earned; for a slate, rewards by position: ``{1: 0.0, "slot 2": 1.0}``.
        """
        if isinstance(decision, Slate) != isinstance(reward, Mapping):
            raise ValueError(f"a decision has one reward, a slate has rewards by position, got {reward!r}")
        if self.log is not None:
            self.reward(decision.id, reward)
            return
        if isinstance(decision, Slate):
            assert isinstance(reward, Mapping)
            self._update_slate(decision, reward)
        elif isinstance(decision, RawDecision):
            self.learn(decision.context, decision.arm, reward, item=decision.item, position=max(decision.position, 1))  # type: ignore[arg-type]
        else:
            raise ValueError(f"update takes what decide or rank returned, got {type(decision).__name__}")

    def _update_slate(self, slate: Slate[Any], rewards: Mapping[Any, float]) -> None:
        positions = {position_named(key): value for key, value in rewards.items()}
        outside = [position for position in positions if position > len(slate)]
        if outside or len(positions) < len(rewards):
            raise ValueError(
                f"rewards must name each of the {len(slate)} positions at most once, got {dict(rewards)!r}"
            )
        with self._inner.all_or_nothing([(self.__dict__, "_learned", self._learned)]):
            for position, value in sorted(positions.items()):
                entry = slate[position - 1]
                self.learn(entry.context, entry.arm, value, item=item_of(entry), position=position)

    def learn(self, context: Any, arm: Hashable, reward: float, *, item: Any = None, position: int = 1) -> None:
        """Learn the reward of one choice, given by what it was about, say from past data.

        Parameters
        ----------
        context
            The raw context.
        arm
            The name of what was chosen.
        reward
            What it earned.
        item
            The raw features of what was chosen, if it has any; None for an arm whose features the bandit knows.
        position
            In a slate, from 1.
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
    ) -> None:
        """Learn from a reward of a log, as :meth:`learn` does; ``also``, its position, is written with it."""
        check_position(position)
        known, inner = self._learned, self._inner
        sources = self._sources(context, arm, item, position)
        moved = [encoder.observe(value, raw) for _, raw, encoder, value in sources]
        vectors = [encoder.encode(value, raw) for (_, raw, encoder, _), value in zip(sources, moved, strict=True)]
        new = Learned(*moved) if len(moved) == 2 else known._replace(context=moved[0])
        writes = [(self.__dict__, "_learned", new), *also]  # with the agent's new state, in one step
        if isinstance(inner, ItemAgent):
            inner.learn_row(inner.joined(vectors[0], vectors[1][None])[0], reward, writes)
        else:
            inner.learn_row(vectors[0], arm, reward, writes)

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
        """Learn the rewards of many choices: of all or, if one fails, of none. Return how many there were.

        Parameters
        ----------
        contexts, arms, rewards, items, positions
            As for :meth:`learn`, one per reward.
        batch
            How many rewards are learned by one update, as for :meth:`lim2.Agent.update_many`. The contexts of a batch
            are encoded by what is known of their keys after all of them.
        progress
            Called after every batch as ``progress(done, total)``.
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
    ) -> None:
        """Learn from rewards of a log as one batch; ``also``, the position of the last, is written with it."""
        self._learn_batch(lessons(contexts, arms, rewards, items, positions), also)

    def _learn_batch(self, given: Lessons, also: Iterable[Write]) -> None:
        """Learn one batch: the encoders first, then the agent by what they know; all is written in one step."""
        if not len(given.rewards):
            put(also)
            return
        rows = zip(given.contexts, given.arms, given.items, given.positions, strict=True)
        moved, vectors = encoded([self._sources(*row) for row in rows])
        new = Learned(*moved) if len(moved) == 2 else self._learned._replace(context=moved[0])
        inner = self._inner.agent if isinstance(self._inner, ItemAgent) else self._inner
        arms = [0] * len(vectors) if isinstance(self._inner, ItemAgent) else given.arms
        inner.learn_logged_many(vectors, arms, given.rewards, [(self.__dict__, "_learned", new), *also])

    def warm_start(self, table: Any, batch: Size = "auto", progress: Progress | None = None) -> int:
        """Learn a table of logged rewards that has raw contexts, as :meth:`lim2.Agent.warm_start` does.

        Parameters
        ----------
        table, batch, progress
            As there.

        Returns
        -------
        int
            How many rewards were learned.
        """
        contexts, arms, rewards, items = raw_of(table, self._encoders[1] is not None)
        return self.learn_many(contexts, arms, rewards, items=items, batch=batch, progress=progress)

    def reward(self, id: str, reward: float | Mapping[Any, float]) -> Any:
        """Record the reward of a logged decision, or rewards of a slate's positions, and learn what has arrived.

        Parameters
        ----------
        id
            Of the decision or slate.
        reward
            What it earned; for a slate ``{"slot 2": 1.0}`` or ``{2: 1.0}``.

        Returns
        -------
        str or dict
            ``"recorded"``, ``"duplicate"`` or ``"late"``, see :meth:`lim2.DecisionLog.reward`.
        """
        log = self._logged("reward")
        outcome = log.reward(id, reward)
        log.apply(self)
        return outcome

    def attach(self, log: DecisionLog | str | os.PathLike[str]) -> None:
        """Use a log from now on, and learn what it holds that the bandit has not learned.

        Parameters
        ----------
        log
            A :class:`lim2.DecisionLog`, or the path of one, which then has the usual settings.
        """
        opened = log if isinstance(log, DecisionLog) else DecisionLog(Path(log))
        opened.apply(self)
        self.log = opened

    def evaluate(self, policy: Any = None, **options: Any) -> Evaluation:
        """Return what a policy would have earned where the log's decisions were made; see :func:`lim2.evaluate`.

        Parameters
        ----------
        policy
            A bandit, a snapshot of one, or a function of context and candidates. None: this bandit as it is.
        **options
            Of :func:`lim2.evaluate`.
        """
        return evaluate(self._logged("evaluate"), self.snapshot() if policy is None else policy, **options)

    def _logged(self, what: str) -> DecisionLog:
        if self.log is None:
            raise LogError(f"{what} needs a log: make the bandit with log='decisions.db', or attach one")
        return self.log

    # Arms

    def add_arm(
        self, name: Hashable, like: Hashable | None = None, *, features: Any = None, also: Iterable[Write] = ()
    ) -> None:
        """Add an arm: one like another, or with features where the others have some. With a log, it is written down.

        Parameters
        ----------
        name
            What it is called.
        like
            For arms without features: an arm to start as, see :meth:`lim2.Agent.add_arm`.
        features
            For arms with features: its own.
        also
            Written together with the change; for a log.
        """
        if self.log is not None and not also:
            self.log.add_arm(self, name, like, features=features)
            return
        if isinstance(self._inner, Agent):
            if features is not None:
                raise ValueError("the arms of this bandit have no features: leave them out")
            self._inner.add_arm(name, like, also=also)
            return
        if self._features is None:
            raise ValueError("the items of this bandit come with every call: there are no arms to add")
        if like is not None or features is None:
            raise ValueError(f"a new arm needs a name of its own and features=, got {name!r} and {features!r}")
        names = arm_names((*self._features, name))
        new = self.encodable({**self._features, names[-1]: with_key(features, NAME, names[-1])})
        put([(self.__dict__, "_features", new), *also])

    def remove_arm(self, name: Hashable, *, also: Iterable[Write] = ()) -> None:
        """Forget an arm; what all arms share stays. With a log, it is written down.

        Parameters
        ----------
        name
            Of the arm.
        also
            Written together with the change; for a log.
        """
        if self.log is not None and not also:
            self.log.remove_arm(self, name)
        elif isinstance(self._inner, Agent):
            self._inner.remove_arm(name, also=also)
        elif self._features is None:
            raise ValueError("the items of this bandit come with every call: there are no arms to remove")
        elif name not in list(self._features) or len(self._features) == 1:  # a list, for what is not hashable
            raise ValueError(f"{name!r} is no arm, or the only one: arms are {list(self._features)!r}")
        else:
            left = {key: value for key, value in self._features.items() if key != name}
            put([(self.__dict__, "_features", left), *also])

    def encodable(self, features: dict[Hashable, Any]) -> dict[Hashable, Any]:
        """Return features of arms; what cannot be encoded is refused now, not when one decides."""
        self._rows(np.zeros(self._encoders[0].width), features)
        return features

    # Copies and files

    def snapshot(self) -> RawDecider:
        """Return the bandit as it is now, to decide by in other threads while this one learns; it writes no log."""
        while True:
            learned, inner = self._learned, self._inner.snapshot()
            if self._learned is learned:  # of one moment
                features = self._features
                return RawDecider(inner, self._encoders, learned, features)

    def copy(self) -> Self:
        """Return a bandit that is the same and goes on by itself, without a log."""
        return type(self).restored(self._inner.copy(), self._encoders, self._learned, self._features)

    def clone(self) -> Self:
        """Return a fresh bandit with the same settings, without a log."""
        own, of_items = self._encoders
        learned = Learned(own.init(), None if of_items is None else of_items.init())
        return type(self).restored(self._inner.clone(), self._encoders, learned, self._features)

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __getstate__(self) -> dict[str, Any]:  # for pickle
        return {**self.copy().__dict__, "log": None}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the bandit to a file, whole or not at all; :func:`lim2.load` makes it again. A log is not part of it.

        Parameters
        ----------
        path
            Where to; its folder must exist. A file that is there is replaced.
        """
        from lim2.persistence.files import write

        write(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return what :meth:`save` would write; :func:`lim2.from_bytes` makes a bandit of it."""
        from lim2.bandit.files import dump  # here, because it makes bandits, too

        return dump(self)

    # What it says of itself

    @property
    def agent(self) -> Agent | ItemAgent:
        """The agent inside, which takes vectors."""
        return self._inner

    @property
    def batches(self) -> bool:
        """Whether several rewards can be learned by one update."""
        return self._inner.batches

    @property
    def info(self) -> Info | None:
        """What the latest update did; None before the first, and in a copy."""
        return self._inner.info

    @property
    def nbytes(self) -> int:
        """Bytes that the agent's state occupies."""
        return self._inner.nbytes

    def __repr__(self) -> str:
        shown = {} if self.arms is None else {"arms": list(self.arms)}
        parts = [f"{name}={value!r}" for name, value in {**shown, "algorithm": self._inner.name}.items()]
        return f"Bandit({', '.join(parts)}, rounds={self.rounds})"


def _maker(algorithm: str | Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes the agent."""
    if callable(algorithm):
        return algorithm
    if algorithm not in AGENTS:
        known = ", ".join(AGENTS)
        raise ValueError(f"algorithm must be one of {known}, or a maker such as lim2.LinearTS, got {algorithm!r}")
    return AGENTS[algorithm]
