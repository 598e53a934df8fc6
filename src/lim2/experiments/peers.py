"""Agents of other libraries, on the same shuffles: Vowpal Wabbit (``pip install 'lim2[peers]'``).

``lim2 bench --agents LiM2,vw:squarecb,vw:adf-epsilon --set vw:adf-epsilon.epsilon=0.1``
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.experiments.items import Scale
from lim2.experiments.names import PlanError, nearest

# How each algorithm explores, with the options that Vowpal Wabbit's own guides use.
ALGORITHMS: dict[str, tuple[str, dict[str, float]]] = {
    "squarecb": ("--squarecb", {"gamma_scale": 10.0, "gamma_exponent": 0.5}),
    "epsilon": ("", {"epsilon": 0.05}),
    "bag": ("", {"bag": 5}),
    "cover": ("", {"cover": 5}),
    "regcb": ("--regcb", {"cb_min_cost": -1.0, "cb_max_cost": 0.0}),
    "regcbopt": ("--regcbopt", {"mellowness": 0.01, "cb_min_cost": -1.0, "cb_max_cost": 0.0}),
}
ONLY_ADF = ("regcb", "regcbopt")
PREFIX = "vw:"
ADF = "adf-"  # vw:adf-squarecb: with features of the actions, and all interactions of context and action


T = TypeVar("T")


class Pending(Generic[T]):
    """Decisions whose rewards have not arrived: first in, first out among equal ones.

    Examples
    --------
    >>> pending = Pending()
    >>> pending.put("context, arm 1", 0.9)
    >>> pending.put("context, arm 1", 0.4)
    >>> [pending.take("context, arm 1") for _ in range(3)]
    [0.9, 0.4, None]
    """

    def __init__(self) -> None:
        self._waiting: dict[Any, deque[T]] = {}

    def put(self, key: Any, value: T) -> None:
        """Store the data that is needed when the reward arrives."""
        self._waiting.setdefault(key, deque()).append(value)

    def take(self, key: Any) -> T | None:
        """Remove and return the oldest entry of a key; None if there is none."""
        values = self._waiting.get(key)
        if values is None:
            return None
        value = values.popleft()
        if not values:
            del self._waiting[key]
        return value


class VowpalWabbit:
    """Vowpal Wabbit's contextual bandit, as an agent.

    With ``action_features`` (``--cb_explore_adf``), the context is shared, an action has its number as its only
    feature, and ``-q`` crosses the two: one linear regression per arm. ``usual_rewards`` is the range for algorithms
    that need one; None: 0 to 1. With ``interactions`` it sees products of two features, and is not linear in the
    context. ``options`` are further command-line options, such as ``"--power_t 0"``; other keywords are options of
    the algorithm, such as ``epsilon``.

    Contexts go in as numeric features of one namespace, the arms are the actions, the cost is the negative reward.
    """

    def __init__(
        self,
        n_arms: int,
        n_features: int,
        *,
        algorithm: str = "squarecb",
        action_features: bool = False,
        usual_rewards: tuple[float, float] | None = None,
        seed: int | None = None,
        learning_rate: float = 0.5,
        interactions: bool = False,
        options: str = "",
        **exploration: float,
    ) -> None:
        if action_features:
            kind = "--cb_explore_adf -q xa" + " --interactions xxa" * interactions
        else:
            kind = f"--cb_explore {n_arms}" + " --interactions xx" * interactions
        self._vw = _workspace(kind, algorithm, learning_rate, options, seed, usual_rewards, exploration)
        self._names = [f"f{i}" for i in range(n_features)]
        self._actions = [f"|a {arm}" for arm in range(n_arms)] if action_features else None
        self._rng = np.random.default_rng(seed)
        self._propensities: Pending[float] = Pending()  # with which probability arms were played

    def act(self, context: ArrayLike) -> int:
        """Draw an arm from the probabilities that Vowpal Wabbit gives."""
        chances = np.asarray(self._vw.predict(self._example(context)))
        arm = _drawn(chances, self._rng)
        self._propensities.put((np.asarray(context).tobytes(), arm), float(chances[arm]))
        return arm

    def update(self, context: ArrayLike, arm: int, reward: float) -> None:
        """Learn the cost of an arm, weighted by the probability with which it was played."""
        chance = self._propensities.take((np.asarray(context).tobytes(), arm))
        self._vw.learn(self._example(context, arm, f"{-reward}:{1.0 if chance is None else chance}"))

    def _example(self, context: ArrayLike, arm: int = 0, cost: str | None = None) -> str | list[str]:
        """Return a context in Vowpal Wabbit's format, with the cost and probability of an arm if they are given."""
        values: Sequence[float] = np.asarray(context).tolist()
        # A feature that is 0 is left out, as Vowpal Wabbit's parser would do.
        features = [f"{name}:{value!r}" for name, value in zip(self._names, values, strict=True) if value]
        text = "|x " + " ".join(features)
        if self._actions is None:
            return text if cost is None else f"{arm + 1}:{cost} {text}"
        lines = ["shared " + text, *self._actions]
        if cost is not None:
            lines[arm + 1] = f"0:{cost} {lines[arm + 1]}"
        return lines


