"""States as trees: leaves and back, rows that are written, arms that come and go, and what loading checks."""

from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest
from helpers.purity import same, values_of
from helpers.variants import every_agent, make
from helpers.worlds import play
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lim2 import state as trees
from lim2.state import (
    Array,
    Count,
    Ints,
    Writes,
    check,
    copied,
    frozen,
    leaves,
    rebuilt,
    with_arm,
    without_arm,
    written,
)


class Inner(NamedTuple):
    mu: Annotated[Array, "arm g"]
    cov: Annotated[Array, "arm g g", "psd"]


class Tree(NamedTuple):
    inner: Inner
    network: Any
    plays: Annotated[Array, "arm", "nonnegative"]
    arms: Annotated[Ints, "row"]
    contexts: Annotated[Any, "row *context"]
    rate: Annotated[float, "", "positive"]
    rounds: Count
    size: Annotated[int, "arm"]
    on: bool
    extra: Inner | None
    tensors: Any


KINDS: dict[str, Any] = {"network": Inner, "tensors": dict}
SIZES: dict[str, Any] = {"context": (2, 3)}


@st.composite
def tree_of(draw: st.DrawFn) -> Tree:
    n_arms, g, rows = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(0, 3))
    numbers = st.floats(-1e6, 1e6)

    def inner() -> Inner:
        root = draw(hnp.arrays(np.float64, (n_arms, g, g), elements=st.floats(-10, 10)))
        return Inner(draw(hnp.arrays(np.float64, (n_arms, g), elements=numbers)), root @ root.transpose(0, 2, 1))

    return Tree(
        inner=inner(),
        network=inner(),
        plays=draw(hnp.arrays(np.float64, n_arms, elements=st.floats(0, 1e6))),
        arms=draw(hnp.arrays(np.intp, rows, elements=st.integers(0, n_arms - 1))),
        contexts=draw(hnp.arrays(np.int32, (rows, 2, 3))),
        rate=draw(st.floats(1e-9, 1e6)),
        rounds=draw(st.integers(0, 2**40)),
        size=n_arms,
        on=draw(st.booleans()),
        extra=draw(st.none()) if draw(st.booleans()) else inner(),
        tensors={name: np.ones(2) for name in draw(st.sets(st.sampled_from(["a", "b.c"])))},
    )


def example(n_arms: int = 2) -> Tree:
    inner = Inner(
        np.arange(2.0 * n_arms).reshape(n_arms, 2), np.array([np.eye(2) * (arm + 1) for arm in range(n_arms)])
    )
    rows = np.zeros(3, dtype=np.intp)
    return Tree(inner, inner, np.arange(1.0, n_arms + 1.0), rows, np.zeros((3, 2, 3)), 0.5, 3, n_arms, True, None, {})


# Leaves and back


@given(tree_of())
def test_a_state_is_rebuilt_from_its_leaves(tree: Tree) -> None:
    flat = dict(leaves(tree))
    again = rebuilt(Tree, flat, KINDS)
    assert type(again.network) is Inner
    assert same(values_of(again), values_of(tree))
    check(again, {**SIZES, "arm": len(tree.plays)})
    assert list(flat) == list(dict(leaves(again)))


def test_paths_of_leaves() -> None:
    tree = example()._replace(tensors={"a": np.zeros(1)})
    assert [path for path, _ in leaves(tree)] == [
        "inner/mu", "inner/cov", "network/mu", "network/cov", "plays", "arms", "contexts", "rate", "rounds", "size",
        "on", "extra", "tensors/a",
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["inner/mu", "network/cov", "plays", "rounds", "on"])
def test_a_leaf_that_is_missing(path: str) -> None:
    flat = dict(leaves(example()))
    with pytest.raises(ValueError, match=f"{path} is missing"):
        rebuilt(Tree, {name: leaf for name, leaf in flat.items() if name != path}, KINDS)
    with pytest.raises(ValueError, match=f"{path} is missing"):
        rebuilt(Tree, {**flat, path: None}, KINDS)


