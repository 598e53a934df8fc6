"""A shop's JSON: nested, with a unique id of the session and the time of the visit."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from lim2.problems.draw import stream
from lim2.problems.problem import Array, Problem
from lim2.problems.registry import register
from lim2.problems.worlds.truth import click_rates, clicks_of, late_zeros

COUNTRIES, COUNTRY_SHARES = ("AT", "CH", "DE"), (0.3, 0.2, 0.5)
REFERRERS = ("instagram", "newsletter", "search", None)
BANNERS = ("gift card", "shipping", "shoes", "spring")
START, VISIT = datetime(2026, 11, 2, tzinfo=UTC), timedelta(minutes=4)  # of the first visit; from one to the next


def _visits(seed: int, rounds: int) -> dict[str, Any]:
    """Draw the facts of each visit, by key."""
    rng = stream(seed, "contexts")
    return {
        "country": np.searchsorted(np.cumsum(COUNTRY_SHARES)[:-1], rng.random(rounds), side="right"),
        "referrer": rng.integers(len(REFERRERS), size=rounds),
        "phone": rng.random(rounds) < 0.65,
        "returning": rng.random(rounds) < 0.3,
        "age": rng.integers(18, 80, size=rounds),
        "items": rng.integers(0, 2, (rounds, 3)).sum(axis=1),
        "total": (40.0 * rng.standard_normal(rounds) ** 2).round(2),
    }


def _dictionaries(seed: int, facts: dict[str, Any], session: bool, time: bool) -> tuple[dict[str, Any], ...]:
    """Return the visits as a product would send them."""
    rows = zip(*(facts[key].tolist() for key in facts), strict=True)
    ids = stream(seed, "sessions").bytes(8 * len(facts["age"])).hex()
    contexts = []
    for t, (country, referrer, phone, returning, age, items, total) in enumerate(rows):
        context: dict[str, Any] = {"session": ids[16 * t : 16 * t + 16]} if session else {}
        if time:
            context["time"] = (START + t * VISIT).isoformat()
        context |= {
            "country": COUNTRIES[country],
            "device": "phone" if phone else "laptop",
            "age": age,
            "returning": returning,
            "basket": {"items": items, "total": total},
            "referrer": REFERRERS[referrer],
        }
        contexts.append(context)
    return tuple(contexts)


def _columns(facts: dict[str, Any]) -> Array:
    """Return the columns that one would make by hand, without id and time."""
    numbers = [(facts["age"] - 48.5) / 18.0, facts["items"] - 1.5, facts["total"] / 40.0 - 1.0]
    words = [np.eye(len(COUNTRIES))[facts["country"]], np.eye(len(REFERRERS))[facts["referrer"]]]
    return np.column_stack([*words, facts["phone"], facts["returning"], *numbers])


@register(
    "shop",
    summary="Nested JSON with a unique session id and the time of the visit; four banners, clicks of 2 to 6%.",
    kind="world",
    rounds=10_000,
)
def shop(
    rounds: int, seed: int, rate: float = 0.02, session: bool = True, time: bool = True, by_hand: bool = False
) -> Problem:
    """Draw visits of a shop, as dictionaries.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("shop", seed=0, session=False)
    >>> problem.raw_contexts[1]["time"], problem.raw_contexts[1]["basket"]
    ('2026-11-02T00:04:00+00:00', {'items': 0, 'total': 10.86})
    >>> round(problem.uniform_reward, 3), problem.best_rewards.mean().round(3)
    (0.032, np.float64(0.05))
    """
    facts = _visits(seed, rounds)
    age, returning = facts["age"], facts["returning"]
    scores = np.column_stack(
        [
            1.1 * returning - 0.4 * ~returning + 0.2 * facts["items"],
            0.9 * (facts["country"] == COUNTRIES.index("DE")) + 0.3 * (facts["referrer"] == 0),
            1.1 * (age < 35) + 0.3 * facts["phone"],
            1.1 * (age >= 60),
        ]
    ).astype(np.float64)
    rates = click_rates(rate, scores)
    return Problem(
        "shop",
        _columns(facts),
        clicks_of(seed, rates),
        rates,
        seed=seed,
        arm_names=BANNERS,
        raw_contexts=_dictionaries(seed, facts, session, time),
        form="vectors" if by_hand else "dictionaries",
        usual_rewards=(0.0, 1.0),
        settings={"rate": rate, "session": session, "time": time, "by_hand": by_hand},
    )


@register(
    "shop-late", summary="As `shop`; clicks are known early and zeros late, as in `late-zeros`.", kind="world",
    rounds=10_000,
)  # fmt: skip
def shop_late(
    rounds: int, seed: int, rate: float = 0.02, session: bool = True, time: bool = True, by_hand: bool = False
) -> Problem:
    """Draw visits of a shop whose rewards are late."""
    problem = shop(rounds, seed, rate, session, time, by_hand)
    return replace(problem, name="shop-late", delays=late_zeros(seed, problem.rewards))
