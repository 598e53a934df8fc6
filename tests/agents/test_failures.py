"""What happens when something fails, forks, or is handed over by other means than a plain copy."""

import os
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lim2
from lim2._blas import OneThread, one_thread
from lim2.representation import MLP, SGD

NEURAL: dict[str, dict[str, Any]] = {
    "LiM2": {},
    "LiM2, no recount": {"recount": False},
    "LiM2-Transport": {"train_every": 1},
    "NeuralLinear-MM": {},
    "NeuralLinear-Naive": {},
    "NeuralLinear-NTK": {},
}


class Breaking(MLP):
    """A network whose training can be made to fail."""

    broken = False

    def train_step(self, contexts: Any, arms: Any, rewards: Any) -> NDArray[np.float64]:
        if self.broken:
            raise OSError("out of something")
        return super().train_step(contexts, arms, rewards)


def visible_state(agent: Any) -> bytes:
    memory = agent.memory
    held = [memory.contexts, memory.arms, memory.rewards, memory.stamps, [memory.rows(a) for a in range(3)]]
    beliefs = [agent.posterior, agent.representation.state(), getattr(agent, "prior", None), agent.rounds, agent.pulls]
    if hasattr(agent, "prior"):
        beliefs[2] = {k: v for k, v in agent.prior.__dict__.items() if k != "matching"}  # bounds may be lower
    return pickle.dumps([np.array(part, dtype=object) for part in held] + beliefs)


@pytest.mark.parametrize("variant", NEURAL)
@pytest.mark.parametrize("rounds", [5, 15, 40], ids=["growing", "just full", "full"])
def test_a_failed_update_leaves_the_agent_as_it_was(variant: str, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    make = lim2.AGENTS[variant.split(",")[0]]
    agent: Any = make(3, 2, buffer=15, batch=4, representation=Breaking((4,)), seed=0, **NEURAL[variant])
    rng = np.random.default_rng(0)
    for t in range(rounds):
        agent.update(rng.normal(size=2), t % 3, float(t))
    agent.memory.add(np.ones(2), 0, 1.0)  # a full buffer has grouped its arms before the next tuple comes
    before = visible_state(agent)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="out of something"):
        patch.setattr(Breaking, "broken", True)
        agent.update(np.ones(2), 1, 5.0)
    assert visible_state(agent) == before
    agent.update(np.ones(2), 1, 5.0)
    assert agent.rounds == rounds + 1


def test_diverging_training_is_an_error_not_a_silent_agent() -> None:
    agent = lim2.LiM2(3, 4, representation=MLP((20,), SGD(50.0, clip=None)), seed=0)
    rng = np.random.default_rng(1)
    with pytest.raises(FloatingPointError, match="learning_rate"):
        for t in range(500):
            agent.update(rng.normal(size=4), t % 3, 1.0)
    assert all(np.isfinite(value).all() for value in agent.representation.state().values())


@pytest.mark.parametrize("name", ["LiM2", "LiM2-Transport", "LinearTS", "NeuralLinear-NTK", "NeuralLinear-MM"])
def test_arrays_that_arrive_read_only_become_ones_own(name: str) -> None:
    """Pickles with buffers out of band, as joblib and others hand them over, in memory that is not ours."""
    agent = lim2.AGENTS[name](3, 4, seed=0)
    rng = np.random.default_rng(2)
    for t in range(20):
        agent.update(rng.normal(size=4), t % 3, 1.0)
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(agent, protocol=5, buffer_callback=buffers.append)
    frozen = [bytes(buffer.raw()) for buffer in buffers]
    copies = [bytes(bytearray(part)) for part in frozen]
    other = pickle.loads(body, buffers=frozen)
    context = rng.normal(size=4)
    for _ in range(3):
        agent.update(context, 1, 0.5)
        other.update(context, 1, 0.5)
    assert frozen == copies, "memory that belongs to others was written"
    np.testing.assert_array_equal(agent.means(context), other.means(context))  # type: ignore[attr-defined]


def test_float32_features_are_taken() -> None:
    class Single(MLP):
        def features(self, contexts: Any) -> Any:
            return super().features(contexts).astype(np.float32)

        def train_step(self, contexts: Any, arms: Any, rewards: Any) -> Any:
            return super().train_step(contexts, arms, rewards).astype(np.float32)

    for name in ("LiM2", "NeuralLinear-MM", "NeuralLinear-NTK", "NeuralLinear"):
        agent = lim2.AGENTS[name](2, 3, representation=Single((5,)), seed=0)
        for t in range(10):
            agent.update(np.ones(3) * t, t % 2, 1.0)
        assert agent.rounds == 10


def test_the_guard_counts_threads_that_overlap() -> None:
    counts = {"threads": 2}
    guard = OneThread()
    guard._switches = [(lambda: counts["threads"], lambda n: counts.update(threads=n))]
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with guard:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with guard:
        thread.start()
        inside.wait()
    assert counts["threads"] == 1  # the other thread is still inside
    leave.set()
    thread.join()
    assert counts["threads"] == 2


def test_the_guard_is_not_left_on_when_entering_fails() -> None:
    guard = OneThread()

    def fail() -> int:
        raise RuntimeError("interrupted")

    counts = {"threads": 2}
    guard._switches = [(fail, lambda n: None)]
    with pytest.raises(RuntimeError), guard:
        pass
    guard._switches = [(lambda: counts["threads"], lambda n: counts.update(threads=n))]
    with guard:
        assert counts["threads"] == 1
    assert counts["threads"] == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_while_another_thread_is_inside() -> None:
    """The lock may be held, and the count is above 0, by threads that the child does not have."""
    agent = lim2.LinearTS(2, 3, seed=0)
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with one_thread, one_thread._lock:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        agent.update([1.0, 2.0, 3.0], 0, 1.0)
        os._exit(0 if one_thread._inside == 0 else 1)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
