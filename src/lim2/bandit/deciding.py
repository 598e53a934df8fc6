"""Decisions on raw contexts: base class of bandits and their snapshots."""

import time
from collections.abc import Hashable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from lim2.arms import arm_names
from lim2.bandit.explaining import Reason, reasons
from lim2.deciding import Decider
from lim2.decision import Decision, Slate
from lim2.encoding import Columns, Encoder, Known
from lim2.item_deciding import ItemDecider, Question
from lim2.log.ids import new_id
from lim2.log.serialization import as_json
from lim2.state import Array

Encoding = Encoder | Columns
RawItems = Mapping[Any, Any]  # features by name: dictionaries, rows or dataclasses

POSITION = "position in the slate"  # the key of a feature: from the second position on, an item has it
NAME = "name of the arm"  # the key of another: arms with features have it


@dataclass(frozen=True, eq=False, kw_only=True)
class RawDecision(Decision):
    """A decision made by a bandit.

    Parameters
    ----------
    arm, propensity, arms, means, stds, propensities, exploit
        The same as for :class:`lim2.Decision`; the arm is the name of the chosen arm or item.
    id
        ID of the decision.
    context
        The raw context, as JSON.
    item
        Raw features of the chosen item, as JSON; None if arms have no features.
    position
        Position in a slate, counted from 1; 0 if the decision is not part of a slate.
    number
        Number of the decision among those of a bandit, in their order; 0 for a decision of a snapshot.
    """

    id: str
    context: Any
    item: Any = None
    position: int = 0
    number: int = 0


class Learned(NamedTuple):
    """States of a bandit's encoders."""

    context: Known
    item: Known | None  # None where arms have no features


