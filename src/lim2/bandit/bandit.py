"""``lim2.Bandit``: an encoder and an agent in one object. It takes dictionaries and returns names."""

import copy
import os
import random
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from lim2 import batches
from lim2.agent import Agent
from lim2.agents import AGENTS
from lim2.arms import arm_names
from lim2.bandit.deciding import CONTROL, PIN, RawDecider, RawDecision, raw_decision
from lim2.bandit.files import dump
from lim2.bandit.rows import NAME, Arms, Encoding, ItemRows, Items, rows_of, with_key
from lim2.batches import Progress, Size
from lim2.checks import LARGEST
from lim2.control import Control
from lim2.decision import History, Slate
from lim2.encoding import Encoder
from lim2.evaluation import evaluate
from lim2.evaluation.evaluate import Evaluation
from lim2.exploration.epsilon import LOGGED
from lim2.items import ItemAgent, agent_around
from lim2.learner import Lesson, Position, checked_reward, checked_rewards
from lim2.log import DecisionLog, LogError, Proof, TakenIdError
from lim2.log.ids import new_id, position_named, sticky_id
from lim2.log.rules import ALWAYS, FIRST
from lim2.log.serialization import as_json
from lim2.shells import LearningShell

PAUSED, STICKY = "paused", "sticky"  # keys of the metadata

# The default encoders: for contexts alone, and for contexts and items together, where width costs more.
CONTEXT, BESIDE_ITEMS = Encoder(), Encoder(buckets=32)


