"""What agent.info has, against the same quantities computed step by step; what is logged; steps that are left out."""

import copy
import logging
import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lim2
from lim2.matching import Matching, Prior
from lim2.memory import sample
from lim2.paper.lim2_variants import LiM2Variant
from lim2.representation import MLP, SGD, RMSProp
from lim2.representation.optimizers import PATIENCE

Float = NDArray[np.float64]

RNG = np.random.default_rng(0)
CONTEXTS, REWARDS = RNG.normal(size=(80, 3)), RNG.normal(size=80)


def played(rounds: int = 30, name: str = "LiM2", **settings: Any) -> Any:
    agent = lim2.AGENTS[name](2, 3, hidden=(5,), seed=0, **settings)
    agent.update(CONTEXTS[:rounds], np.arange(rounds) % 2, REWARDS[:rounds])
    return agent


@pytest.mark.parametrize("matching", ["batch", "sample", "solve"])
@pytest.mark.parametrize("recount", [True, False])
def test_info_has_loss_drift_and_residual(matching: str, recount: bool) -> None:
    matcher, variant = Matching(matching, rate=5.0), {} if recount else {"recount": False}
    agent = played(name="LiM2" if recount else LiM2Variant.__name__, matching=matcher, **variant)
    before = agent.state
    rng = copy.deepcopy(agent).core.streams.learn  # what the next update draws from
    agent.update(CONTEXTS[30], 0, REWARDS[30])
    net, after, info = agent.algorithm.net, agent.state, agent.info
    batch = sample(after.memory, 32, rng)
    weights, bias = net.last_layer(before.network)
    old, new = net.features(before.network, batch.contexts), net.features(after.network, batch.contexts)
    outputs = np.vecdot(old, weights[batch.arms]) + bias[batch.arms]
    assert info.loss == pytest.approx(np.mean((outputs - batch.rewards) ** 2))
    assert info.gradient_norm > 0.0
    assert info.drift == pytest.approx(np.linalg.norm(new - old) / np.linalg.norm(old))
    covs = before.posterior.cov if recount else before.prior_cov
    step = matcher.step(Prior(covs, before.floor, 0), old, new, batch.groups, 30)
    wanted = np.array([z @ covs[arm] @ z for z, arm in zip(old, batch.arms, strict=True)])
    got = np.array([z @ step.cov[arm] @ z for z, arm in zip(new, batch.arms, strict=True)])
    assert info.residual == pytest.approx(np.linalg.norm(got - wanted) / np.linalg.norm(wanted), rel=1e-6)
    assert info.projections == after.projections
    assert (info.skipped, info.stored, info.evicted) == (0, 31, 0)


def test_a_record_stays_what_it_was() -> None:
    agent = played(20)
    info = agent.info
    shown = repr(info)
    agent.update(CONTEXTS[20:40], np.arange(20) % 2, REWARDS[20:40])
    assert repr(info) == shown
    with pytest.raises(AttributeError):
        info.loss = 0.0


def test_asking_late_gives_the_same_record() -> None:
    """Nothing that a record is computed from is changed by decisions or by asking."""
    agent, other = played(25), played(25)
    agent.act_many(CONTEXTS)
    agent.means(CONTEXTS)
    assert agent.info == other.info


def test_agents_report_what_they_have() -> None:
    mm = lim2.NeuralLinearMM(2, 3, seed=0)
    phases = lim2.NeuralLinear(2, 3, seed=0, train_every=10, steps=3)
    linear = lim2.LinearTS(2, 3, seed=0)
    for agent in (mm, phases, linear):
        agent.update(CONTEXTS[:20], np.arange(20) % 2, REWARDS[:20])
    assert mm.info is not None
    assert phases.info is not None
    assert mm.info.drift is not None
    assert (mm.info.residual, mm.info.projections) == (None, None)
    assert phases.info.drift is not None
    phases.update(CONTEXTS[20], 0, 1.0)  # no training in this round
    assert phases.info.drift is None
    assert repr(linear.info) == "Info(rounds=20, arm=1)"


@pytest.mark.parametrize("batch", [1, 8])
def test_adaptive_ts_reports_the_drift_of_a_refit(batch: int) -> None:
    agent = lim2.AdaptiveTS(2, 3, seed=0)
    drifts: dict[int, float] = {}
    for start in range(0, 320, batch):
        before = (agent.info.refits or 0) if agent.info is not None else 0
        contexts = CONTEXTS[:batch] * (1 if start < 160 else 50)  # other units
        agent.update(contexts, np.arange(batch) % 2, REWARDS[:batch], batch=batch)
        assert agent.info is not None and agent.info.refits is not None
        assert (agent.info.drift is not None) is (agent.info.refits > before)
        if agent.info.drift is not None:
            drifts[start] = agent.info.drift
    settled = [drift for start, drift in drifts.items() if 80 < start < 160]
    assert settled and max(settled) < 0.5 < max(drift for start, drift in drifts.items() if start >= 160)


