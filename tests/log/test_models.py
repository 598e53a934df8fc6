"""Agents that are published in the log, and the right to learn, which one has at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.waiting import until
from log.world import learned, live, make_agent, make_log

import lim2


def test_a_published_agent_is_made_again_elsewhere(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log, make_log(tmp_path) as other:
        assert other.model() is None
        live(log, agent, 20)
        first = log.publish(agent)
        model = other.model()
        assert model is not None
        assert (model.version, model.position) == (first, 20)
        twin = lim2.from_bytes(model.data)
        assert learned(twin) == learned(agent)
        assert other.model(after=first) is None
        live(log, agent, 10, seed=1)
        second = log.publish(agent)
        newer = other.model(after=first)
        assert newer is not None
        assert (newer.version > first, newer.position) == (True, 30)
        assert other.apply(twin) == 10
        assert learned(twin) == learned(agent)
        for _ in range(3):
            log.publish(agent)
        last = log.publish(agent)
        assert second < last == (log.model() or newer).version
        with log.store.copying() as copy:
            assert [model.version for model in copy.models()] == [last - 1, last]


@pytest.mark.parametrize("kind", ["items", "bandit"])
def test_agents_of_every_kind_can_be_published(tmp_path: Path, kind: str) -> None:
    agent = (
        lim2.Bandit(arms=["a"], seed=0)
        if kind == "bandit"
        else lim2.AdaptiveTS(n_features=2, n_item_features=1, seed=0)
    )
    with make_log(tmp_path) as log:
        log.publish(agent)
        model = log.model()
        assert model is not None
        assert type(lim2.from_bytes(model.data)) is type(agent)


HOLDER = """
import sys, lim2
log = lim2.DecisionLog(sys.argv[1])
assert log.lead() is not None
print("leads", flush=True)
sys.stdin.read()
"""


def test_one_leads_at_a_time(tmp_path: Path) -> None:
    with make_log(tmp_path) as log, make_log(tmp_path) as other:
        lease = log.lead()
        assert lease is not None
        assert other.lead() is None
        assert log.lead() is None
        lease.release()
        taken = other.lead()
        assert taken is not None
        taken.release()


def test_the_lead_ends_with_the_process(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        command = [sys.executable, "-c", HOLDER, log.store.name]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "leads\n"
            assert log.lead() is None
            process.kill()
            process.wait()
        until(log.lead, "the lead").release()  # a server hears of it a moment later
