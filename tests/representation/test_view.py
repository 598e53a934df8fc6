"""A view: hidden layer, scaled context, constant; many columns are narrowed."""

import numpy as np

from lim2.moments import no_moments, observe_many, scaling
from lim2.representation import MLP
from lim2.representation.view import (
    MOST_COLUMNS,
    SHARED_COLUMNS,
    View,
    by_frequency,
    features,
    linear_columns,
    narrowed,
    squared_lengths,
)


def test_features_are_the_hidden_layer_the_scaled_context_and_one() -> None:
    rng, net = np.random.default_rng(0), MLP(hidden=5)
    contexts = rng.normal(3.0, 10.0, size=(50, 2))
    view = View(net.init((2,), 3, rng), scaling(observe_many(no_moments((2,)), contexts)), None)
    rows, inputs = features(net, view, contexts, 2), (contexts - contexts.mean(axis=0)) / contexts.std(axis=0)
    np.testing.assert_allclose(rows[:, :5], net.features(view.network, inputs), rtol=1e-12)
    np.testing.assert_allclose(rows[:, 5:7], inputs, rtol=1e-12)
    assert (rows[:, 7] == 1.0).all()
    assert features(net, view, contexts[:0], 2).shape == (0, 8)


def test_frequent_columns_stay_and_others_are_added_up_with_signs() -> None:
    rng, columns = np.random.default_rng(0), 2000
    assert linear_columns((columns,), takes_floats=True) == MOST_COLUMNS
    rows = (rng.random((50, columns)) < np.linspace(0.01, 0.9, columns)).astype(float)
    order, single = by_frequency(rows), MOST_COLUMNS - SHARED_COLUMNS
    assert (np.diff(rows.sum(axis=0)[order]) <= 0).all()
    out = narrowed(rows, order)
    np.testing.assert_array_equal(out[:, :single], rows[:, order[:single]])
    signs = np.where(np.arange(columns - single) % 2, -1.0, 1.0)
    np.testing.assert_allclose(out[:, single:].sum(axis=1), rows[:, order[single:]] @ signs)
    assert linear_columns((3, 8, 8), takes_floats=True) == linear_columns((3,), takes_floats=False) == 0


def test_groups_that_are_dead_or_have_exploded_count_as_one() -> None:
    rows = np.array([[0.0, 0.0, 1e40, 1.0]])
    assert squared_lengths(rows, hidden=2).tolist() == [1.0, 1.0, 1.0, 1.0]
