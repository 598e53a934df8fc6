"""The right to learn: who has lost it writes nothing."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from helpers.clock import Clock
from log.world import N_FEATURES, contexts, make_log

import lim2
from lim2.log import LostLeaseError

X = np.ones(N_FEATURES)


def make_learner() -> lim2.Agent:
    return lim2.AdaptiveTS(arms=["a", "b", "c"], n_features=N_FEATURES, hidden=4, buffer=60, seed=7)


def test_who_has_the_right_publishes_and_learns(tmp_path: Path) -> None:
    agent = make_learner()
    with make_log(tmp_path) as log:
        lease = log.lead()
        assert lease is not None
        assert lease.held
        for x in contexts(20):
            log.reward(log.decide(agent, x).id, 1.0)
        assert log.apply(agent, batch="auto", lease=lease) == 20
        assert log.publish(agent, lease=lease) == 1
        lease.release()
        assert not lease.held
        lease.release()


def test_the_number_grows_each_time(tmp_path: Path) -> None:
    with make_log(tmp_path) as log, make_log(tmp_path) as other:
        epochs = []
        for one in (log, other, log):
            lease = one.lead()
            assert lease is not None
            epochs.append(lease.epoch)
            lease.release()
        assert epochs == sorted(set(epochs))


def test_who_has_lost_it_writes_nothing(tmp_path: Path) -> None:
    agent, other, clock = make_learner(), make_learner(), Clock(0.0)
    with make_log(tmp_path, clock=clock, keep=timedelta(seconds=5)) as log, make_log(tmp_path) as beside:
        lost = log.lead()
        assert lost is not None
        for x in contexts(20):
            log.reward(log.decide(agent, x).id, 1.0)
        log.apply(agent, limit=10, batch=5, lease=lost)
        lost.release()
        lease = beside.lead()
        assert lease is not None
        with pytest.raises(LostLeaseError, match="Ask for a new lease"):
            log.publish(agent, lease=lost)
        with pytest.raises(LostLeaseError):
            log.apply(agent, batch=5, lease=lost)
        assert (agent.rounds, agent.metadata["log_position"]) == (10, 10)
        clock.now = 100.0
        with pytest.raises(LostLeaseError):
            log.apply(agent, limit=0, lease=lost)  # which would delete what is old
        assert (log.state.pruned, log.model()) == (0, None)
        beside.apply(other, batch=5, lease=lease)
        assert beside.publish(other, lease=lease) == 1
        lease.release()


def test_an_older_lease_is_refused_though_its_holder_knows_nothing_of_it(tmp_path: Path) -> None:
    """Its process had slept: it does not know that its connection is gone, and somebody else has published."""
    agent = make_learner()
    with make_log(tmp_path) as log:
        first = log.lead()
        assert first is not None
        epoch = first.epoch
        first.release()
        second = log.lead()
        assert second is not None

        class Asleep:
            """What believes that it is still held."""

            held = True

            def __init__(self) -> None:
                self.epoch = epoch

            def release(self) -> None:
                """Nothing is left to release."""

        with pytest.raises(LostLeaseError):
            log.publish(agent, lease=Asleep())
        log.publish(agent, lease=second)
        second.release()
