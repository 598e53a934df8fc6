"""Decisions on raw contexts: base class of bandits and their snapshots."""

import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from lim2.bandit.explaining import Reason, reasons
from lim2.bandit.rows import Arms, Candidates, Items, Rows
from lim2.control import Control, by_chance, controlled
from lim2.deciding import Question
from lim2.decision import Decision, Slate
from lim2.log.ids import new_id
from lim2.log.serialization import as_json
from lim2.shells import Shell
from lim2.state import Array

PIN, CONTROL = "pin", "control"  # keys of the metadata, which are saved with a bandit


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


class RawDecider(Shell):
    """Base class of bandits and their snapshots: chooses by raw contexts but does not learn."""

    keeps_raw = True
    rows: Rows
    _chance = staticmethod(by_chance)  # assigns decisions to groups

    def decide(
        self, context: Any, items: Items = None, *, arms: Arms = None, exploit: bool = False, joint: bool = False
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
        (decision,), candidates = self._shown(context, items, 1, arms, exploit, joint)
        return raw_decision(decision, new_id(time.time()), as_json(context), candidates, 0, self._next_number())

    def rank(
        self,
        context: Any,
        items: Items = None,
        k: int | None = None,
        *,
        arms: Arms = None,
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
        decisions, candidates = self._shown(context, items, k, arms, exploit, joint)
        id, raw, number = new_id(time.time()), as_json(context), self._next_number()
        positions = enumerate(decisions, start=1)
        return Slate(id, tuple(raw_decision(one, f"{id}/{at}", raw, candidates, at, number) for at, one in positions))

    def propensities(self, context: Any, items: Items = None, *, arms: Arms = None, exploit: bool = False) -> Array:
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
        return self.core.propensities(self.question(context, items, arms=arms, exploit=exploit))

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
        ...         played = bandit.decide({"country": country, "age": age}, arms=[arm])
        ...         bandit.update(played, float((country == "DE") == (arm == "shoes")))
        >>> decision = bandit.decide({"country": "DE", "age": 30}, exploit=True)
        >>> [(reason.key, reason.value, round(reason.contribution, 1)) for reason in bandit.explain(decision)]
        [('country', 'DE', 0.5), ('age', 30, 0.0)]
        """
        core, rows = self.core, self.rows
        index, parts = rows.parts(core, decision.context, decision.arm, item_of(decision), max(decision.position, 1))
        sources = list(zip(rows.sources, parts, rows.encoders, core.state.encoders, strict=True))
        return reasons(sources, lambda xs: core.posterior(xs).mean[:, index])

    def question(self, context: Any, items: Items = None, *, arms: Arms = None, exploit: bool = False) -> Question:
        """Return a checked and encoded question, which ``core.decide`` answers.

        Parameters
        ----------
        context, items, arms, exploit
            The same as for :meth:`decide`.
        """
        return self.rows.question(self.core, context, items, arms, bool(exploit))[0]

    def decide_logged(self, source: Any, arms: Any, exploit: bool, k: int | None = None) -> list[Decision]:
        """Decide for a context of a log, or rank k candidates."""
        return self._ranked(source.raw, source.raw_items, 1 if k is None else k, arms, exploit, joint=False)[0]

    def lacks(self, arm: Hashable) -> bool:
        """Return whether the bandit has arms, and this is none of them."""
        arms = self.rows.arms(self.core.state)
        return arms is not None and arm not in arms

    def _ranked(
        self, context: Any, items: Items, k: int | None, arms: Any, exploit: bool, joint: bool
    ) -> tuple[list[Decision], Candidates]:
        """Return decisions for the first k candidates, and the raw features of all by name."""
        question, candidates = self.rows.question(self.core, context, items, arms, exploit)
        if joint:
            if candidates is None:
                raise ValueError("arms without features have separate posteriors: leave out joint=True")
            question = question._replace(joint=True)
        return self.core.rank(question, k), candidates

    def _shown(
        self, context: Any, items: Items, k: int | None, arms: Any, exploit: bool, joint: bool
    ) -> tuple[list[Decision], Candidates]:
        """Return the same under the control."""
        decisions, candidates = self._ranked(context, items, k, arms, exploit, joint)
        if self.core.state.metadata:  # where a control would be
            decisions = controlled(self.control, decisions, self._chance)
        return decisions, candidates

    @property
    def control(self) -> Control | None:
        """The control group, or an arm that is pinned; None: the bandit decides alone."""
        pin, control = (self.metadata.get(name) for name in (PIN, CONTROL))
        if pin is not None:
            return Control(pin, 1.0)
        return None if control is None else Control(*control)

    def _next_number(self) -> int:
        """Return the number of a new decision; only a bandit counts."""
        return 0

    # What it says of itself

    @property
    def arms(self) -> tuple[Any, ...] | None:
        """Names of the arms; None if items are passed with every call."""
        arms = self.rows.arms(self.core.state)
        return None if arms is None else tuple(arms)

    @property
    def features(self) -> dict[Any, Any]:
        """Features of the arms by name, as they are encoded; empty if arms have none, or without arms."""
        return dict(self.core.state.features or {})

    @property
    def columns(self) -> dict[str, tuple[Any, ...]]:
        """Summary of the encoders' keys: of contexts and, if there are any, of items."""
        parts = zip(self.rows.sources, self.rows.encoders, self.core.state.encoders, strict=True)
        return {source: encoder.columns(state) for source, encoder, state in parts}


def item_of(decision: Any) -> Any:
    """Return the raw features of a decision's choice, made here or in a log; None if it has none."""
    if isinstance(decision, RawDecision):
        return decision.item
    items = getattr(decision, "raw_items", None)
    return None if items is None else items[decision.arm]


def raw_decision(
    decision: Decision, id: str, context: Any, candidates: Candidates, position: int, number: int
) -> RawDecision:
    """Return a decision with its raw context and the raw features of its choice."""
    item = None if candidates is None else as_json(candidates[decision.arm], "an item")
    return RawDecision(**decision.__dict__, id=id, context=context, item=item, position=position, number=number)
