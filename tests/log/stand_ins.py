"""Small agents with the interfaces of item agents and bandits, which learn by counting and remember what they heard."""

from __future__ import annotations

import copy
import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2.decision import Decision, History

Float = NDArray[np.float64]


def softmax(scores: Float) -> Float:
    powers = np.exp(scores - scores.max())
    chances: Float = powers / powers.sum()
    return chances


class Chooser:
    """Draws by a softmax of scores, and has the methods that a log asks for."""

    keeps_raw, batches = False, False
    arms: tuple[Hashable, ...] | None = None

    def __init__(self, seed: int) -> None:
        self.metadata: dict[str, Any] = {}
        self.rng = np.random.default_rng(seed)
        self.heard: list[Any] = []

    def lacks(self, arm: Hashable) -> bool:
        return self.arms is not None and arm not in self.arms

    def learn_logged(self, history: History | None, position: Mapping[str, Any]) -> None:
        if history is not None:
            self.learn_history(history)
        self.metadata.update(position)

    def learn_history(self, history: History, *_: Any) -> int:
        for row in range(len(history.arms)):
            self.take(history, row)
        return len(history.arms)

    def take(self, history: History, row: int) -> None:
        raise NotImplementedError

    def choose(self, arms: tuple[Hashable, ...], scores: Float, exploit: bool) -> Decision:
        chances = np.eye(len(arms))[scores.argmax()] if exploit else softmax(scores)
        place = int(scores.argmax()) if exploit else int(self.rng.choice(len(arms), p=chances))
        return Decision(arms[place], float(chances[place]), arms, scores, np.ones(len(arms)), chances, exploit)

    def sort(self, arms: tuple[Hashable, ...], scores: Float, k: int) -> list[Decision]:
        chances, order = softmax(scores), np.argsort(-scores - self.rng.gumbel(size=len(scores)))[:k]
        rest = (arms, scores, np.ones(len(arms)), chances)
        return [Decision(arms[place], float(chances[place]), *rest) for place in order.tolist()]


class ItemLearner(Chooser):
    """An item agent: one weight per column of the item, moved towards items that earn."""

    def __init__(self, n_item_features: int, seed: int = 0) -> None:
        super().__init__(seed)
        self.weights = np.zeros(n_item_features)

    def means(self, context: Any, items: Any) -> Float:
        vectors = np.array(list(items.values())) if isinstance(items, Mapping) else np.asarray(items)
        scores: Float = vectors @ self.weights + float(np.sum(context)) * vectors[:, 0]
        return scores

    def propensities(self, context: Any, items: Any, *, exploit: bool = False) -> Float:
        scores = self.means(context, items)
        return np.eye(len(scores))[scores.argmax()] if exploit else softmax(scores)

    def decide(self, context: Any, items: Any, *, exploit: bool = False) -> Decision:
        names = tuple(items) if isinstance(items, Mapping) else tuple(range(len(items)))
        return self.choose(names, self.means(context, items), exploit)

    def rank(self, context: Any, items: Any, k: int) -> list[Decision]:
        names = tuple(items) if isinstance(items, Mapping) else tuple(range(len(items)))
        return self.sort(names, self.means(context, items), k)

    def decide_logged(self, source: Any, arms: Any, exploit: bool, k: int | None = None) -> list[Decision]:
        if arms is not None:
            raise ValueError("this agent chooses among items: give the eligible ones as items=, not as arms=")
        if k is not None:
            return self.rank(source.context, source.items, k)
        return [self.decide(source.context, source.items, exploit=exploit)]

    def take(self, history: History, row: int) -> None:
        self.update(history.contexts[row], history.items[row], float(history.rewards[row]))

    def update(self, context: Any, item: Any, reward: float) -> None:
        self.heard.append((np.asarray(context).tolist(), np.asarray(item).tolist(), reward))
        self.weights = self.weights + 0.1 * reward * np.asarray(item)


@dataclass(frozen=True)
class Slate:
    """What a bandit's rank returns: a decision per position."""

    entries: Sequence[Decision]

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.entries)


class RawLearner(Chooser):
    """A bandit: it reads some keys of the context and the item ("its encoder"), and keeps a mean for each reading."""

    keeps_raw = True

    def __init__(self, keys: Sequence[str], arms: Sequence[Hashable] | None = None, seed: int = 0) -> None:
        super().__init__(seed)
        self.keys, self.arms = tuple(keys), None if arms is None else tuple(arms)
        self.sums: dict[str, list[float]] = {}

    def read(self, context: Any, arm: Hashable, item: Any) -> str:
        parts = {**context, **({"arm": arm} if item is None else item)}
        return json.dumps([parts.get(key) for key in self.keys] + [parts.get("arm")])

    def score(self, context: Any, arms: Sequence[Hashable], items: Any) -> Float:
        readings = [self.read(context, arm, None if items is None else items[arm]) for arm in arms]
        return np.array([sum(self.sums.get(key, [])) / (1 + len(self.sums.get(key, []))) for key in readings])

    def eligible(self, items: Any, arms: Any) -> tuple[Hashable, ...]:
        return tuple(arms if arms is not None else items if items is not None else self.arms or ())

    def decide(self, context: Any, items: Any = None, *, arms: Any = None, exploit: bool = False) -> Decision:
        names = self.eligible(items, arms)
        return self.choose(names, self.score(context, names, items), exploit)

    def propensities(self, context: Any, items: Any = None, arms: Any = None) -> Float:
        return softmax(self.score(context, self.eligible(items, arms), items))

    def rank(self, context: Any, items: Any, k: int) -> Slate:
        return Slate(self.sort(tuple(items), self.score(context, tuple(items), items), k))

    def decide_logged(self, source: Any, arms: Any, exploit: bool, k: int | None = None) -> list[Decision]:
        if k is not None:
            return list(self.rank(source.raw, source.raw_items, k))
        return [self.decide(source.raw, source.raw_items, arms=arms, exploit=exploit)]

    def take(self, history: History, row: int) -> None:
        item = None if history.raw_items is None else history.raw_items[row]
        position = 1 if history.positions is None else history.positions[row]
        reward = float(history.rewards[row])
        self.learn(history.raw[row], history.arms[row], reward, item=item, position=position)

    def learn(self, context: Any, arm: Hashable, reward: float, *, item: Any = None, position: int = 1) -> None:
        self.heard.append((copy.deepcopy(context), arm, reward, copy.deepcopy(item), position))
        self.sums.setdefault(self.read(context, arm, item), []).append(reward)
