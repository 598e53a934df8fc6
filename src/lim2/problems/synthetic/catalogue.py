"""A catalogue that grows: every round some of its items are eligible, and the user's taste decides on clicks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lim2.problems.draw import ordered_product, stream
from lim2.problems.item_problem import ItemProblem
from lim2.problems.problem import Array
from lim2.problems.registry import register

# The users' four numbers with their means and standard deviations: agents are given them in these units.
USER = {"age": (40.0, 10.0), "income": (45.0, 12.0), "visits": (8.0, 2.0), "basket": (60.0, 18.0)}
CATEGORIES = ("bags", "books", "food", "games", "garden", "jewels", "music", "shoes", "toys", "watches")
LEVEL, TASTE, APPEAL = -0.8, 1.4, 0.2  # of clicks: a random item is clicked 0.31 of the time, the best of 20 0.85


@register("catalogue", summary="Items with features, 20 eligible at a time, more every day; clicks.", kind="synthetic")
def catalogue(
    rounds: int,
    seed: int,
    n_items: int = 500,
    arrivals: int = 150,
    eligible: int = 20,
    embedding: int = 8,
) -> ItemProblem:
    """Draw a catalogue with arrivals.

    `arrivals` items are added until the last round; `eligible` ones can be chosen in a round; `embedding` is their
    size.

    A user is four numbers. An item has a category, one of ten, and an embedding. Whether a user clicks on an item
    depends on a bilinear form of the user and of both (its taste), and a little on the item alone (its appeal): without
    products of user and item nothing linear can personalise. The catalogue grows evenly over the run; every item of
    the catalogue is as likely to be eligible as any other.

    Contexts are the four numbers in their own units. Items are ten 0/1 columns and the embedding; as dictionaries
    they have the keys `category` and `embedding`.

    Examples
    --------
    >>> import lim2.problems
    >>> problem = lim2.problems.load("catalogue", rounds=4000, seed=0)
    >>> problem
    ItemProblem('catalogue', rounds=4000, n_features=4, n_item_features=18, candidates=20, seed=0)
    >>> round(problem.uniform_reward, 2), problem.best_rewards.mean().round(2)
    (0.31, np.float64(0.86))
    >>> user, items = problem.raw(0)
    >>> list(user), list(items)[:2], list(items.values())[0]["category"]
    (['age', 'income', 'visits', 'basket'], ['sku114', 'sku141'], 'food')
    """
    if not 1 <= eligible <= n_items or arrivals < 0 or embedding < 1:
        raise ValueError(
            f"eligible must be from 1 to n_items, arrivals at least 0, embedding at least 1, not {eligible} of "
            f"{n_items}, {arrivals} and {embedding}"
        )
    categories, embeddings = _items(seed, n_items + arrivals, embedding)
    features = np.hstack([np.eye(len(CATEGORIES))[categories], embeddings])
    taste, appeal = _effects(seed, embedding)
    users = stream(seed, "contexts").standard_normal((rounds, len(USER)))
    chosen = _eligible(seed, rounds, n_items, arrivals, eligible)
    preferred = ordered_product(users, taste)
    scores = LEVEL + TASTE * _row_products(preferred, features[chosen])
    scores += APPEAL * ordered_product(features, appeal[:, None])[chosen, 0]
    # Not the logistic function: the processor's exponentials differ in the last bit between machines.
    expected = (0.5 + 0.5 * scores / np.sqrt(1.0 + scores**2)).ravel()
    means, deviations = np.array(list(USER.values())).T
    contexts = means + deviations * users
    raw = [
        {"category": CATEGORIES[category], "embedding": row}
        for category, row in zip(categories.tolist(), embeddings.tolist(), strict=True)
    ]
    flat = chosen.ravel().tolist()
    columns = [f"category={name}" for name in CATEGORIES] + [f"embedding {i}" for i in range(embedding)]
    return ItemProblem(
        "catalogue",
        contexts,
        features[chosen.ravel()],
        np.arange(rounds + 1) * eligible,
        (stream(seed, "noise").random(expected.shape) < expected).astype(np.float64),
        expected,
        seed=seed,
        item_names=tuple(f"sku{item}" for item in flat),
        feature_names=tuple(USER),
        item_feature_names=tuple(columns),
        raw_contexts=tuple(dict(zip(USER, row, strict=True)) for row in contexts.tolist()),
        raw_items=tuple(raw[item] for item in flat),
        settings={"n_items": n_items, "arrivals": arrivals, "eligible": eligible, "embedding": embedding},
    )


def _items(seed: int, n: int, embedding: int) -> tuple[NDArray[np.int64], Array]:
    rng = stream(seed, "items")
    return rng.integers(len(CATEGORIES), size=n), rng.standard_normal((n, embedding))


def _effects(seed: int, embedding: int) -> tuple[Array, Array]:
    """Return the bilinear form of user and item, (4, e), and the weights of an item alone, (e,): scores of variance 1.

    Half of the variance is the category's, half the embedding's.
    """
    rng = stream(seed, "weights")
    halves = np.sqrt(np.concatenate([np.full(len(CATEGORIES), 0.5), np.full(embedding, 0.5 / embedding)]))
    taste = rng.standard_normal((len(USER), len(halves))) * halves / np.sqrt(len(USER))
    return taste, rng.standard_normal(len(halves)) * halves


def _eligible(seed: int, rounds: int, n_items: int, arrivals: int, eligible: int) -> NDArray[np.int64]:
    rng = stream(seed, "eligible")
    there = n_items + (arrivals * np.arange(1, rounds + 1)) // rounds
    return np.stack([rng.choice(n, size=eligible, replace=False) for n in there.tolist()])


def _row_products(X: Array, items: Array) -> Array:
    """Return the product of each row of X (rounds, e) with each of its items (rounds, k, e), summed in order."""
    out = np.zeros(items.shape[:2])
    for column in range(X.shape[1]):
        out += X[:, column, None] * items[:, :, column]
    return out
