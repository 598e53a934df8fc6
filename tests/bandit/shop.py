"""A small web shop: users, a catalogue, and bandits of each form that have seen a little of it."""

from typing import Any

import numpy as np

import lim2
from lim2 import state as trees

USERS: list[dict[str, Any]] = [
    {"country": country, "age": age, "basket": {"items": n, "total": 20.5 * n}, "device": device, "at": at}
    for n, (country, age, device, at) in enumerate(
        [
            ("AT", 31, None, "2026-11-16T10:00:00Z"),
            ("DE", 64, "phone", "2026-11-14T22:10:00Z"),
            ("AT", 19, "phone", "2026-11-12T03:00:00+02:00"),
            ("CH", 45, "desktop", "2026-11-15"),
        ]
    )
]
CATALOGUE: dict[str, dict[str, Any]] = {
    f"sku{n}": {
        "price": 9.9 + 7 * n,
        "tags": [["new", "red"], ["red"], []][n % 3],
        "category": ["shoes", "hats"][n % 2],
    }
    for n in range(12)
}
ARMS = ("spring", "shoes", "gift card")
FEATURES: dict[Any, Any] = {"spring": {"price": 9.9}, "shoes": {"price": 80, "size": "M"}, 3: {"price": 25.0}}
FORMS = ("arms", "items", "features")


def make(form: str = "items", seed: int | None = 0, algorithm: str = "LinearTS", **settings: Any) -> lim2.Bandit:
    """Return a bandit of one of the three forms."""
    arms: dict[str, Any] = {"arms": list(ARMS), "items": None, "features": FEATURES}
    return lim2.Bandit(arms[form], algorithm=algorithm, seed=seed, **settings)


def items_of(t: int, k: int = 4) -> dict[str, Any]:
    """Return the eligible part of the catalogue in a round."""
    names = sorted(CATALOGUE)
    return {names[(3 * t + i) % len(names)]: CATALOGUE[names[(3 * t + i) % len(names)]] for i in range(k)}


def question(form: str, t: int = 0) -> dict[str, Any]:
    """Return what a bandit of this form is asked in a round."""
    asked = {"context": USERS[t % len(USERS)]}
    return {**asked, "items": items_of(t)} if form == "items" else asked


def reward_of(decision: Any) -> float:
    """Return what a decision earns."""
    return float(len(str(decision.arm)) % 3) + 0.1 * float(str(decision.arm)[-1] == "s")


def play(bandit: lim2.Bandit, form: str, rounds: int, start: int = 0) -> list[Any]:
    """Decide and learn; every third round is a slate. Return what was chosen."""
    chosen: list[Any] = []
    for t in range(start, start + rounds):
        if t % 3 == 2:
            slate = bandit.rank(**question(form, t), k=3)
            bandit.update(slate, {1: 0.5, "slot 3": reward_of(slate[2])})
            chosen.append(slate.arms)
        else:
            decision = bandit.decide(**question(form, t))
            bandit.update(decision, reward_of(decision))
            chosen.append(decision.arm)
    return chosen


def played(form: str = "items", rounds: int = 12, **settings: Any) -> lim2.Bandit:
    """Return a bandit that has played some rounds."""
    bandit = make(form, **settings)
    play(bandit, form, rounds)
    return bandit


def content(bandit: lim2.Bandit) -> bytes:
    """Return all of a bandit, bit for bit."""
    return bandit.to_bytes()


def learned(bandit: lim2.Bandit) -> list[Any]:
    """Return what a bandit has learned, bit for bit: not how far its streams of decisions have come."""
    agent = bandit.agent.agent if isinstance(bandit.agent, lim2.ItemAgent) else bandit.agent
    leaves = [
        leaf.tobytes() if isinstance(leaf, np.ndarray) else leaf
        for _, leaf in trees.leaves(trees.canonical(agent.state))
    ]
    return [bandit.core.state.encoders, agent.rounds, agent.arms, leaves]
