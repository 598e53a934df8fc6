"""Any sequence of calls, against a model of the log in a few lines of plain Python."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.clock import Clock
from hypothesis import given, settings
from hypothesis import strategies as st
from log.world import N_FEATURES, make_agent, make_log

import lim2
from lim2.decision import History
from lim2.log import ConflictingRewardError

EXPIRE, DEFAULT = 5.0, -2.0


class Learner:
    """An agent's place: it takes note of what it is taught."""

    def __init__(self) -> None:
        self.metadata: dict[str, Any] = {}
        self.arms = ("a", "b", "c")
        self.taught: list[tuple[float, str, float]] = []

    batches = False

    def lacks(self, arm: str) -> bool:
        return arm not in self.arms

    def learn_logged(self, history: History | None, position: Any) -> None:
        if history is not None:
            self.taught.append((float(history.contexts[0][0]), str(history.arms[0]), float(history.rewards[0])))
        self.metadata.update(position)


@dataclass
class Model:
    made: dict[str, tuple[float, float, str]] = field(default_factory=dict)  # id: time, number, arm
    settled: dict[str, tuple[str, float | None]] = field(default_factory=dict)  # in order: kind, reward

    def expire(self, now: float) -> None:
        for id, (time, _, _) in self.made.items():
            if id not in self.settled and time <= now - EXPIRE:
                self.settled[id] = "default", DEFAULT

    def lessons(self) -> list[tuple[float, str, float]]:
        learned = ((self.made[id], reward) for id, (_, reward) in self.settled.items() if reward is not None)
        return [(number, arm, reward) for (_, number, arm), reward in learned]


calls = st.lists(
    st.tuples(
        st.sampled_from(
            ["decide", "decide", "slate", "reward", "reward", "wait", "apply", "discard", "reopen", "crash"]
        ),
        st.integers(0, 11),
        st.sampled_from([0.0, 1.0]),
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(calls)
def test_any_sequence_of_calls(calls: list[tuple[str, int, float]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        clock, model, learner, saved = Clock(0.0), Model(), Learner(), Learner()

        def opened() -> lim2.DecisionLog:
            return make_log(Path(folder), expire_after=EXPIRE, default_reward=DEFAULT, clock=clock)

        log, agent = opened(), make_agent()
        for call, number, reward in calls:
            id = list(model.made)[number % len(model.made)] if model.made else None
            if call == "decide":
                context = np.full(N_FEATURES, float(len(model.made)))
                decision = log.decide(agent, context)
                model.made[decision.id] = clock.now, float(len(model.made)), str(decision.arm)
            elif call == "slate":
                context = np.full(N_FEATURES, float(len(model.made)))
                one = agent.decide(context)
                slate = log.record_slate([replace(one, arm=arm) for arm in one.arms[:2]], context)
                for row in slate:
                    model.made[row.id] = clock.now, float(context[0]), str(row.arm)
            elif call == "reward" and id is not None:
                model.expire(clock.now)
                kind, known = model.settled.get(id, ("pending", None))
                if kind == "reward" and known != reward:
                    with pytest.raises(ConflictingRewardError):
                        log.reward(id, reward)
                else:
                    expected = {"pending": "recorded", "reward": "duplicate"}.get(kind, "late")
                    assert log.reward(id, reward) == expected
                    model.settled.setdefault(id, ("reward", reward))
            elif call == "wait":
                clock.now += number / 3
            elif call == "apply":
                model.expire(clock.now)
                log.apply(learner)
                assert learner.taught == model.lessons()
                saved = Learner()
                saved.metadata, saved.taught = dict(learner.metadata), list(learner.taught)
            elif call == "discard" and id is not None and id not in model.settled:
                log.discard(id)
                model.settled[id] = "discarded", None
            elif call == "crash":  # what was learned since is gone, what was logged is not
                learner = Learner()
                learner.metadata, learner.taught = dict(saved.metadata), list(saved.taught)
            elif call == "reopen":
                log.close()
                log = opened()
        model.expire(clock.now)
        log.apply(learner)
        assert learner.taught == model.lessons()
        fresh = Learner()
        log.replay(fresh)
        assert fresh.taught == model.lessons()
        for id in model.made:
            assert (log.get(id).status, log.get(id).reward) == model.settled.get(id, ("pending", None))
        log.close()
