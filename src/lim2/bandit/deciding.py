"""What can decide on raw contexts: a bandit, and a snapshot of one."""

import time
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lim2.arms import arm_names
from lim2.bandit.explaining import Reason, reasons
from lim2.deciding import Decider
from lim2.decision import Decision, Slate
from lim2.encoding import Columns, Encoder, Known
from lim2.items import ItemDecider
from lim2.log.entries import new_id
from lim2.log.raw import as_json
from lim2.state import Array

Encoding = Encoder | Columns
RawItems = Mapping[Any, Any]  # features by name: dictionaries, rows or dataclasses

POSITION = "position in the slate"  # the key of a feature: from the second position on, an item has it
NAME = "name of the arm"  # the key of another: arms with features have it


@dataclass(frozen=True, eq=False, kw_only=True)
class RawDecision(Decision):
    """A decision of a bandit.

    Parameters
    ----------
    arm, propensity, arms, means, stds, propensities, exploit
        As for :class:`lim2.Decision`; the arm is the name of what was chosen.
    id
        Names the decision.
    context
        The raw context, as JSON.
    item
        The raw features of what was chosen, as JSON; None if arms have no features.
    position
        In its slate, from 1; 0 if it is no part of one.
    """

    id: str
    context: Any
    item: Any = None
    position: int = 0


class Learned(NamedTuple):
    """What the encoders of a bandit have learned."""

    context: Known
    item: Known | None  # None where arms have no features


