"""Every parser, on small files of its form: plain, .gz and .xz give the same; settings do what they say."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
from problems.small import ROWS, WRITERS

import lim2.problems
from lim2.problems import Problem
from lim2.problems.registry import find


def small(name: str, folder: Path, **settings: object) -> Problem:
    WRITERS[name](folder)
    return lim2.problems.load(name, rounds="all", seed=1, data=folder, verify=False, **settings)


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_every_dataset_loads(name: str, tmp_path: Path) -> None:
    problem = small(name, tmp_path)
    facts = find(name).facts
    assert facts is not None
    assert problem.n_arms == facts.n_arms
    assert np.isfinite(problem.contexts).all()
    assert np.isfinite(problem.rewards).all()
    assert any("is not a known file" in note for note in problem.notes)
    closed = {"adult", "census", "mushroom"}  # the number of features depends on the values that occur
    if name not in closed:
        assert problem.n_features == facts.n_features


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_compressed_files_give_the_same(name: str, tmp_path: Path) -> None:
    plain = small(name, tmp_path)
    for i, path in enumerate(
        sorted(path for path in tmp_path.rglob("*") if path.is_file() and ".lim2" not in str(path))
    ):
        packed = path.with_name(path.name + (".gz" if i % 2 else ".xz"))
        packed.write_bytes((gzip if i % 2 else lzma).compress(path.read_bytes()))
        path.unlink()
    again = lim2.problems.load(name, rounds="all", seed=1, data=tmp_path, verify=False)
    np.testing.assert_array_equal(again.contexts, plain.contexts)
    np.testing.assert_array_equal(again.rewards, plain.rewards)


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_the_same_seed_gives_the_same_and_another_does_not(name: str, tmp_path: Path) -> None:
    first = small(name, tmp_path)
    again = lim2.problems.load(name, rounds="all", seed=1, data=tmp_path, verify=False)
    other = lim2.problems.load(name, rounds="all", seed=2, data=tmp_path, verify=False)
    np.testing.assert_array_equal(again.contexts, first.contexts)
    np.testing.assert_array_equal(again.rewards, first.rewards)
    assert not np.array_equal(other.contexts, first.contexts)


def test_statlog_split(tmp_path: Path) -> None:
    assert small("statlog", tmp_path).rounds == ROWS
    assert small("statlog", tmp_path, split="test").rounds == 20
    with pytest.raises(ValueError, match="split must be 'train' or 'test'"):
        small("statlog", tmp_path, split="both")


def test_mushroom_rewards_and_expected_optimum(tmp_path: Path) -> None:
    problem = small("mushroom", tmp_path)
    poisonous = problem.best_arms == 0
    assert (problem.rewards[:, 0] == 0).all()
    assert set(problem.rewards[poisonous, 1]) == {-35.0, 5.0}
    assert set(problem.rewards[~poisonous, 1]) == {5.0}
    assert set(problem.expected_rewards[poisonous, 1]) == {-15.0}
    assert set(problem.best_rewards[poisonous]) == {0.0}
    assert set(problem.best_rewards[~poisonous]) == {5.0}
    harmless = small("mushroom", tmp_path, harm_probability=0.0)
    assert (harmless.best_arms == 1).all()
    assert set(np.unique(problem.contexts)) == {0.0, 1.0}
    assert (problem.contexts.sum(axis=1) == 22).all()


def test_financial_rewards_are_linear_with_growing_noise(tmp_path: Path) -> None:
    WRITERS["financial"](tmp_path)
    problem = lim2.problems.load("financial", 4000, seed=1, data=tmp_path, verify=False, replace=True)
    weights, *_ = np.linalg.lstsq(problem.contexts, problem.expected_rewards, rcond=None)
    np.testing.assert_allclose(problem.contexts @ weights, problem.expected_rewards, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(weights, axis=0), 1.0, rtol=1e-9)
    noise = (problem.rewards - problem.expected_rewards).std(axis=0)
    np.testing.assert_allclose(noise, 0.01 * np.arange(1, 9), rtol=0.06)


def test_jester_splits_the_jokes_by_the_seed(tmp_path: Path) -> None:
    problem = small("jester", tmp_path)
    assert problem.contexts.shape == (ROWS, 32)
    assert problem.rewards.shape == (ROWS, 8)
    assert len({*problem.arm_names, *problem.feature_names}) == 40
    assert lim2.problems.load("jester", "all", 2, data=tmp_path, verify=False).arm_names != problem.arm_names
    fixed = lim2.problems.load("jester", "all", 1, data=tmp_path, verify=False, shuffle_jokes=False)
    assert fixed.arm_names == tuple(f"joke {i}" for i in range(33, 41))
    np.testing.assert_array_equal(fixed.best_rewards, fixed.rewards.max(axis=1))
    ratings = np.load(tmp_path / "jester_data_40jokes_19181users.npy")
    user = np.flatnonzero((ratings[:, :32] == fixed.contexts[0]).all(axis=1))
    np.testing.assert_array_equal(ratings[user[0], 32:], fixed.rewards[0])


def test_jester_is_rebuilt_from_all_ratings(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ratings = rng.uniform(-10, 10, (30, 100)).round(2)
    ratings[:, 40:] = np.where(rng.random((30, 60)) < 0.5, 99, ratings[:, 40:])
    ratings[3, 5] = 99  # this user lacks one of the 40
    counts = (ratings != 99).sum(axis=1)
    lines = [f"{n}," + ",".join(f"{x:g}" for x in row) for n, row in zip(counts, ratings, strict=True)]
    (tmp_path / "jester-data-1.csv").write_text("\n".join(lines) + "\n")
    problem = lim2.problems.load("jester", "all", 0, data=tmp_path, verify=False, shuffle_jokes=False)
    assert problem.rounds == 29
    together = np.hstack([problem.contexts, problem.rewards])
    expected = np.delete(ratings, 3, axis=0)[:, :40]
    np.testing.assert_array_equal(together[np.lexsort(together.T)], expected[np.lexsort(expected.T)])


def test_adult_columns_and_missing_values(tmp_path: Path) -> None:
    WRITERS["adult"](tmp_path)
    path = tmp_path / "adult.data"
    lines = path.read_text().splitlines()
    fields = lines[0].split(", ")
    fields[1] = "?"
    path.write_text("\n".join([", ".join(fields), *lines[1:]]) + "\n")
    options = {"rounds": "all", "seed": 1, "data": tmp_path, "verify": False}
    dropped = lim2.problems.load("adult", **options)  # type: ignore[call-overload]
    assert dropped.rounds == 2 * ROWS - 1
    assert "1 rows with a missing value were dropped" in dropped.notes
    kept = lim2.problems.load("adult", incomplete="keep", standardize=None, **options)  # type: ignore[call-overload]
    assert kept.rounds == 2 * ROWS
    workclass = [i for i, name in enumerate(kept.feature_names) if name.startswith("workclass=")]
    assert sorted(kept.contexts[:, workclass].sum(axis=1).tolist()) == [0.0] + [1.0] * (2 * ROWS - 1)
    assert not any("occupation" in name for name in dropped.feature_names)
    more = lim2.problems.load("adult", occupation=True, **options)  # type: ignore[call-overload]
    assert more.n_features == dropped.n_features + 14


def test_scania_reads_its_preamble_and_its_costs(tmp_path: Path) -> None:
    WRITERS["scania"](tmp_path)
    path = tmp_path / "aps_failure_training_set.csv"
    body = path.read_text().splitlines()
    fields = body[1].split(",")
    fields[3] = "na"
    body[1] = ",".join(fields)
    path.write_text("\n".join(body) + "\n")
    options = {"rounds": "all", "seed": 1, "data": tmp_path, "verify": False}
    bare = lim2.problems.load("scania", **options)  # type: ignore[call-overload]
    path.write_text("\n".join([f"licence line {i}, text" for i in range(20)] + body) + "\n")
    with_preamble = lim2.problems.load("scania", **options)  # type: ignore[call-overload]
    np.testing.assert_array_equal(bare.contexts, with_preamble.contexts)
    assert (bare.contexts[:, 2] == 0).sum() == 1  # the missing value is the mean
    zero = lim2.problems.load("scania", missing="zero", standardize=None, **options)  # type: ignore[call-overload]
    assert (zero.contexts[:, 2] == 0).sum() == 1
    costs = lim2.problems.load("scania", rewards="costs", **options)  # type: ignore[call-overload]
    faulty = bare.rewards[:, 1] == 1
    assert (costs.rewards[faulty] == [-500, 0]).all()
    assert (costs.rewards[~faulty] == [0, -10]).all()
    assert (costs.best_rewards == 0).all()


def test_amazon_tokens(tmp_path: Path) -> None:
    problem = small("amazon", tmp_path)
    assert problem.contexts.dtype == np.int32
    assert problem.n_tokens is not None
    assert problem.contexts.max() == problem.n_tokens - 1
    # it 's great , really ! phone <number> second line: ten tokens, then padding
    assert ((problem.contexts > 0).sum(axis=1) == 10).all()
    assert (problem.contexts[:, 10:] == 0).all()
    assert (problem.contexts[:, :6] == problem.contexts[0, :6]).all()
    few = small("amazon", tmp_path, vocabulary=9, length=8)
    assert few.contexts.shape == (ROWS, 8)
    assert few.n_tokens == 11
    assert (few.contexts[:, 7] == 1).all()  # the numbers are outside the nine most frequent words


def test_census_encodes_over_the_whole_file(tmp_path: Path) -> None:
    WRITERS["census"](tmp_path)
    whole = lim2.problems.load("census", "all", 1, data=tmp_path, verify=False, standardize=None)
    few = lim2.problems.load("census", 3, 1, data=tmp_path, verify=False, standardize=None)
    assert few.n_features == whole.n_features
    assert (whole.contexts.sum(axis=1) == 67).all()
    assert not any("caseid" in name or "dOccup" in name for name in whole.feature_names)


def test_standardize_is_offered(tmp_path: Path) -> None:
    sample = small("covertype", tmp_path)
    np.testing.assert_allclose(sample.contexts[:, 0].std(), 1.0)
    raw = small("covertype", tmp_path, standardize=None)
    assert raw.contexts[:, 0].std() > 2
    online = small("covertype", tmp_path, standardize="online")
    assert (online.contexts[0] == 0).all()
    with pytest.raises(ValueError, match="standardize must be"):
        small("covertype", tmp_path, standardize="maybe")