class RawDecider:
    """Base class of bandits and their snapshots: chooses by raw contexts but does not learn.

    Parameters
    ----------
    inner
        Agent or snapshot that decides by vectors.
    encoders
        Encoders of contexts and of items; None if arms have no features.
    learned
        States of the encoders.
    features
        Raw features of the arms by name, for arms with features.
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
            A dictionary, dataclass or row of a data frame; see :class:`lim2.encoding.Encoder` for the allowed values.
        items
            The candidates, as a mapping from name to features. Only for a bandit whose choices have features.
        arms
            Names of the eligible arms or items. None: all are eligible.
        exploit
            Choose the largest posterior mean: no exploration, no ``epsilon``, no random draw.
        joint
            Draw the scores of all items jointly, see :meth:`lim2.ItemAgent.act`. The decision then has no propensities.
        """
        made, candidates = self._decided(context, items, arms, exploit, joint)
        return _raw(made, new_id(time.time()), as_json(context), candidates, 0, self._next_number())

    def _next_number(self) -> int:
        """Return the number of a new decision; only a bandit counts."""
        return 0

    def choose(
        self,
        context: Any,
        items: RawItems | None = None,
        *,
        arms: Iterable[Hashable] | None = None,
        exploit: bool = False,
    ) -> Decision:
        """Decide as :meth:`decide` does; the decision does not store context and items.

        Parameters
        ----------
        context, items, arms, exploit
            The same as for :meth:`decide`.
        """
        return self._decided(context, items, arms, exploit, joint=False)[0]

    def prepared(self) -> Self:
        """Compute now what the first decision of a snapshot would compute; return the snapshot."""
        if isinstance(self._inner, ItemDecider):
            self._inner.prepare()
        return self

    def size(self, items: RawItems | None = None, arms: Sized | None = None) -> int:
        """Return how many values a decision compares: the number of candidates times the width of their rows.

        Parameters
        ----------
        items, arms
            The same as for :meth:`decide`.
        """
        encoder, of_items = self._encoders
        if of_items is None:  # all arms are scored, eligible or not
            return len(self.arms or ()) * encoder.width
        candidates = next((given for given in (arms, items, self._features) if given is not None), ())
        return len(candidates) * (encoder.width + of_items.width)

    def draw_like(self, before: "RawDecider") -> None:
        """Decide from the random stream of another snapshot from now on, for a snapshot from another process.

        Parameters
        ----------
        before
            The other snapshot.
        """
        self._snapshot.draw_like(before._snapshot)

    def count_turns_of(self, before: "RawDecider") -> None:
        """Count the initial turns that an earlier snapshot from another process has given: they are not given again.

        Parameters
        ----------
        before
            The earlier snapshot.
        """
        self._snapshot.count_turns_of(before._snapshot)

    @property
    def _snapshot(self) -> Decider:
        return self._inner._inner if isinstance(self._inner, ItemDecider) else self._inner

    @property
    def chooses_items(self) -> bool:
        """Whether the choices have features, as :meth:`ask` and :meth:`answer` require."""
        return isinstance(self._inner, ItemDecider)

    def ask(
        self,
        context: Any,
        items: RawItems | None = None,
        *,
        arms: Iterable[Hashable] | None = None,
        exploit: bool = False,
    ) -> Question:
        """Return a checked and encoded question for :meth:`answer`; raise a ValueError if it is invalid.

        Parameters
        ----------
        context, items, arms, exploit
            The same as for :meth:`decide`.
        """
        candidates = self._candidates(items, arms)
        assert candidates is not None
        x = self._encoders[0].encode(self._learned.context, context)
        return Question(*self._rows(x, candidates), bool(exploit))

    def answer(self, questions: Sequence[Question]) -> list[Decision]:
        """Make several decisions at once, which is faster than one after the other.

        Parameters
        ----------
        questions
            Questions from :meth:`ask` of the same object.
        """
        return self._of_items.decide_many(questions)

    def _decided(
        self, context: Any, items: RawItems | None, arms: Iterable[Hashable] | None, exploit: bool, joint: bool
    ) -> tuple[Decision, dict[Hashable, Any] | None]:
        """Return a decision, and the features of its candidates by name."""
        candidates = self._candidates(items, arms)
        x = self._encoders[0].encode(self._learned.context, context)
        if candidates is None:
            return self._of_arms(joint).decide(x, arms, exploit=exploit), None
        return self._of_items.decide_rows(*self._rows(x, candidates), exploit=exploit, joint=joint), candidates

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
        """Rank arms or items by one draw of each score, best first; return one decision per position.

        The propensity of each is the probability that its arm or item comes first.

        Parameters
        ----------
        context, items, arms, exploit, joint
            The same as for :meth:`decide`.
        k
            Number of positions. None: one for each candidate.
        """
        candidates = self._candidates(items, arms)
        x = self._encoders[0].encode(self._learned.context, context)
        if candidates is None:
            made = self._of_arms(joint).rank(x, arms, k, exploit=exploit)
        else:
            made = self._of_items.rank_rows(*self._rows(x, candidates), k, exploit=exploit, joint=joint)
        name, kept, number = new_id(time.time()), as_json(context), self._next_number()
        entries = (_raw(entry, f"{name}/{at}", kept, candidates, at, number) for at, entry in enumerate(made, start=1))
        return Slate(name, tuple(entries))

    def propensities(
        self,
        context: Any,
        items: RawItems | None = None,
        *,
        arms: Iterable[Hashable] | None = None,
        exploit: bool = False,
    ) -> Array:
        """Return the probability that the next decision chooses each candidate; it draws and changes nothing.

        Parameters
        ----------
        context, items, arms, exploit
            The same as for :meth:`decide`.

        Examples
        --------
        >>> import lim2
        >>> shop = lim2.Bandit(epsilon=0.2, seed=0)
        >>> shop.propensities({"country": "AT"}, {"sku1": {"price": 9.9}, "sku2": {"price": 120}}).tolist()
        [0.5, 0.5]
        """
        candidates = self._candidates(items, arms)
        x = self._encoders[0].encode(self._learned.context, context)
        if candidates is None:
            return self._of_arms(False).propensities(x, arms, exploit=exploit)
        return self._of_items.chances_of_rows(self._rows(x, candidates)[1], exploit=exploit)

    def explain(self, decision: Any) -> list[Reason]:
        """Return the contribution of each key of context and item to the expected score of the choice.

        A contribution is the expected score minus the same score without the key, under the current posterior. A number
        without its value counts as its mean. The largest come first. Keys interact, so contributions need not add up.

        Parameters
        ----------
        decision
            A decision from :meth:`decide`, an entry of a slate from :meth:`rank`, or a logged decision.

        Examples
        --------
        >>> import lim2
        >>> bandit = lim2.Bandit(arms=["spring", "shoes"], seed=0)
        >>> for age in range(20, 80):
        ...     for country, arm in (("AT", "spring"), ("AT", "shoes"), ("DE", "spring"), ("DE", "shoes")):
        ...         bandit.learn({"country": country, "age": age}, arm, float((country == "DE") == (arm == "shoes")))
        >>> decision = bandit.decide({"country": "DE", "age": 30}, exploit=True)
        >>> [(reason.key, reason.value, round(reason.contribution, 1)) for reason in bandit.explain(decision)]
        [('country', 'DE', 0.5), ('age', 30, 0.0)]
        """
        item, position = item_of(decision), max(decision.position, 1)
        sources = self._sources(decision.context, decision.arm, item, position)
        return reasons(sources, lambda rows: self._means_of(decision.arm, rows))

    # Inside

    def _candidates(self, items: RawItems | None, arms: Iterable[Hashable] | None) -> dict[Hashable, Any] | None:
        """Return the features of the candidates by name; None if arms have none."""
        if self._encoders[1] is None:
            if items is not None:
                raise ValueError(
                    "this bandit was made with arms that have no features, so it takes no items: name the eligible "
                    "arms as arms=, or make a bandit without arms"
                )
            return None
        if items is None:
            if self._features is None:
                raise ValueError("this bandit chooses among items: give candidates as items={name: features, ...}")
            items = self._features
        elif not isinstance(items, Mapping):
            raise ValueError(f"items must be a mapping {{name: features, ...}}, got {type(items).__name__}")
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
            raise ValueError("arms without features have separate posteriors: leave out joint=True")
        assert isinstance(self._inner, Decider)
        return self._inner

    @property
    def _of_items(self) -> ItemDecider:
        assert isinstance(self._inner, ItemDecider)
        return self._inner

    # What it says of itself

    @property
    def arms(self) -> tuple[Any, ...] | None:
        """Names of the arms; None if items are passed with every call."""
        if isinstance(self._inner, ItemDecider):
            return None if self._features is None else tuple(self._features)
        return self._inner.arms

    @property
    def features(self) -> dict[Any, Any]:
        """Features of the arms by name, as they are encoded; empty if arms have none, or without arms."""
        return {} if self._features is None else dict(self._features)

    @property
    def epsilon(self) -> float:
        """Share of decisions that are drawn uniformly among the eligible arms or items."""
        return self._inner.epsilon

    @property
    def rounds(self) -> int:
        """Number of rewards learned."""
        return self._inner.rounds

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict of JSON values for the user, saved with the bandit."""
        return self._inner.metadata  # type: ignore[union-attr]

    @property
    def columns(self) -> dict[str, tuple[Any, ...]]:
        """Summary of the encoders' keys: of contexts and, if there are any, of items."""
        known = {"context": self._encoders[0].columns(self._learned.context)}
        if self._encoders[1] is not None and self._learned.item is not None:
            known["item"] = self._encoders[1].columns(self._learned.item)
        return known


def placed(raw: Any, position: int) -> Any:
    """Return a context or an item with its position in a slate; the first position is left out."""
    return raw if position == 1 else with_key(raw, POSITION, str(position))


def with_key(raw: Any, key: str, value: Any) -> Any:
    """Return raw features with one more key."""
    fields = as_json(raw, "an item")
    if not isinstance(fields, dict):
        raise ValueError(f"features must be given by key, as a dictionary, a dataclass or a row; got {raw!r}")
    more = {**fields, key: value if isinstance(value, str) else repr(value)}
    return dict(sorted(more.items()))  # as JSON of a log or a file comes back


def item_of(decision: Any) -> Any:
    """Return the raw features of a decision's choice, made here or in a log; None if it has none."""
    if isinstance(decision, RawDecision):
        return decision.item
    kept = getattr(decision, "raw_items", None)
    return None if kept is None else kept[decision.arm]


def _raw(made: Decision, name: str, context: Any, candidates: Any, position: int, number: int) -> RawDecision:
    item = None if candidates is None else as_json(candidates[made.arm], "an item")
    return RawDecision(**made.__dict__, id=name, context=context, item=item, position=position, number=number)
