"""Many threads and processes on one log."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from log.world import address, contexts, learned, make_agent, make_log

import lim2
from lim2.log import ConflictingRewardError


def run_all(tasks: list[threading.Thread]) -> None:
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()


def test_threads_decide_and_reward_while_one_learns(tmp_path: Path) -> None:
    learner, lock = make_agent(), threading.Lock()
    done = threading.Event()
    outcomes: list[str] = []
    errors: list[BaseException] = []
    with make_log(tmp_path) as log:

        def serve(seed: int) -> None:
            try:
                for context in contexts(25, seed):
                    with lock:  # an agent is for one thread at a time
                        decision = log.decide(learner, context)
                    outcomes.append(log.reward(decision.id, float(context[0])))
            except BaseException as error:  # noqa: BLE001 (raised below)
                errors.append(error)

        def learn() -> None:
            while not done.wait(0.005):
                with lock:
                    log.apply(learner)

        learning = threading.Thread(target=learn)
        learning.start()
        run_all([threading.Thread(target=serve, args=(seed,)) for seed in range(4)])
        done.set()
        learning.join()
        log.apply(learner)
        fresh = make_agent()
        assert log.replay(fresh) == 100
    assert not errors
    assert outcomes == ["recorded"] * 100
    assert learned(fresh) == learned(learner)


def test_one_of_many_conflicting_rewards_wins(tmp_path: Path) -> None:
    agent = make_agent()
    recorded: list[float] = []
    with make_log(tmp_path) as log:
        id = log.decide(agent, np.zeros(4)).id

        def record(reward: float) -> None:
            try:
                log.reward(id, reward)
                recorded.append(reward)
            except ConflictingRewardError:
                pass

        run_all([threading.Thread(target=record, args=(float(i),)) for i in range(8)])
        assert recorded == [log.get(id).reward]
        assert log.apply(agent) == 1


def test_nobody_saves_between_a_reward_and_its_position(tmp_path: Path) -> None:
    seen = []
    with make_log(tmp_path) as log:

        class Saved:
            def save(self, path: Path) -> None:
                seen.append((path.name, log._learning.locked()))

        log.save(Saved(), tmp_path / "agent.lim2")
    assert seen == [("agent.lim2", True)]


PROCESSES = """
import os, sys
import numpy as np
import lim2

def opened():
    return lim2.DecisionLog(sys.argv[1], synchronous="normal")

def work(number, log):
    rng = np.random.default_rng(number)
    agent = lim2.LinearTS(arms=["a", "b", "c"], n_features=4, seed=number)
    for context in rng.normal(size=(25, 4)):
        decision = log.decide(agent, context, id=f"{number}-{rng.integers(2**60)}")
        assert log.reward(decision.id, float(context[0])) == "recorded"
    # SQLite forbids to use a connection across a fork, though it may seem to work.
    assert log.store._handle.process == os.getpid()

# Half of them open the log by themselves, all at once, when it is not there yet; then half inherit one that is open.
for inherited in (False, True):
    log = opened() if inherited else None
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            work(number + 4 * inherited, log or opened())
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0, 0]
    if inherited:
        work(8, log)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="fork")
def test_processes_share_a_log(tmp_path: Path) -> None:
    path = str(address(tmp_path))
    done = subprocess.run([sys.executable, "-c", PROCESSES, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    one, other = make_agent(), make_agent()
    with lim2.DecisionLog(path) as log:
        assert log.apply(one) == 9 * 25
        assert log.replay(other) == 9 * 25
        assert (log.state.rewards, log.state.pending, log.position) == (225, 0, 225)
    assert learned(one) == learned(other)