class RawDecider:
    """Chooses among arms or items by raw contexts; learns nothing.

    Parameters
    ----------
    inner
        What decides by vectors: of arms, or of items.
    encoders
        Of contexts, and of items; None where arms have no features.
    learned
        What they have learned.
    features
        The raw features of the arms, by name, for arms that have some.
    """

    keeps_raw = True  # so that a log keeps contexts and items as they came

    def __init__(
        self,
        inner: Decider | ItemDecider,
        encoders: tuple[Encoding, Encoding | None],
        learned: Learned,
        features: Mapping[Hashable, Any] | None,
    ) -> None:
        self._inner, self._encoders, self._learned = inner, encoders, learned
        self._features = None if features is None else dict(features)

    def decide(
        self,
        context: Any,
        items: RawItems | None = None,
        *,
        arms: Iterable[Hashable] | None = None,
        exploit: bool = False,
        joint: bool = False,
    ) -> RawDecision:
        """Choose an arm or an item for a context.

        Parameters
        ----------
        context
            A dictionary, dataclass or row of a data frame; see :class:`lim2.encoding.Encoder` for what it may hold.
        items
            The candidates: name -> features. Not for a bandit whose arms have no features.
        arms
            The eligible ones of the bandit's arms, or of the items. None: all.
        exploit
            Choose what has the largest mean: no exploration, no ``min_propensity``, nothing drawn.
        joint
            Draw the scores of items together, see :meth:`lim2.ItemAgent.act`. Such a decision has no propensities.
        """
        candidates = self._candidates(items, arms)
        x = self._encoders[0].encode(self._learned.context, context)
        if candidates is None:
            made = self._of_arms(joint).decide(x, arms, exploit=exploit)
        else:
            made = self._of_items.decide_rows(*self._rows(x, candidates), exploit=exploit, joint=joint)
        return _raw(made, new_id(time.time()), as_json(context), candidates, 0)

    def rank(
        self,
        context: Any,
        items: RawItems | None = None,
        k: int | None = None,
        *,
        arms: Iterable[Hashable] | None = None,
        exploit: bool = False,
        joint: bool = False,
    ) -> Slate[RawDecision]:
        """Order arms or items by one draw of the score of each, the best first: a decision per position.

        The propensity of each is the probability with which it is first.

        Parameters
        ----------
        context, items, arms, exploit, joint
            As for :meth:`decide`.
        k
            How many positions the slate has. None: one for each candidate.
        """
        candidates = self._candidates(items, arms)
        x = self._encoders[0].encode(self._learned.context, context)
        if candidates is None:
            made = self._of_arms(joint).rank(x, arms, k, exploit=exploit)
        else:
            made = self._of_items.rank_rows(*self._rows(x, candidates), k, exploit=exploit, joint=joint)
        name, kept = new_id(time.time()), as_json(context)
        entries = (_raw(entry, f"{name}/{at}", kept, candidates, at) for at, entry in enumerate(made, start=1))
        return Slate(name, tuple(entries))

    def propensities(
        self,
        context: Any,
        items: RawItems | None = None,
        *,
        arms: Iterable[Hashable] | None = None,
        exploit: bool = False,
    ) -> Array:
        """Return the probability with which the next decision chooses each candidate; nothing is drawn or changed."""
        candidates = self._candidates(items, arms)
        x = self._encoders[0].encode(self._learned.context, context)
        if candidates is None:
            return self._of_arms(False).propensities(x, arms, exploit=exploit)
        return self._of_items.chances_of_rows(self._rows(x, candidates)[1], exploit=exploit)

    def explain(self, decision: Any) -> list[Reason]:
        """Return what each key of the context and of the chosen item adds to the expected score of what was chosen.

        That is the difference to the same score without the key's value, by what is believed now. For a number,
        without its value is at its mean. The largest come first. Keys act together, so the numbers need not add up.

        Parameters
        ----------
        decision
            What :meth:`decide` returned, or an entry of what :meth:`rank` did, or one from a log.
        """
        item, position = item_of(decision), max(decision.position, 1)
        sources = self._sources(decision.context, decision.arm, item, position)
        return reasons(sources, lambda rows: self._means_of(decision.arm, rows))

    # Inside

    def _candidates(self, items: RawItems | None, arms: Iterable[Hashable] | None) -> dict[Hashable, Any] | None:
        """Return the features of the candidates by name; None where arms have none."""
        if self._encoders[1] is None:
            if items is not None:
                raise ValueError(
                    "this bandit was made with arms that have no features, so it takes no items: name the eligible "
                    "arms as arms=, or make a bandit without arms"
                )
            return None
        if items is None:
            if self._features is None:
                raise ValueError("this bandit chooses among items: give it some, items={name: features, ...}")
            items = self._features
        elif not isinstance(items, Mapping):
            raise ValueError(f"items must be features by name, {{name: features, ...}}, got {type(items).__name__}")
        if not items:
            raise ValueError("items is empty: there must be at least one to choose from")
        if arms is not None:
            chosen = arm_names(arms)
            unknown = [name for name in chosen if name not in items]
            if unknown:
                raise ValueError(f"{unknown[0]!r} is eligible, but there is no such arm or item")
            items = {name: items[name] for name in chosen}
        arm_names(items)
        return dict(items)

    def _rows(self, x: Array, candidates: Mapping[Hashable, Any]) -> tuple[tuple[Hashable, ...], Array]:
        encoder, known = self._encoders[1], self._learned.item
        assert encoder is not None and known is not None
        try:
            vectors = encoder.encode_many(known, candidates.values())
        except ValueError:
            for name, item in candidates.items():  # to say which
                try:
                    encoder.encode(known, item)
                except ValueError as error:
                    raise ValueError(f"the item {name!r}: {error}") from error
            raise
        return tuple(candidates), self._of_items.joined(x, vectors)

    def _sources(self, context: Any, arm: Hashable, item: Any, position: int) -> list[tuple[str, Any, Encoding, Known]]:
        """Return what a row is encoded from: (context or item, what it is, its encoder, what that has learned)."""
        if self._encoders[1] is None:
            return [("context", placed(context, position), self._encoders[0], self._learned.context)]
        if item is None:
            item = self._candidates(None, [arm])[arm]  # type: ignore[index]
        assert self._learned.item is not None
        return [
            ("context", context, self._encoders[0], self._learned.context),
            ("item", placed(item, position), self._encoders[1], self._learned.item),
        ]

    def _means_of(self, arm: Hashable, rows: Array) -> Array:
        """Return the expected scores of rows, each a context or a context and an item, for an arm."""
        if isinstance(self._inner, ItemDecider):
            return self._inner.score_rows(rows).mean
        means: Array = self._inner.means(rows)[:, self._inner.arms.index(arm)]
        return means

    def _of_arms(self, joint: bool) -> Decider:
        if joint:
            raise ValueError("arms without features have beliefs of their own, so nothing is drawn jointly")
        assert isinstance(self._inner, Decider)
        return self._inner

    @property
    def _of_items(self) -> ItemDecider:
        assert isinstance(self._inner, ItemDecider)
        return self._inner

    # What it says of itself

    @property
    def arms(self) -> tuple[Any, ...] | None:
        """The names of the arms; None for a bandit whose items come with every call."""
        if isinstance(self._inner, ItemDecider):
            return None if self._features is None else tuple(self._features)
        return self._inner.arms

    @property
    def rounds(self) -> int:
        """How many rewards were learned."""
        return self._inner.rounds

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict of JSON values that belongs to the user, and is saved with the bandit."""
        return self._inner.metadata  # type: ignore[union-attr]

    @property
    def columns(self) -> dict[str, tuple[Any, ...]]:
        """What the encoders know of the keys: of contexts, and of items where there are some."""
        known = {"context": self._encoders[0].columns(self._learned.context)}
        if self._encoders[1] is not None and self._learned.item is not None:
            known["item"] = self._encoders[1].columns(self._learned.item)
        return known


def placed(raw: Any, position: int) -> Any:
    """Return a context or an item with its position in a slate; the first position goes without saying."""
    return raw if position == 1 else with_key(raw, POSITION, str(position))


def with_key(raw: Any, key: str, value: Any) -> Any:
    """Return raw features with one more key."""
    fields = as_json(raw, "an item")
    if not isinstance(fields, dict):
        raise ValueError(f"features must be given by key, as a dictionary, a dataclass or a row; got {raw!r}")
    more = {**fields, key: value if isinstance(value, str) else repr(value)}
    return dict(sorted(more.items()))  # as JSON of a log or a file comes back


def item_of(decision: Any) -> Any:
    """Return the raw features of what a decision chose, of this module or of a log; None if it has none."""
    if isinstance(decision, RawDecision):
        return decision.item
    kept = getattr(decision, "raw_items", None)
    return None if kept is None else kept[decision.arm]


def _raw(made: Decision, name: str, context: Any, candidates: Any, position: int) -> RawDecision:
    item = None if candidates is None else as_json(candidates[made.arm], "an item")
    return RawDecision(**made.__dict__, id=name, context=context, item=item, position=position)