class VowpalWabbitItems:
    """Vowpal Wabbit's ``--cb_explore_adf`` as an agent that chooses among items.

    ``scales`` are those of contexts and of items; None: as they are.

    The context is shared, a candidate is one line with its own features, ``-q`` crosses the two, and the cost is the
    negative reward. Columns of numbers are standardised first, by their moments over all rounds: more than an online
    agent can know, and in Vowpal Wabbit's favour.
    """

    def __init__(
        self,
        n_features: int,
        n_item_features: int,
        *,
        scales: tuple[Scale, Scale] | None = None,
        algorithm: str = "squarecb",
        usual_rewards: tuple[float, float] | None = None,
        seed: int | None = None,
        learning_rate: float = 0.5,
        interactions: bool = False,
        options: str = "",
        **exploration: float,
    ) -> None:
        kind = "--cb_explore_adf -q xa" + " --interactions xxa" * interactions
        self._vw = _workspace(kind, algorithm, learning_rate, options, seed, usual_rewards, exploration)
        self._scales = scales
        self._names = [f"f{i}" for i in range(n_features)]
        self._item_names = [f"i{i}" for i in range(n_item_features)]
        self._rng = np.random.default_rng(seed)
        self._decisions: Pending[tuple[list[str], int, float]] = Pending()

    def act(self, context: ArrayLike, items: ArrayLike) -> int:
        """Draw an item from the probabilities that Vowpal Wabbit gives; return its row."""
        x, rows = np.asarray(context, dtype=np.float64), np.asarray(items, dtype=np.float64)
        lines = self._lines(x, rows)
        chances = np.asarray(self._vw.predict(lines))
        row = _drawn(chances, self._rng)
        self._decisions.put((x.tobytes(), rows[row].tobytes()), (lines, row, float(chances[row])))
        return row

    def update(self, context: ArrayLike, item: ArrayLike, reward: float) -> None:
        """Learn the cost of an item that was chosen, weighted by the probability with which it was chosen."""
        x, chosen = np.asarray(context, dtype=np.float64), np.asarray(item, dtype=np.float64)
        decision = self._decisions.take((x.tobytes(), chosen.tobytes()))
        if decision is None:
            raise ValueError("Vowpal Wabbit learns from its own decisions only: update with the item that act chose")
        lines, row, chance = decision
        self._vw.learn([*lines[: row + 1], f"0:{-reward}:{chance} {lines[row + 1]}", *lines[row + 2 :]])

    def _lines(self, context: NDArray[Any], items: NDArray[Any]) -> list[str]:
        if self._scales is not None:
            context, items = self._scales[0](context), self._scales[1](items)
        shared = "shared |x " + _features(self._names, context.tolist())
        return [shared, *("|a " + _features(self._item_names, row) for row in items.tolist())]


class RawChoice(NamedTuple):
    """Decision of Vowpal Wabbit for a context that is a dictionary: the arm, and what learning needs."""

    arm: Hashable
    lines: list[str]
    row: int
    propensity: float


class VowpalWabbitRaw:
    """Vowpal Wabbit's ``--cb_explore_adf`` on dictionaries, which become features of its text format as they are.

    ``arms`` are their names; None: items come with every call.
    """

    def __init__(
        self,
        arms: Sequence[Hashable] | None,
        *,
        algorithm: str = "squarecb",
        usual_rewards: tuple[float, float] | None = None,
        seed: int | None = None,
        learning_rate: float = 0.5,
        interactions: bool = False,
        options: str = "",
        **exploration: float,
    ) -> None:
        kind = "--cb_explore_adf -q xa" + " --interactions xxa" * interactions
        self._vw = _workspace(kind, algorithm, learning_rate, options, seed, usual_rewards, exploration)
        self._arms = None if arms is None else {arm: {"arm": str(arm)} for arm in arms}
        self._rng = np.random.default_rng(seed)

    def decide(self, context: Mapping[str, Any], items: Mapping[Hashable, Any] | None = None) -> RawChoice:
        """Draw an arm or item from the probabilities that Vowpal Wabbit gives."""
        candidates = self._arms if items is None else items
        if candidates is None:
            raise ValueError("there are no arms: pass items with every call")
        lines = ["shared |x " + " ".join(words(context)), *("|a " + " ".join(words(c)) for c in candidates.values())]
        chances = np.asarray(self._vw.predict(lines))
        row = _drawn(chances, self._rng)
        return RawChoice(list(candidates)[row], lines, row, float(chances[row]))

    def update(self, decision: RawChoice, reward: float) -> None:
        """Learn the cost of a decision, weighted by the probability with which it was made."""
        lines, row = list(decision.lines), decision.row + 1
        lines[row] = f"0:{-reward}:{decision.propensity} {lines[row]}"
        self._vw.learn(lines)


