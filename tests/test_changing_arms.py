"""Components whose arms come and go, each against a fresh one that never had other arms."""

import pickle
from typing import Any

import numpy as np
import pytest

from lim2.agents.priors import Carried
from lim2.agents.window import Window
from lim2.exploration import Posterior, RecursivePosterior, TransportedPosterior
from lim2.exploration.gradient_precision import LARGEST_FULL, Diagonal, Full
from lim2.matching import Matching
from lim2.memory import Buffer, History
from lim2.representation import MLP, SGD, Adam, RMSProp
from lim2.representation.blocks import BlockNetwork

RNG = np.random.default_rng


def observed(kind: Any, arms: list[int], n_arms: int) -> Any:
    """Beliefs that have seen a tuple of each of these arms; arm i's tuples are the same whatever the others are."""
    beliefs = kind(n_arms, 3, 0.5)
    for index, arm in enumerate(arms):
        for row in RNG(arm).normal(size=(4, 3)):
            beliefs.observe(index, row, float(row.sum()))
    return beliefs


@pytest.mark.parametrize("kind", [Posterior, RecursivePosterior, TransportedPosterior])
def test_beliefs(kind: Any) -> None:
    features = RNG(9).normal(size=(5, 3))
    removed = observed(kind, [0, 1, 2], 3)
    removed.remove_arm(1)
    assert pickle.dumps(removed.moments(features)) == pickle.dumps(observed(kind, [0, 2], 2).moments(features))
    added = observed(kind, [0, 1], 2)
    added.add_arm()
    assert pickle.dumps(added.moments(features)) == pickle.dumps(observed(kind, [0, 1], 3).moments(features))
    twin = observed(kind, [0, 1], 2)
    twin.add_arm(like=0)
    assert pickle.dumps(twin.moments(features)) == pickle.dumps(observed(kind, [0, 1, 0], 3).moments(features))
    twin.observe(2, features[0], 5.0)  # a copy: the first arm does not learn with it
    np.testing.assert_array_equal(twin.cov[0], observed(kind, [0], 1).cov[0])


def filled(kind: Any, arms: list[int], n_arms: int, **settings: Any) -> Any:
    memory = kind(n_arms=n_arms, shape=1, **settings)
    for t, arm in enumerate(arms):
        memory.add(np.array([float(t)]), arm, float(t))
    return memory


@pytest.mark.parametrize("settings", [{"capacity": 6}, {"capacity": 20}, None], ids=["full", "growing", "history"])
def test_memories(settings: dict[str, Any] | None) -> None:
    kind, settings = (History, {}) if settings is None else (Buffer, settings)
    memory = filled(kind, [0, 1, 2, 2, 1, 0, 2, 2, 2], 3, **settings)
    kept = {arm: sorted(memory.rewards[memory.rows(arm)]) for arm in range(3)}
    memory.remove_arm(1)
    assert memory.counts.tolist() == [len(kept[0]), len(kept[2])]
    assert [sorted(memory.rewards[memory.rows(arm)]) for arm in range(2)] == [kept[0], kept[2]]
    assert memory.contexts[:, 0].tolist() == memory.rewards.tolist()
    memory.add_arm()
    for t in range(100, 130):
        memory.add(np.array([float(t)]), t % 3, float(t))
        batch = memory.sample(10, RNG(t))
        assert batch.arms.max() <= 2
        for arm in range(3):
            assert (memory.arms[memory.rows(arm)] == arm).all()
    assert memory.counts.min() > 0
    assert len(set(memory.stamps.tolist())) == len(memory)
    if memory.capacity is not None:
        assert len(memory) == settings["capacity"] or len(memory) < memory.capacity
        oldest = filled(kind, [t % 3 for t in range(100, 130)], 3, **settings)
        assert memory.counts.sum() >= oldest.counts.sum() or len(memory) == memory.capacity


