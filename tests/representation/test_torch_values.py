"""Networks of PyTorch are values, though modules change in place: whoever asks, in whatever order, in any thread."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import lim2
from lim2.representation import Adam
from lim2.state import copied, frozen

torch = pytest.importorskip("torch")
from helpers.torch_modules import (  # noqa: E402
    N_ARMS,
    N_FEATURES,
    SMALL,
    WIDTH,
    Masked,
    OneLayer,
    agent_of,
    batch_of,
    normal,
    play,
    seeded,
    torch_of,
    values,
)
from torch.optim import SGD  # noqa: E402

from lim2.representation import Torch, torch_arrays, torch_workspace  # noqa: E402


def start_of(net: Torch, seed: int = 0) -> Any:
    return frozen(net.init((N_FEATURES,), N_ARMS, np.random.default_rng(seed)))


def trained(net: Torch, f: Any, *seeds: int) -> Any:
    for seed in seeds:
        f = frozen(net.train(f, *batch_of(seed=seed))[1])
    return f


def test_networks_branch_and_are_trained_in_any_order() -> None:
    net, fresh = torch_of(), torch_of()
    f = start_of(net)
    one, other = trained(net, f, 0, 1), trained(net, f, 2)
    for g in (one, f, other, f, one):  # more than are kept at once
        np.testing.assert_array_equal(net.features(g, normal(4)), fresh.features(copied(g), normal(4)))
    assert values(trained(net, one, 5)) == values(trained(fresh, f, 0, 1, 5))
    assert values(trained(net, f, 0, 1)) == values(one)
    assert values(trained(net, f, 2)) == values(other)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that grows by every tensor that is written when a network is loaded."""
    tensors: list[Any] = []

    def counted(tensor: Any, array: Any) -> None:
        tensors.append(tensor)
        torch_arrays.assign(tensor, array)

    monkeypatch.setattr(torch_workspace, "assign", counted)
    return tensors


def test_two_networks_take_turns_without_being_loaded_again(written: list[Any]) -> None:
    net = torch_of()
    f, g = start_of(net), start_of(net, 1)
    for seed in range(3):
        net.features(f, normal(3))
        g = trained(net, g, seed)
        net.features(g, normal(3))
    assert not written
    h = start_of(net, 2)
    for network in (h, g, f):  # f was used longest ago, and is loaded in place of h
        net.features(network, normal(3))
    assert len({id(tensor) for tensor in written}) == len(written) == 4
    assert len(net._spaces) == 2


def test_an_agent_s_rounds_load_nothing(written: list[Any]) -> None:
    agent = agent_of()
    play(agent, normal(10))
    assert not written
    agent.add_arm(3)
    agent.means(normal(1)[0])
    assert len(written) == 4


def test_what_did_not_change_is_not_written_again(written: list[Any]) -> None:
    net = torch_of(lambda: OneLayer().requires_grad_(False))
    f = start_of(net)
    g, h = trained(net, f, 0), start_of(net, 1)
    for network in (g, h, f):  # f in place of g
        net.features(network, normal(3))
    assert len(written) == 2  # the head; the module's parameters are the same arrays in f and g


class Failing(SGD):
    """Raises in the middle of a step, when it is told to."""

    error: type[BaseException] | None = None

    def step(self, closure: Any = None) -> Any:
        taken = super().step(closure)
        if Failing.error is not None:
            raise Failing.error("in the middle")
        return taken


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("place", ["step", "backward", "read out"])
def test_after_a_failure_nothing_has_happened(
    error: type[BaseException], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(*_: Any) -> Any:
        raise error

    net = torch_of(optimizer=Failing)
    f = trained(net, start_of(net), 0)
    expected, features = values(trained(net, f, 1)), net.features(f, normal(3))
    with monkeypatch.context() as patch, pytest.raises(error):
        if place == "step":
            patch.setattr(Failing, "error", error)
        elif place == "backward":  # gradients are there already
            patch.setattr("lim2.representation.torch_optimizers.norm_of", raises)
        else:
            patch.setattr(torch_workspace, "array_of", raises)
        trained(net, f, 1)
    for g in (f, copied(f), copied(f)):  # in every workspace
        np.testing.assert_array_equal(net.features(g, normal(3)), features)
        assert values(trained(net, g, 1)) == expected


def test_a_network_that_could_not_be_loaded_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(tensor: Any, array: Any) -> None:
        torch_arrays.assign(tensor, array)
        raise KeyboardInterrupt

    net = torch_of()
    networks = [start_of(net)]
    networks += [trained(net, networks[0], 0), trained(net, networks[0], 0, 1)]
    expected = [net.features(f, normal(3)) for f in networks]
    for f in networks:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(torch_workspace, "assign", interrupted)
            net.features(copied(f), normal(3))
        for g, features in zip(networks, expected, strict=True):
            np.testing.assert_array_equal(net.features(g, normal(3)), features)


def test_an_update_that_fails_leaves_the_agent_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, twin = agent_of(optimizer=Failing), agent_of(optimizer=Failing)
    for one in (agent, twin):
        play(one, normal(10))
    before = pickle.dumps(agent)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="in the middle"):
        patch.setattr(Failing, "error", OSError)
        agent.update(normal(1)[0], 0, 1.0)
    assert pickle.dumps(agent) == before
    assert play(agent, normal(10, seed=1)) == play(twin, normal(10, seed=1))