def test_nothing_is_shown_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    agent = lim2.LiM2(2, 3, buffer=4, seed=0)
    agent.update(CONTEXTS[:20], [0] * 10 + [1] * 10, REWARDS[:20])
    assert capfd.readouterr() == ("", "")
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("lim2").handlers)


def test_what_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lim2")
    agent = lim2.LiM2(2, 3, buffer=4, batch=4, seed=0)
    agent.update(CONTEXTS[:8], [0] * 6 + [1] * 2, REWARDS[:8])
    assert [record.getMessage() for record in caplog.records] == [
        "the buffer is full with 4 tuples: from now on one leaves for each that comes",
        "arm 1 had nothing stored: the oldest tuple of arm 0 left for it",
    ]
    caplog.clear()
    caplog.set_level(logging.DEBUG, "lim2")
    agent.update(CONTEXTS[8], 1, 1.0)
    assert f"LiM2: {agent.info!r}" in caplog.text


def test_projections_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "lim2")
    cov, z = np.eye(2), np.array([[1.0, 0.0]])
    assert lim2.match(cov, z, 100.0 * z, rate=10.0).projections == 1
    assert "arm 0 left the cone" in caplog.text


# Gradients that are not finite: one rule for every network


def networks() -> list[Any]:
    made: list[Any] = [pytest.param(lambda: MLP((5,)), id="MLP")]
    if find_spec("torch"):
        import torch

        from lim2.representation import Torch

        def with_torch() -> Any:
            torch.manual_seed(0)
            return Torch(torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU()).double(), 5, RMSProp())

        made.append(pytest.param(with_torch, id="Torch"))
    return made


def break_gradient(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every gradient be infinite from now on."""
    if isinstance(agent.algorithm.network, MLP):
        monkeypatch.setattr("lim2.representation.optimizers._norm", lambda _: np.inf)
    else:
        monkeypatch.setattr("lim2.representation.torch_optimizers.norm_of", lambda _: np.inf)


@pytest.mark.parametrize("make", networks())
def test_a_step_that_is_not_finite_is_left_out_and_the_rest_happens(
    make: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    agent: Any = lim2.LiM2(2, 3, representation=make(), seed=0)
    agent.update(CONTEXTS[:10], np.arange(10) % 2, REWARDS[:10])
    before, net = agent.state, agent.algorithm.net
    with monkeypatch.context() as patch:
        break_gradient(agent, patch)
        agent.update(CONTEXTS[10], 1, 3.0)
    assert agent.info is not None
    assert (agent.info.skipped, agent.info.stored, agent.rounds) == (1, 11, 11)
    for then, now in zip(net.last_layer(before.network), net.last_layer(agent.state.network), strict=True):
        np.testing.assert_array_equal(then, now)
    np.testing.assert_array_equal(net.features(before.network, CONTEXTS), net.features(agent.state.network, CONTEXTS))
    assert (agent.state.posterior.mu[1] != before.posterior.mu[1]).any()
    assert "left out" in caplog.text
    agent.update(CONTEXTS[11], 1, 3.0)
    assert agent.info.skipped == 1


@pytest.mark.parametrize("make", networks())
def test_a_network_beyond_recovery_is_an_error_that_changes_nothing(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    agent: Any = lim2.LiM2(2, 3, representation=make(), buffer=10, batch=4, seed=0)
    agent.update(CONTEXTS[0], 0, 1.0)
    break_gradient(agent, monkeypatch)
    for t in range(PATIENCE):
        agent.update(CONTEXTS[t % 80], t % 2, 1.0)
    before = pickle.dumps(agent)
    for _ in range(3):
        with pytest.raises(FloatingPointError, match=f"{PATIENCE} steps before"):
            agent.update(CONTEXTS[5], 0, 1.0)
    assert agent.rounds == PATIENCE + 1
    assert pickle.dumps(agent) == before
    assert agent.act(CONTEXTS[0]) in (0, 1)


def test_the_count_is_saved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    agent = lim2.LiM2(2, 3, seed=0)
    agent.update(CONTEXTS[:5], [0] * 5, REWARDS[:5])
    break_gradient(agent, monkeypatch)
    agent.update(CONTEXTS[5], 0, 1.0)
    agent.save(tmp_path / "agent.lim2")
    loaded = lim2.load(tmp_path / "agent.lim2")
    assert loaded.state.network.descent.skipped_in_a_row == 1
    assert loaded.to_bytes() == agent.to_bytes()


def test_warnings_become_rare(caplog: pytest.LogCaptureFixture) -> None:
    net = MLP((4,), SGD(1.0))
    f = net.init((3,), 2, np.random.default_rng(0))
    with np.errstate(all="ignore"):
        for _ in range(PATIENCE):
            _, f, _ = net.train(f, np.full((1, 3), 1e200), np.array([0]), np.array([1e200]))
    assert net.skipped(f) == PATIENCE
    assert len(caplog.records) == 7  # the 1st, 2nd, 4th, ..., 64th