def test_the_oldest_tuple_leaves_first_after_a_change() -> None:
    buffer = filled(Buffer, [0, 1, 0, 1, 0, 1, 0], 2, capacity=6)  # 0.0 left for 6.0
    buffer.add_arm(capacity=7)
    assert buffer.add(np.zeros(1), 2, 100.0) is None
    evicted = [buffer.add(np.zeros(1), 0, 200.0) for _ in range(3)]
    assert [part.reward for part in evicted if part] == [2.0, 4.0, 6.0]


def test_windows() -> None:
    for bound in (None, 4, 20):
        window = Window(1, bound)
        for t in range(10):
            window.stage(np.array([float(t)]), t % 3, float(t))
            window.commit()
        kept = [t for t in range(10) if t % 3 != 1 and (bound is None or t >= 10 - bound)]
        window.remove_arm(1)
        assert window.rewards[window.slots()].tolist() == kept
        assert window.arms[window.slots()].tolist() == [(0, -1, 1)[t % 3] for t in kept]
        for t in range(100, 110):
            window.stage(np.array([0.0]), 0, float(t))
            window.commit()
        expected = ([*kept, *range(100, 110)])[-(bound or 100) :]
        assert window.rewards[window.slots()].tolist() == expected


@pytest.mark.parametrize("optimizer", [RMSProp(), Adam(), SGD()], ids=repr)
def test_networks(optimizer: Any) -> None:
    def trained() -> MLP:
        net = MLP((5, 4), pickle.loads(pickle.dumps(optimizer)))
        net.bind(3, 3, RNG(0))
        for step in range(5):
            net.train_step(RNG(step).normal(size=(12, 3)), np.arange(12) % 3, np.ones(12))
        return net

    contexts = RNG(7).normal(size=(6, 3))
    net, changed = trained(), trained()
    changed.add_arm(RNG(1), like=0)
    np.testing.assert_array_equal(changed.features(contexts), net.features(contexts))
    np.testing.assert_array_equal(changed.head[0], net.head[0][[0, 1, 2, 0]])
    np.testing.assert_array_equal(changed.head[1], net.head[1][[0, 1, 2, 0]])
    # Statistics moved along: a step on the copy's tuples moves it as the same step would have moved the original.
    net.train_step(contexts, np.zeros(6, dtype=np.intp), np.ones(6))
    changed.train_step(contexts, np.full(6, 3), np.ones(6))
    np.testing.assert_allclose(changed.head[0][3], net.head[0][0], rtol=1e-12)
    changed.remove_arm(0)
    np.testing.assert_allclose(changed.head[0][2], net.head[0][0], rtol=1e-12)
    np.testing.assert_allclose(changed.features(contexts), net.features(contexts), rtol=1e-12)
    fresh = MLP((5, 4), pickle.loads(pickle.dumps(optimizer)))
    fresh.bind(3, 3, RNG(0))
    assert changed.nbytes == fresh.nbytes
    changed.add_arm(RNG(1))
    assert changed.head[1][-1] == 0.0
    assert 0.0 < np.abs(changed.head[0][-1]).max() < 0.3
    for values in changed.optimizer.statistics.values():
        assert values[-1] == changed.optimizer._start()
    pickle.loads(pickle.dumps(changed)).train_step(contexts, np.arange(6) % 4, np.ones(6))


def test_torch_networks() -> None:
    torch = pytest.importorskip("torch")
    from lim2.representation import Torch

    for optimizer in (RMSProp(), Adam(), torch.optim.Adagrad):
        layer = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh()).double()
        pair = [Torch(pickle.loads(pickle.dumps(layer)), 4, optimizer) for _ in range(2)]
        contexts = RNG(7).normal(size=(6, 3))
        for net in pair:
            net.bind(3, 3, RNG(0))
            net.train_step(contexts, np.arange(6) % 3, np.ones(6))
        net, changed = pair
        changed.add_arm(RNG(1), like=0)
        np.testing.assert_array_equal(changed.head[0], net.head[0][[0, 1, 2, 0]])
        net.train_step(contexts, np.zeros(6, dtype=np.intp), np.ones(6))
        changed.train_step(contexts, np.full(6, 3), np.ones(6))
        np.testing.assert_allclose(changed.head[0][3], net.head[0][0], rtol=1e-12)
        changed.remove_arm(0)
        np.testing.assert_allclose(changed.head[0][2], net.head[0][0], rtol=1e-12)
        changed.add_arm(RNG(1))
        assert changed.head[1][-1] == 0.0
        if isinstance(optimizer, RMSProp):
            assert changed.state()["optimizer.2.mean_square"][-1].tolist() == [1.0] * 4
        changed.train_step(contexts, np.arange(6) % 4, np.ones(6))
        other = pickle.loads(pickle.dumps(changed))
        np.testing.assert_array_equal(other.head[0], changed.head[0])


