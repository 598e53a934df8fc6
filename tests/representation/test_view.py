"""A view: hidden layer, scaled context, constant; projections of many columns."""

import numpy as np
import pytest

from lim2.representation import MLP
from lim2.representation.scaling import no_moments, observe_many, scaling
from lim2.representation.view import MOST_COLUMNS, View, features, linear_columns, projection, squared_lengths


def test_features_are_the_hidden_layer_the_scaled_context_and_one() -> None:
    rng, net = np.random.default_rng(0), MLP(hidden=5)
    contexts = rng.normal(3.0, 10.0, size=(50, 2))
    view = View(net.init((2,), 3, rng), scaling(observe_many(no_moments((2,)), contexts)), None)
    rows, inputs = features(net, view, contexts, 2), (contexts - contexts.mean(axis=0)) / contexts.std(axis=0)
    np.testing.assert_allclose(rows[:, :5], net.features(view.network, inputs), rtol=1e-12)
    np.testing.assert_allclose(rows[:, 5:7], inputs, rtol=1e-12)
    assert (rows[:, 7] == 1.0).all()
    assert features(net, view, contexts[:0], 2).shape == (0, 8)


def test_many_columns_are_projected_and_keep_their_length_on_average() -> None:
    rng, columns = np.random.default_rng(0), 2000
    linear = linear_columns((columns,), takes_floats=True)
    matrix = projection(columns, linear, rng)
    assert linear == MOST_COLUMNS
    assert matrix is not None
    rows = rng.normal(size=(200, columns))
    assert np.mean((rows @ matrix) ** 2) * linear / columns == pytest.approx(1.0, rel=0.05)
    assert projection(MOST_COLUMNS, MOST_COLUMNS, rng) is None
    assert linear_columns((3, 8, 8), takes_floats=True) == linear_columns((3,), takes_floats=False) == 0


def test_groups_that_are_dead_or_have_exploded_count_as_one() -> None:
    rows = np.array([[0.0, 0.0, 1e40, 1.0]])
    assert squared_lengths(rows, hidden=2).tolist() == [1.0, 1.0, 1.0, 1.0]