def test_leaves_that_should_not_be_there() -> None:
    flat = dict(leaves(example()))
    with pytest.raises(ValueError, match="unknown parts: inner/nu"):
        rebuilt(Tree, {**flat, "inner/nu": 1}, KINDS)
    there = {**{name: leaf for name, leaf in flat.items() if name != "extra"}, "extra/mu": 1, "extra/cov": 2}
    assert rebuilt(Tree, there, KINDS).extra == Inner(1, 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="extra is present, but must be absent"):
        rebuilt(Tree, there, {**KINDS, "extra": None})
    with pytest.raises(ValueError, match="extra is missing"):
        rebuilt(Tree, flat, {**KINDS, "extra": Inner})


@given(tree_of())
def test_a_copy_has_arrays_of_its_own(tree: Tree) -> None:
    twin = copied(tree)
    assert same(values_of(twin), values_of(tree))
    assert trees.nbytes(twin) == trees.nbytes(tree)
    for (_, one), (_, other) in zip(leaves(twin), leaves(tree), strict=True):
        if isinstance(one, np.ndarray) and one.size:
            assert not np.shares_memory(one, other)


@given(tree_of())
def test_a_frozen_state_cannot_be_written_to(tree: Tree) -> None:
    assert frozen(tree) is tree
    for _, leaf in leaves(tree):
        if isinstance(leaf, np.ndarray) and leaf.size:
            with pytest.raises(ValueError, match="read-only"):
                leaf[:] = 0


# Rows


@given(tree_of(), st.integers(0, 3), st.booleans())
def test_rows_are_written_into_copies(tree: Tree, arm: int, twice: bool) -> None:
    arm %= len(tree.plays)
    before = values_of(frozen(tree))
    mu, cov = tree.inner.mu[arm] + 1.0, tree.inner.cov[arm] * 2.0
    rows: list[Any] = [(tree.inner.mu, arm, mu), (tree.inner.cov, arm, cov), (tree.plays, arm, 7.0)]
    rows += [(tree.plays, 0, 8.0)] if twice else []
    new = written(Writes(tree._replace(rounds=4), rows))
    assert same(values_of(tree), before)
    np.testing.assert_array_equal(new.inner.mu[arm], mu)
    np.testing.assert_array_equal(new.inner.cov[arm], cov)
    assert new.plays[arm] == (8.0 if twice and arm == 0 else 7.0)
    assert not twice or new.plays[0] == 8.0
    assert new.rounds == 4
    others = np.arange(len(tree.plays)) != arm
    np.testing.assert_array_equal(new.inner.mu[others], tree.inner.mu[others])
    assert new.network is tree.network or same(values_of(new.network), values_of(tree.network))
    assert new.arms is tree.arms  # what does not change is shared


# Arms


@given(tree_of(), st.integers(0, 3))
def test_an_arm_that_comes_and_goes(tree: Tree, arm: int) -> None:
    inner, n_arms = frozen(tree).inner, len(tree.plays)
    arm %= n_arms
    fresh = Inner(np.full((1, inner.mu.shape[1]), 5.0), np.eye(inner.mu.shape[1])[None])
    new = with_arm(inner, None, fresh)
    np.testing.assert_array_equal(new.mu[-1], fresh.mu[0])
    np.testing.assert_array_equal(new.cov[-1], fresh.cov[0])
    twin = with_arm(inner, arm, fresh)
    np.testing.assert_array_equal(twin.mu[-1], inner.mu[arm])
    for grown in (new, twin):
        assert same(values_of(without_arm(grown, n_arms)), values_of(inner))
    kept = np.delete(np.arange(n_arms), arm)
    np.testing.assert_array_equal(without_arm(inner, arm).cov, inner.cov[kept])


def test_only_arrays_with_one_row_per_arm_change() -> None:
    tree = example()
    new = with_arm(tree, 1, tree)
    assert new.plays.tolist() == [1.0, 2.0, 2.0]
    assert new.inner is tree.inner  # branches are not entered
    assert new.contexts is tree.contexts
    assert without_arm(tree, 0).plays.tolist() == [2.0]


def test_arrays_that_are_absent_stay_absent() -> None:
    class Optional(NamedTuple):
        mu: Annotated[Array, "arm"] | None
        a: Annotated[Array, "arm"]

    grown = with_arm(Optional(None, np.ones(1)), 0, None)
    assert grown.mu is None
    assert grown.a.tolist() == [1.0, 1.0]