_HOUR = re.compile(r"\d{4}-\d\d-\d\dT(\d\d)")


def words(value: Any, name: str = "") -> list[str]:
    """Return a dictionary as features of Vowpal Wabbit's text format.

    Numbers keep their values, and everything else is a word; a time also gives its hour.

    Examples
    --------
    >>> words({"age": 31, "basket": {"total": 2.5}, "at": "2026-11-02T09:30:00", "tags": ["a b"], "from": None})
    ['age:31', 'basket.total:2.5', 'at=2026-11-02T09_30_00', 'at.hour=09', 'tags=a_b', 'from=None']
    """
    if isinstance(value, Mapping):
        return [word for key, part in value.items() for word in words(part, f"{name}.{key}" if name else str(key))]
    if isinstance(value, list | tuple):
        texts = [name if isinstance(part, str) else f"{name}.{place}" for place, part in enumerate(value)]
        return [word for part, text in zip(value, texts, strict=True) for word in words(part, text)]
    key = re.sub(r"[\s:|]", "_", name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [f"{key}:{value:.7g}"]
    found = [re.sub(r"[\s:|]", "_", f"{key}={value}")]
    hour = _HOUR.match(value) if isinstance(value, str) else None
    return [*found, f"{key}.hour={hour[1]}"] if hour else found


def _features(names: Sequence[str], values: Sequence[float]) -> str:
    return " ".join([f"{name}:{value:.7g}" for name, value in zip(names, values, strict=True) if value])


def _workspace(
    kind: str,
    algorithm: str,
    learning_rate: float,
    options: str,
    seed: int | None,
    usual_rewards: tuple[float, float] | None,
    exploration: Mapping[str, float],
) -> Any:
    import vowpalwabbit

    flag, defaults = ALGORITHMS[algorithm]
    if usual_rewards is not None and "cb_min_cost" in defaults:
        low, high = usual_rewards
        defaults = {**defaults, "cb_min_cost": -high, "cb_max_cost": -low}
    explore = " ".join([flag, *(f"--{key} {value}" for key, value in {**defaults, **exploration}.items())])
    return vowpalwabbit.Workspace(
        f"{kind} {explore} --learning_rate {learning_rate} {options} "
        f"--random_seed {0 if seed is None else seed} --quiet"
    )


def _drawn(chances: NDArray[Any], rng: np.random.Generator) -> int:
    edges = chances.cumsum()
    return min(int(edges.searchsorted(rng.random() * edges[-1], side="right")), len(edges) - 1)


def _algorithm(word: str) -> str:
    """Return the exploration options of an agent."""
    return word.removeprefix(PREFIX).removeprefix(ADF)


def check(word: str) -> None:
    """Raise a `PlanError` unless an agent of that name can be made."""
    names = [PREFIX + kind + name for kind in ("", ADF) for name in ALGORITHMS if kind or name not in ONLY_ADF]
    if word not in names:
        raise PlanError(f"there is no agent {word!r}; {nearest(word, names)}")
    if find_spec("vowpalwabbit") is None:
        raise PlanError(f"{word} needs Vowpal Wabbit, which is not installed: pip install 'lim2[peers]'")


def defaults(word: str) -> dict[str, Any]:
    """Return the settings of an agent, with their defaults."""
    return {**ALGORITHMS[_algorithm(word)][1], "learning_rate": 0.5, "interactions": False, "options": ""}


def maker(word: str) -> Callable[..., Any]:
    """Return the function that makes an agent of that name."""
    return partial(VowpalWabbit, algorithm=_algorithm(word), action_features=word.startswith(PREFIX + ADF))


def item_maker(word: str) -> Callable[..., Any]:
    """Return the function that makes an item agent of that name."""
    if not word.startswith(PREFIX + ADF):
        raise TypeError(f"{word} chooses among arms and cannot play items; name {PREFIX}{ADF}{_algorithm(word)}")
    return partial(VowpalWabbitItems, algorithm=_algorithm(word))


def raw_maker(word: str) -> Callable[..., Any]:
    """Return the function that makes an agent of that name for dictionaries."""
    if not word.startswith(PREFIX + ADF):
        raise TypeError(f"{word} cannot play dictionaries; name {PREFIX}{ADF}{_algorithm(word)}")
    return partial(VowpalWabbitRaw, algorithm=_algorithm(word))