def test_block_networks() -> None:
    net = BlockNetwork(3, 2, 4, RNG(0))
    contexts = RNG(1).normal(size=(5, 2))
    before, _ = net.forward(contexts)
    net.add_arm(RNG(2), like=1)
    np.testing.assert_array_equal(net.forward(contexts)[0], before[[0, 1, 2, 1]])
    net.add_arm(RNG(2))
    assert np.abs(net.weights[4]).max() < 1.0 / np.sqrt(10)
    for arm in (4, 3, 0):
        net.remove_arm(arm)
    np.testing.assert_array_equal(net.forward(contexts)[0], before[1:])
    assert net.size == BlockNetwork(2, 2, 4, RNG(0)).size


@pytest.mark.parametrize("kind", [Diagonal, Full])
def test_gradient_precisions(kind: Any) -> None:
    rng = RNG(0)
    known = kind(3, 2, 4, 0.5)
    for t in range(12):
        known.observe(rng.normal(size=2), t % 3, rng.normal(size=4), rng.normal(size=4))
    contexts, gates, hidden = rng.normal(size=(5, 2)), rng.normal(size=(1, 5, 4)), rng.normal(size=(1, 5, 4))

    def spreads(n_arms: int) -> Any:
        return known.spreads(contexts, np.repeat(gates, n_arms, axis=0), np.repeat(hidden, n_arms, axis=0))

    before = spreads(3)
    known.add_arm(like=1)
    np.testing.assert_allclose(spreads(4), before[[0, 1, 2, 1]], rtol=1e-12)
    if kind is Full:
        assert np.linalg.eigvalsh(known.inverse)[0] > 0.0
    known.add_arm()
    if kind is Full:  # nothing is known of its block
        np.testing.assert_array_equal(known.inverse[32:40], np.eye(49)[32:40] / 0.5)
    else:
        assert (spreads(5)[4] > spreads(5)[:4].max(axis=0)).all()
    known.observe(contexts[0], 3, gates[0, 0], hidden[0, 0])
    for arm in (4, 3):
        known.remove_arm(arm)
    assert (spreads(3) <= before + 1e-12).all()  # the copy taught what is shared
    known.remove_arm(0)
    assert spreads(2).shape == (2, 5)
    assert known.nbytes == kind(2, 2, 4, 0.5).nbytes


def test_a_full_matrix_does_not_outgrow_its_bound() -> None:
    known = Full(1, 1, 3, 1.0)
    known._block = LARGEST_FULL
    before = known.inverse.copy()
    with pytest.raises(ValueError, match="diagonal"):
        known.add_arm()
    np.testing.assert_array_equal(known.inverse, before)


@pytest.mark.parametrize("recount", [True, False])
def test_carried_priors(recount: bool) -> None:
    posterior = observed(Posterior, [0, 1], 2)
    prior = Carried(posterior, Matching("batch"), recount, 0.5)
    for like, expected in ((None, np.eye(3) / 0.5), (0, prior.covs[0].copy())):
        posterior.add_arm(like)
        prior.add_arm(like)
        np.testing.assert_array_equal(prior.covs[-1], expected)
    assert prior.matching is not None
    prior.matching.floor[:] = np.arange(4)
    posterior.remove_arm(1)
    prior.remove_arm(1)
    assert prior.matching.floor.tolist() == [0.0, 2.0, 3.0]
    assert len(prior.covs) == 3