# What loading checks


def changed(path: str, value: Any) -> Tree:
    flat = dict(leaves(example()))
    return rebuilt(Tree, {**flat, path: value}, KINDS)  # type: ignore[no-any-return]


COV = np.array([np.eye(2), 2.0 * np.eye(2)])


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("inner/mu", np.zeros((2, 3)), r"inner/cov has shape \(2, 2, 2\), expected \(2, 3, 3\)"),
        ("inner/mu", np.zeros((3, 2)), r"inner/mu has shape \(3, 2\), expected \(2, 2\)"),
        ("inner/mu", np.zeros(2), "inner/mu has shape"),
        ("inner/mu", np.zeros((2, 2, 1)), "inner/mu has shape"),
        ("inner/mu", np.zeros((2, 2), dtype=np.float32), "inner/mu has dtype float32"),
        ("inner/mu", np.array([[0.0, np.nan], [0.0, 0.0]]), "inner/mu has values that are not finite"),
        ("inner/mu", np.full((2, 2), 1e200), "inner/mu has values that are not finite or too large"),
        ("inner/mu", 3.0, "inner/mu is 3.0, expected an array"),
        ("network/cov", COV - 1.5 * np.eye(2), "network/cov is not positive semi-definite"),
        ("network/cov", COV + np.triu(np.ones((2, 2)), 1), "network/cov is not symmetric"),
        ("plays", np.array([1.0, -1e-300]), "plays has values that are not nonnegative"),
        ("plays", np.array([1.0, np.inf]), "plays has values that are not finite"),
        ("plays", np.zeros(3), r"plays has shape \(3,\), expected \(2,\) = \(arm\)"),
        ("arms", np.zeros(3, dtype=np.int32), "arms has dtype int32"),
        ("arms", np.zeros(2, dtype=np.intp), "contexts has shape"),
        ("contexts", np.zeros((3, 2)), "contexts has shape"),
        ("contexts", np.zeros((3, 3, 2)), "contexts has shape"),
        ("rate", 0.0, "rate is 0.0, expected a number that is positive"),
        ("rate", np.nan, "rate is nan"),
        ("rate", 1, "rate is 1, expected float"),
        ("rate", "1", "rate is 1, expected float"),
        ("rounds", -1, "rounds is -1"),
        ("rounds", 2**62, "rounds is"),
        ("rounds", True, "rounds is True, expected int"),
        ("rounds", 1.0, "rounds is 1.0, expected int"),
        ("size", 3, "size is 3, expected 2"),
        ("on", 1, "on is 1, expected bool"),
        ("tensors/a", 1, "tensors must hold arrays only"),
    ],
)  # fmt: skip
def test_an_impossible_state_is_refused(path: str, value: Any, message: str) -> None:
    sizes = {**SIZES, "arm": 2}
    check(example(), sizes)
    with pytest.raises(ValueError, match=message):
        check(changed(path, value), sizes)


def test_known_sizes_are_not_changed_by_checking() -> None:
    sizes = dict(SIZES)
    check(example(2), sizes)
    check(example(3), sizes)
    assert sizes == SIZES


def test_a_covariance_may_be_singular_and_rounded() -> None:
    root = np.random.default_rng(0).normal(size=(2, 2, 1))
    cov = root @ root.transpose(0, 2, 1) * 1e8
    check(changed("network/cov", cov - 1e-6 * np.eye(2)), SIZES)


@every_agent
@pytest.mark.parametrize("rounds", [0, 4, 40])
def test_the_state_of_every_agent_is_as_its_annotations_say(variant: str, rounds: int) -> None:
    agent = make(variant)
    play(agent, rounds)
    agent.add_arm("new", like=0)
    algorithm, state = agent.algorithm, trees.canonical(agent.state)
    assert type(state) is algorithm.state_type
    again = rebuilt(algorithm.state_type, dict(leaves(state)), algorithm.kinds())
    check(again, algorithm.sizes(4))
    algorithm.check(again)
    assert same(values_of(again), values_of(state))
    with pytest.raises(ValueError, match=r"shape|expected"):
        check(again, algorithm.sizes(3))
