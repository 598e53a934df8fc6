"""The real files: rows, columns, classes, what a uniform policy earns, and the same arrays everywhere."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import numpy as np
import pytest

import lim2.problems
from lim2.problems import Problem
from lim2.problems.check import check
from lim2.problems.files import find as find_file
from lim2.problems.registry import find

# name: rounds, d, arms, what a uniform policy earns in them (None: depends on the draw of arms)
PAPER = {
    "adult": (5000, 90, 2, 2500.0),
    "amazon": (5000, 60, 5, 1000.0),
    "census": (5000, 385, 9, 5000 / 9),
    "covertype": (5000, 54, 7, 5000 / 7),
    "epileptic": (5000, 178, 5, 1000.0),
    "financial": (3713, 21, 8, None),
    "jester": (5000, 32, 8, None),
    "mushroom": (5000, 117, 2, 5000 * 0.5 * (4208 * 5 - 3916 * 15) / 8124),
    "scania": (5000, 170, 2, 2500.0),
    "smartphones-66": (5000, 66, 6, 5000 / 6),
    "statlog": (5000, 9, 7, 5000 / 7),
}
# The first digits of the SHA-256 of contexts and rewards for seed 0: the same on every machine.
DIGESTS = {
    "adult": "3c5cebdf6eeb",
    "amazon": "f2c92c88aab2",
    "census": "d756d51b5e16",
    "covertype": "1b9e9a9acdb4",
    "epileptic": "1b1c9a002097",
    "financial": "fdc5d55b0d27",
    "jester": "683bb52a9bfc",
    "mushroom": "a6c0e17ab21a",
    "scania": "e7e306855809",
    "smartphones-66": "53fbeafcfd08",
    "statlog": "2fed23f9593b",
}


def drawn(name: str, seed: int = 0) -> Problem:
    facts = find(name).facts
    assert facts is not None
    if find_file(facts.files[0]) is None:
        pytest.skip(f"{facts.files[0]} is not in LIM2_DATA")
    return lim2.problems.load(name, seed=seed)


@pytest.mark.parametrize("name", sorted(PAPER))
def test_size_and_noise(name: str, real_data: Path) -> None:
    rounds, n_features, n_arms, _ = PAPER[name]
    problem = drawn(name)
    assert problem.contexts.shape == (rounds, n_features)
    assert problem.rewards.shape == (rounds, n_arms)
    assert np.isfinite(problem.contexts).all()
    if name not in ("mushroom", "financial", "jester"):
        assert (problem.best_rewards == 1).all()
        assert (problem.rewards.sum(axis=1) == 1).all()


@pytest.mark.parametrize("name", sorted(PAPER))
def test_rows_and_classes_are_as_documented(name: str, real_data: Path) -> None:
    drawn(name)
    findings = check(find(name))
    assert findings
    for finding in findings:
        assert finding.error == ""


@pytest.mark.parametrize("name", sorted(PAPER))
def test_what_a_uniform_policy_earns(name: str, real_data: Path) -> None:
    """The mean over ten runs of a policy that plays arms at random, within four standard errors."""
    expected = PAPER[name][3]
    sums = []
    for seed in range(10):
        problem = drawn(name, seed)
        arms = np.random.default_rng(seed).integers(problem.n_arms, size=problem.rounds)
        sums.append(float(problem.rewards[np.arange(problem.rounds), arms].sum()))
        if expected is None:
            expected_here = problem.uniform_reward * problem.rounds
            scale = problem.rewards.std() * math.sqrt(problem.rounds)
            assert abs(sums[-1] - expected_here) < 4 * scale
    if expected is not None:
        error = np.std(sums, ddof=1) / math.sqrt(len(sums))
        assert abs(np.mean(sums) - expected) < 4 * error


@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_the_same_seed_gives_the_same_arrays_on_any_machine(name: str, real_data: Path) -> None:
    problem = drawn(name)
    kind = "<i4" if problem.n_tokens else "<f8"
    content = problem.contexts.astype(kind).tobytes() + problem.rewards.astype("<f8").tobytes()
    assert hashlib.sha256(content).hexdigest()[:12] == DIGESTS[name]


def test_contexts_are_standardised_as_in_the_paper(real_data: Path) -> None:
    for name in ("statlog", "covertype", "epileptic", "smartphones-66", "scania"):
        spread = drawn(name).contexts.std(axis=0)
        assert ((np.abs(spread - 1) < 1e-9) | (spread <= 1)).all()
        assert (np.abs(spread - 1) < 1e-9).any()
        np.testing.assert_allclose(drawn(name).contexts.mean(axis=0), 0, atol=1e-9)
    for name in ("mushroom", "financial", "jester"):
        assert np.abs(drawn(name).contexts.mean(axis=0)).max() > 1e-3


def test_always_neg_earns_what_the_paper_reports_on_scania(real_data: Path) -> None:
    problem = drawn("scania")
    assert 4860 < problem.rewards[:, 0].sum() < 4940


def test_both_jester_files_give_the_same_ratings(real_data: Path, tmp_path: Path) -> None:
    facts = find("jester").facts
    assert facts is not None
    drawn_from = []
    for [file] in (facts.files, *facts.alternatives):
        if (path := find_file(file)) is not None:
            folder = tmp_path / file
            folder.mkdir()
            (folder / path.name).symlink_to(path)
            drawn_from.append(lim2.problems.load("jester", seed=0, data=folder))
    assert all((problem.contexts == drawn_from[0].contexts).all() for problem in drawn_from)


def test_partial_copies_say_so(real_data: Path) -> None:
    assert any("the first 15,317 of 2,458,285 rows" in note for note in drawn("census").notes)
    assert drawn("statlog").notes == ()