def test_threads_compute_different_networks_at_once() -> None:
    net, n_threads = torch_of(), 4
    networks = [start_of(net)]
    for seed in range(7):
        networks.append(trained(net, networks[-1], seed))
    contexts = normal(50).astype(np.float32)
    expected = [net.features(f, contexts) for f in networks]
    barrier = threading.Barrier(n_threads)

    def work(thread: int) -> bool:
        barrier.wait()
        order = np.random.default_rng(thread).integers(len(networks), size=60)
        same = all(np.array_equal(net.features(networks[i], contexts), expected[i]) for i in order)
        return same and values(trained(net, networks[thread], thread)) == values(networks[thread + 1])

    with ThreadPoolExecutor(n_threads) as pool:
        assert all(pool.map(work, range(n_threads)))


def test_snapshots_decide_in_other_threads_while_the_agent_learns() -> None:
    agent, contexts = agent_of(), normal(20)
    play(agent, contexts)
    snapshot, learning, done = agent.snapshot(), threading.Event(), threading.Event()
    expected = agent.means(contexts)

    def read() -> int:
        rounds = 0
        learning.wait()
        while not done.is_set() or not rounds:
            np.testing.assert_array_equal(snapshot.means(contexts), expected)
            rounds += 1
        return rounds

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        learning.set()
        try:
            play(agent, normal(30, seed=1))
        finally:
            done.set()
        assert all(reader.result() for reader in readers)
    assert np.abs(agent.means(contexts) - expected).max() > 0


def test_the_module_given_is_never_changed() -> None:
    module = seeded(OneLayer).train()
    before = copy.deepcopy(module.state_dict())
    for given in (module, lambda: module):
        agent = lim2.LiM2(N_ARMS, N_FEATURES, representation=Torch(given, WIDTH), seed=0, **SMALL)
        play(agent, normal(20))
        assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
        assert module.training
        assert all(parameter.grad is None for parameter in module.parameters())


def test_what_happens_to_the_module_given_later_has_no_effect() -> None:
    module = OneLayer()
    net = Torch(module, WIDTH)
    f = start_of(net)
    with torch.no_grad():
        module.layer.weight.fill_(7.0)
    module.requires_grad_(False)
    assert values(start_of(net)) == values(f)
    with ThreadPoolExecutor(1) as pool:  # which makes a workspace of its own
        assert values(pool.submit(trained, net, f, 0).result()) == values(trained(net, f, 0))


def test_one_torch_serves_many_agents() -> None:
    net = torch_of()
    agents = [lim2.LiM2(N_ARMS, N_FEATURES, representation=net, seed=seed, **SMALL) for seed in range(3)]
    alone = [
        lim2.LiM2(N_ARMS, N_FEATURES, representation=torch_of(), seed=seed, **SMALL) for seed in range(len(agents))
    ]
    for t, context in enumerate(normal(20)):
        for one in (*agents, *alone):
            one.update(context, t % N_ARMS, float(t % 2))
    for agent, other in zip(agents, alone, strict=True):
        assert values(agent.state.network) == values(other.state.network)
    assert lim2.LiM2(N_ARMS + 1, N_FEATURES, representation=net).n_arms == N_ARMS + 1


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))], ids=["copy", "pickle"])
@pytest.mark.parametrize("module", ["instance", "function"])
def test_a_copy_has_the_settings_and_nothing_of_the_work(clone: Any, module: str) -> None:
    given = OneLayer if module == "function" else seeded(OneLayer)
    net = Torch(given, WIDTH, Adam(0.01), dtype=np.float32, init_range=0.2)
    size = len(pickle.dumps(net))
    f = trained(net, start_of(net), 0)
    other = clone(net)
    assert repr(other) == repr(net)
    assert values(start_of(other)) == values(start_of(net))
    assert values(trained(other, f, 1)) == values(trained(net, f, 1))
    assert len(pickle.dumps(net)) == size
    if module == "instance":
        assert other.template is not net.template


def test_equal_networks_have_equal_pickles() -> None:
    assert pickle.dumps(torch_of(Masked)) == pickle.dumps(torch_of(Masked))


def test_buffers_are_part_of_a_network() -> None:
    net = torch_of(Masked)
    f = start_of(net)
    g = trained(net, f, 0, 1)
    assert f.tensors["module.mask"].tolist() == [-np.inf, 0.0]
    assert int(g.tensors["module.passes"]) > int(f.tensors["module.passes"])