class Bandit(LearningShell, RawDecider):
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
    control
        Control group: a rule that decides for a share of the decisions, a :class:`lim2.Control`.
    sticky
        With a log: seconds in which the same key gets the same decision again, as long as its arm is eligible.
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

    log: DecisionLog | None = None
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
        control: Control | None = None,
        sticky: float | None = None,
        seed: int | None = None,
        **settings: Any,
    ) -> None:
        plain = arms is not None and not isinstance(arms, Mapping)
        if plain and item_encoder is not None:
            raise ValueError("item_encoder is for items with features: leave it out, or pass arms={name: features}")
        encoder = encoder or (CONTEXT if plain else BESIDE_ITEMS)
        item_encoder = None if plain else item_encoder or BESIDE_ITEMS
        if item_encoder is None:
            settings["arms"] = arms
        else:
            settings["n_item_features"] = item_encoder.width
        if epsilon is not None:
            settings["epsilon"] = epsilon
        agent = _maker(algorithm)(n_features=encoder.width, seed=seed, **settings)
        if not isinstance(agent, LearningShell):
            raise ValueError(
                f"algorithm must be a name in lim2.AGENTS or a function that makes a lim2 agent, got {algorithm!r}"
            )
        if log is not None and epsilon is None and not agent.epsilon:
            agent.epsilon = LOGGED
        self.core, self.rows = agent.core, rows_of(encoder, item_encoder)
        self.core.state = self.core.state._replace(encoders=self.rows.init())
        if isinstance(self.rows, ItemRows) and isinstance(arms, Mapping):
            features = {name: with_key(arms[name], NAME, name) for name in arm_names(arms)}
            self.rows.set_features(self.core, features)
        if sticky is not None and not 0 < sticky < LARGEST:
            raise ValueError(f"sticky must be a positive number of seconds, got {sticky!r}")
        self._note(STICKY, None if sticky is None else float(sticky))
        if seed is not None:
            self._chance = random.Random(seed).random
        if control is not None:
            self.control = control
        if log is not None:
            self.attach(log)

    # Deciding, with a log

    def decide(
        self,
        context: Any,
        items: Items = None,
        *,
        arms: Arms = None,
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
        if self.log is not None or id is not None or key is not None or metadata is not None:
            self._check_logs(joint)
        if self.log is None:
            (decision,), candidates = self._shown(context, items, 1, arms, exploit, joint)
            return raw_decision(decision, new_id(time.time()), as_json(context), candidates, 0, self._next_number())
        log, shared, arms = self.log, None, None if arms is None else list(arms)
        if self.sticky is not None and key is not None and id is None:
            earlier = log.latest(key, self.sticky)
            if earlier is None:
                id = shared = sticky_id(log.id, key, log.clock(), self.sticky)
            elif earlier.arm in (arms or items or self.arms or ()):
                return earlier
        (decision,), candidates = self._shown(context, items, 1, arms, exploit, joint)
        options = {"raw": context, "raw_items": candidates, "id": id, "key": key, "metadata": metadata, "agent": self}
        try:
            return log.record(decision, **options)
        except TakenIdError:
            if shared is None:
                raise
            return log.get(shared)  # of another process, at the same moment

    def rank(
        self,
        context: Any,
        items: Items = None,
        k: int | None = None,
        *,
        arms: Arms = None,
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
        if self.log is None and id is None and key is None and metadata is None:
            return super().rank(context, items, k, arms=arms, exploit=exploit, joint=joint)
        self._check_logs(joint)
        slate, candidates = self._shown(context, items, k, arms, exploit, joint)
        options = {"raw": context, "raw_items": candidates, "id": id, "key": key, "metadata": metadata, "agent": self}
        return self.logged("rank").record_slate(slate, **options)

    def _check_logs(self, joint: bool) -> None:
        """Raise a ValueError unless decisions can be recorded."""
        if self.log is None:
            raise ValueError(
                "id, key and metadata need a decision log, and this bandit has none: make it with log='decisions.db'"
            )
        if joint:
            raise ValueError(
                "joint=True gives no propensities, and a decision log needs them: leave out joint=True, or use no log"
            )

    def _next_number(self) -> int:
        core = self.core
        newest = core.algorithm.newest(core.state.model) if core.algorithm.dated else 0
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
        elif isinstance(decision, Slate):
            assert isinstance(reward, Mapping)
            positions = {position_named(key): value for key, value in reward.items()}
            if len(positions) < len(reward) or any(position > len(decision) for position in positions):
                raise ValueError(
                    f"rewards must name each of the {len(decision)} positions at most once, got {dict(reward)!r}"
                )
            ordered = sorted(positions.items())
            self.core.learn_all(self._lesson(decision[at - 1], value, at) for at, value in ordered)
        elif isinstance(decision, RawDecision):
            self.core.learn(self._lesson(decision, reward, max(decision.position, 1)))
        else:
            raise ValueError(f"decision must be what decide or rank returned, got {type(decision).__name__}")

    def _lesson(self, decision: Any, reward: Any, position: int) -> Lesson:
        """Return the lesson of a decision."""
        core = self.core
        value = reward if type(reward) is float and abs(reward) < LARGEST else checked_reward(reward)
        index, parts = self.rows.parts(core, decision.context, decision.arm, decision.item, position)
        encoders, row = self.rows.learned(core.state, [[part] for part in parts])
        return Lesson(row[0], index, value, decision.number or None, encoders)

    def lessons(self, history: History, size: Size, progress: Progress | None = None) -> Iterator[Lesson]:
        """Yield the lessons of a history in batches: the encoders observe all rows of a batch, then encode them."""
        core, n = self.core, len(history.arms)
        raw = history.column(
            "raw",
            "has no raw context, from which this agent learns: decide with a lim2.Bandit, or store raw values with "
            "raw= and raw_items=",
        )
        items = [None] * n if history.raw_items is None else history.raw_items
        if self.arms is None:
            message = "has no raw items, from which this agent learns: store them with raw_items="
            items = history.column("raw_items", message)
        rewards, positions = checked_rewards(history.rewards, n), history.positions or [1] * n
        columns = list(zip(raw, history.arms, items, positions, strict=True))
        for rows in batches.slices(n, size, self.rounds):
            indices, parts = zip(*(self.rows.parts(core, *column) for column in columns[rows]), strict=True)
            encoders, xs = self.rows.learned(core.state, list(zip(*parts, strict=True)))
            decided = None if history.decided is None else history.decided[rows]
            yield Lesson(xs, np.array(indices), rewards[rows], decided, encoders).part(slice(0, len(xs)))
            if progress is not None:
                progress(rows.stop, n)

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
        log = self.logged("reward")
        status = log.reward(id, reward)
        if not self.paused:
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
        return evaluate(self.logged("evaluate"), self.snapshot() if policy is None else policy, **options)

    def proof(self, against: Any = None, **options: Any) -> Proof:
        """Compare the logged decisions with a rule, by an interval that is valid however often one looks at it.

        Parameters
        ----------
        against
            The rule, as for :meth:`lim2.DecisionLog.proof`. None: that of the control group, or without one the first
            candidate.
        **options
            Further arguments of :meth:`lim2.DecisionLog.proof`.
        """
        group = self.metadata.get(CONTROL)
        rule = (FIRST if group is None else group[0]) if against is None else against
        return self.logged("proof").proof(rule, **options)

    # Control

    @property
    def control(self) -> Control | None:
        """The control group, or an arm that is pinned; None: the bandit decides alone. It is saved with the bandit."""
        return super().control

    @control.setter
    def control(self, control: Control | None) -> None:
        if control is not None:
            control.check_arms(self.arms)
        self._note(CONTROL, None if control is None else [control.rule, control.share])

    def pin(self, arm: Hashable) -> None:
        """Give every decision one arm from now on, whatever the bandit chooses; :meth:`resume` ends it.

        Examples
        --------
        >>> import lim2
        >>> bandit = lim2.Bandit(arms=["spring", "shoes"], seed=0)
        >>> bandit.pin("shoes")
        >>> bandit.decide({"country": "AT"}).arm
        'shoes'
        """
        rule = f"{ALWAYS}:{arm}"
        Control(rule, 1.0).check_arms(self.arms)
        self._note(PIN, rule)

    def pause(self) -> None:
        """Stop learning: with a log, rewards are recorded, and learned after :meth:`resume`."""
        self._note(PAUSED, True)

    def resume(self) -> None:
        """Undo :meth:`pin` and :meth:`pause`, and learn all rewards that have arrived."""
        self._note(PIN, None)
        self._note(PAUSED, None)
        if self.log is not None:
            self.log.apply(self)

    @property
    def sticky(self) -> float | None:
        """Seconds in which the same key gets the same decision again; None: never."""
        sticky: float | None = self.metadata.get(STICKY)
        return sticky

    @property
    def paused(self) -> bool:
        """Whether learning is paused."""
        return PAUSED in self.metadata

    def _note(self, name: str, value: Any) -> None:
        """Keep a value with the bandit; None removes it."""
        rest = {key: entry for key, entry in self.metadata.items() if key != name}
        self.metadata = rest if value is None else {**rest, name: value}

    def logged(self, what: str) -> DecisionLog:
        """Return the log; raise a LogError if there is none."""
        if self.log is None:
            raise LogError(f"{what} needs a decision log: make the bandit with log='decisions.db', or call attach")
        return self.log

    # Arms

    def add_arm(self, name: Hashable, like: Hashable | None = None, *, features: Any = None) -> None:
        """Add an arm, and record the change if the bandit has a log.

        Parameters
        ----------
        name
            Name of the new arm.
        like
            For arms without features: name of an arm to copy, see :meth:`lim2.Agent.add_arm`.
        features
            For arms with features: features of the new arm.

        Examples
        --------
        >>> import lim2
        >>> bandit = lim2.Bandit(arms=["spring", "shoes"], seed=0)
        >>> bandit.add_arm("gift card", like="shoes")
        >>> bandit.arms
        ('spring', 'shoes', 'gift card')
        """
        if self.log is not None:
            self.log.add_arm(self, name, like, features=features)
        else:
            self.add_arm_logged(name, like, features)

    def remove_arm(self, name: Hashable) -> None:
        """Remove an arm, and record the change if the bandit has a log. Shared parameters stay as they are.

        Parameters
        ----------
        name
            Name of the arm.
        """
        if self.log is not None:
            self.log.remove_arm(self, name)
        else:
            self.remove_arm_logged(name)

    def add_arm_logged(
        self, name: Hashable, like: Hashable | None = None, features: Any = None, position: Position | None = None
    ) -> None:
        """Add an arm together with a position in a log."""
        self.rows.add_arm(self.core, name, like, features, position)

    def remove_arm_logged(self, name: Hashable, position: Position | None = None) -> None:
        """Remove an arm together with a position in a log."""
        self.rows.remove_arm(self.core, name, position)

    # Copies and files

    def snapshot(self, *, prepare: bool = False) -> RawDecider:
        """Return a read-only copy that other threads can decide with while this bandit learns; it has no log.

        Parameters
        ----------
        prepare
            Compute now what the first decision would compute.
        """
        core = self.core.snapshot()
        if prepare:
            _ = core.item_model
        return RawDecider.around(core, rows=self.rows)

    def copy(self) -> Self:
        """Return an independent copy, random streams included, without a log."""
        return type(self).around(copy.deepcopy(self.core), rows=self.rows)

    def clone(self) -> Self:
        """Return a new, untrained bandit with the same settings, without a log or a control group."""
        core = self.agent.clone().core
        core.state = core.state._replace(encoders=self.rows.init(), features=self.core.state.features)
        return type(self).around(core, rows=self.rows)

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __getstate__(self) -> dict[str, Any]:  # for pickle
        return {**self.__dict__, "log": None}

    def to_bytes(self) -> bytes:
        """Return the bytes that :meth:`save` would write; :func:`lim2.from_bytes` reads them."""
        return dump(self.algorithm, self.rows.encoders, *self.core.parts())

    @property
    def agent(self) -> Agent | ItemAgent:
        """The agent inside the bandit, which takes vectors."""
        return agent_around(self.core)

    def __repr__(self) -> str:
        arms = "" if self.arms is None else f"arms={list(self.arms)!r}, "
        return f"Bandit({arms}algorithm={self.name!r}, rounds={self.rounds})"


def _maker(algorithm: str | Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that makes the agent."""
    if callable(algorithm):
        return algorithm
    if algorithm not in AGENTS:
        names = ", ".join(AGENTS)
        raise ValueError(f"algorithm must be one of {names}, or a function such as lim2.LinearTS, got {algorithm!r}")
    return AGENTS[algorithm]
