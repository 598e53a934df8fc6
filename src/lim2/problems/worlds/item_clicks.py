"""Items with features, a few of them eligible at a time; clicks are rare."""

from __future__ import annotations

import numpy as np

from lim2.problems.draw import ordered_product, stream
from lim2.problems.item_problem import ItemProblem
from lim2.problems.registry import register
from lim2.problems.worlds.truth import arm_effects, click_rates, clicks_of, odds_ratio, tastes

CATEGORIES = ("bags", "books", "hats", "shirts", "shoes", "toys")
STYLES = 3  # numbers that describe an item's style, and as many a visitor's
MIDDLE_PRICE, PRICE_SPREAD = 20.0, 0.6


@register(
    "item-clicks",
    summary="300 items as JSON, 30 eligible at a time; clicks of about 4%, more if item and visitor match.",
    kind="world",
    rounds=5000,
)
def item_clicks(
    rounds: int, seed: int, n_items: int = 300, eligible: int = 30, rate: float = 0.03, by_hand: bool = False
) -> ItemProblem:
    """Draw visits with items as dictionaries.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("item-clicks", seed=0)
    >>> context, items = problem.raw(0)
    >>> context, len(items)
    ({'taste': [-0.256, -1.848, -0.455], 'device': 'laptop'}, 30)
    >>> items["item213"]
    {'category': 'shirts', 'style': [0.883, 0.257, 0.273], 'price': 14.77}
    """
    if not 1 <= eligible <= n_items:
        raise ValueError(f"eligible must be from 1 to n_items = {n_items}, got {eligible}")
    taste = stream(seed, "contexts").standard_normal((rounds, STYLES)).round(3)
    phone = stream(seed, "devices").random(rounds) < 0.6
    rng = stream(seed, "items")
    category, style = rng.integers(len(CATEGORIES), size=n_items), rng.standard_normal((n_items, STYLES)).round(3)
    level = PRICE_SPREAD * rng.standard_normal(n_items)
    price = (MIDDLE_PRICE * odds_ratio(level)).round(2)
    liking = arm_effects(seed, len(CATEGORIES), 0.5) + tastes(seed, taste, len(CATEGORIES), 0.5)
    scores = liking[:, category] + 0.5 * ordered_product(taste, style.T)
    scores -= 0.3 * level * (1.0 + phone[:, None])  # prices count twice on a phone
    chosen = stream(seed, "eligible").random((rounds, n_items)).argsort(axis=1)[:, :eligible]
    rates = click_rates(rate, np.take_along_axis(scores, chosen, axis=1)).ravel()
    flat = chosen.ravel()
    names = [f"item{i}" for i in range(n_items)]
    raw_items = [
        {"category": CATEGORIES[c], "style": s, "price": p}
        for c, s, p in zip(category.tolist(), style.tolist(), price.tolist(), strict=True)
    ]
    features = np.hstack([np.eye(len(CATEGORIES))[category], style, level[:, None]])
    return ItemProblem(
        "item-clicks",
        np.hstack([taste, phone[:, None]]),
        features[flat],
        np.arange(rounds + 1) * eligible,
        clicks_of(seed, rates),
        rates,
        seed=seed,
        item_names=tuple(names[i] for i in flat.tolist()),
        raw_contexts=tuple(
            {"taste": t, "device": "phone" if p else "laptop"}
            for t, p in zip(taste.tolist(), phone.tolist(), strict=True)
        ),
        raw_items=tuple(raw_items[i] for i in flat.tolist()),
        form="vectors" if by_hand else "dictionaries",
        usual_rewards=(0.0, 1.0),
        settings={"n_items": n_items, "eligible": eligible, "rate": rate, "by_hand": by_hand},
    )
