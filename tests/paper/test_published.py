"""The published numbers were copied by hand: the two tables must agree with each other."""

from __future__ import annotations

import numpy as np
import pytest

from lim2 import AGENTS
from lim2.paper.published import AVERAGE, DATASETS, MEDIAN, METHODS, Dataset, dataset
from lim2.problems.registry import find

by_title = pytest.mark.parametrize("row", DATASETS, ids=lambda row: row.title)


@by_title
def test_the_normalised_scores_follow_from_the_raw_ones(row: Dataset) -> None:
    best = max(mean for mean, _ in row.raw.values())
    methods = list(row.raw)
    raw = np.array([row.raw[method][0] for method in methods])
    scores = np.array([row.normalized[method] for method in methods])
    # score = (raw - R) / (best - R): one unknown, the random policy's reward, from all methods by least squares
    reference = np.linalg.lstsq((scores - 1)[:, None], scores * best - raw, rcond=None)[0][0]
    np.testing.assert_allclose((raw - reference) / (best - reference), scores, atol=0.006)


def test_the_random_policy_on_scania_is_the_one_of_the_text() -> None:
    scania = dataset("scania")
    (high, _), (low, _) = scania.raw["NeuralTS"], scania.raw["NeuralLinearMM"]
    score = scania.normalized["NeuralLinearMM"]
    assert (score * high - low) / (score - 1) == pytest.approx(4663, abs=5)


@pytest.mark.parametrize("method", METHODS)
def test_averages_and_medians_are_those_of_the_rows(method: str) -> None:
    scores = [row.normalized[method] for row in DATASETS if method in row.normalized]
    assert np.mean(scores) == pytest.approx(AVERAGE[method], abs=0.0015)
    assert np.median(scores) == pytest.approx(MEDIAN[method], abs=0.0015)


@by_title
def test_what_a_row_names_exists(row: Dataset) -> None:
    facts = find(row.problem).facts
    assert facts is not None
    assert facts.n_arms == row.arms
    assert set(row.raw) == set(row.normalized) <= set(AGENTS)
    assert dataset(row.problem) is row
