"""Batches through the shell: sizes, checks, what is written together, and what fails has changed nothing."""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from helpers.batches import ends_of_batches
from helpers.faults import fails_at, fails_at_line
from helpers.variants import make, named
from helpers.worlds import beliefs, contexts_of, play

import lim2
from lim2.decision import History
from lim2.log import Table

CONTEXTS, ARMS, REWARDS = contexts_of(6, seed=3), [0, 1, 2, 0, 1, 2], np.arange(6.0)
bearing = pytest.mark.parametrize("variant", ["AdaptiveTS", "LinearTS", "AdaptiveTS, linear"])


def test_batches_grow_with_the_rounds() -> None:
    calls: list[tuple[int, int]] = []
    table = Table.of(contexts_of(3000), [0, 1, 2] * 1000, np.ones(3000), np.full(3000, 0.5))
    assert table.replay(make("LinearTS"), "auto", progress=lambda *call: calls.append(call)) == 3000
    assert calls == [(end, 3000) for end in ends_of_batches(3000)]
    sizes = np.diff([0, *(end for end, _ in calls)]).tolist()
    assert sizes[:17] == [1] * 16 + [2] and max(sizes) == 256


def test_auto_is_the_batches_one_would_make_by_hand() -> None:
    contexts, agent, other = contexts_of(100), make("LinearTS"), make("LinearTS")
    agent.update(contexts, [0, 1] * 50, np.ones(100), batch="auto")
    for start, end in pairwise([0, *ends_of_batches(100)]):
        other.update(contexts[start:end], ([0, 1] * 50)[start:end], np.ones(end - start), batch=end - start)
    assert agent.to_bytes() == other.to_bytes()


@pytest.mark.parametrize("batch", [0, -1, 2.5, True, "large", None])
def test_a_size_that_makes_no_sense_is_refused(batch: Any) -> None:
    agent = make("LinearTS")
    with pytest.raises(ValueError, match="batch must be"):
        agent.update(CONTEXTS, ARMS, REWARDS, batch=batch)
    assert agent.rounds == 0


BAD: dict[str, tuple[Any, Any, Any]] = {
    "a context": (np.where(np.arange(6)[:, None] == 4, np.nan, CONTEXTS), ARMS, REWARDS),
    "contexts": (CONTEXTS[:, :2], ARMS, REWARDS),
    "an arm": (CONTEXTS, [0, 1, 2, 0, 1, 9], REWARDS),
    "arms": (CONTEXTS, [0, 1], REWARDS),
    "a reward": (CONTEXTS, ARMS, [0.0, 1.0, 2.0, np.inf, 0.0, 0.0]),
    "rewards": (CONTEXTS, ARMS, [0.0]),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_input_changes_nothing(bad: str) -> None:
    agent = make("AdaptiveTS")
    play(agent, 20)
    before = agent.to_bytes()
    with pytest.raises(ValueError, match=r"must be|must have|arms are|no arm|not an arm"):
        agent.update(*BAD[bad], batch=6)
    with pytest.raises(ValueError, match=r"must be|must have|arms are|no arm|not an arm"):
        learn_logged(agent, *BAD[bad])
    assert agent.to_bytes() == before


@bearing
def test_names_pulls_and_info(variant: str) -> None:
    agent = named(variant)
    names = [agent.arms[arm] for arm in (2, 0, 2, 2)]
    agent.update(CONTEXTS[:4], names, REWARDS[:4], batch=4)
    assert (agent.rounds, agent.pulls.tolist()) == (4, [1, 0, 3])
    assert agent.info is not None
    assert (agent.info.rounds, agent.info.arm) == (4, names[-1])
    agent.update(CONTEXTS[:0], [], [], batch=4)
    assert agent.rounds == 4


@bearing
def test_a_batch_that_fails_anywhere_changes_nothing(variant: str) -> None:
    """Also in a state that nobody else has, whose rows are written where they lie."""
    start = make(variant)
    play(start, 25)
    for batch in (4, 6):
        count, failed = 1, True
        while failed:
            agent = start.copy()
            agent.update(CONTEXTS[0], 0, 0.0)
            learned = agent.copy().to_bytes()
            failed = fails_at(count, partial(agent.update, CONTEXTS, ARMS, REWARDS, batch=batch))
            assert not failed or agent.to_bytes() == learned, f"call {count} failed, and something had changed"
            count += 1 if count < 15 else 11
        assert count > 15


@pytest.mark.parametrize("variant", ["AdaptiveTS", "LinearTS"])
def test_an_interrupt_at_any_line_is_before_or_after(variant: str) -> None:
    """And what is written together with a batch is written if, and only if, the batch is learned."""
    start = make(variant)
    play(start, 25)
    done = start.copy()
    learn_logged(done, CONTEXTS, ARMS, REWARDS)
    before, after, seen, line, failed = start.to_bytes(), done.to_bytes(), set(), 1, True
    while failed:
        agent = start.copy()
        failed = fails_at_line(line, partial(learn_logged, agent, CONTEXTS, ARMS, REWARDS))
        content = agent.to_bytes()
        assert content in (before, after), f"line {line} was interrupted, and the change was made in part"
        assert agent.metadata.get("log_position", 0) == (6 if content == after else 0), f"line {line}"
        seen.add(content)
        line += 1
    assert seen == {before, after}
    assert line > 10


def test_the_position_moves_past_what_teaches_nothing() -> None:
    agent = make("LinearTS")
    agent.learn_logged(None, {"log_position": 3})
    assert (agent.metadata["log_position"], agent.rounds) == (3, 0)


@bearing
def test_a_snapshot_stays_as_it_is(variant: str) -> None:
    agent = make(variant)
    play(agent, 20)
    snapshot, state, probe = agent.snapshot(), agent.state, contexts_of(5, seed=9)
    before = beliefs(snapshot, probe)
    agent.update(CONTEXTS, ARMS, REWARDS, batch=6)
    assert beliefs(snapshot, probe) == before
    assert (snapshot.rounds, agent.rounds) == (20, 26)
    assert agent.state is not state


@bearing
def test_a_saved_agent_goes_on_in_batches(variant: str, tmp_path: Any) -> None:
    agent = make(variant)
    agent.update(CONTEXTS, ARMS, REWARDS, batch=6)
    agent.save(tmp_path / "agent.lim2")
    loaded = lim2.load(tmp_path / "agent.lim2")
    for learner in (agent, loaded):
        learner.update(CONTEXTS, ARMS, REWARDS, batch="auto")
        learner.update(CONTEXTS, ARMS, REWARDS, batch=3)
    assert agent.to_bytes() == loaded.to_bytes()


def test_an_agent_of_a_log_learns_from_nowhere_else() -> None:
    agent = make("LinearTS")
    agent.metadata["log_id"] = "x"
    with pytest.raises(ValueError, match="learns from a decision log"):
        agent.update(CONTEXTS, ARMS, REWARDS, batch=6)
    with pytest.raises(ValueError, match="learns from a decision log"):
        lim2.log.Table.of(CONTEXTS, ARMS, REWARDS, np.ones(6)).replay(agent)
    learn_logged(agent, CONTEXTS, ARMS, REWARDS)
    assert agent.rounds == 6


def learn_logged(agent: lim2.Agent, contexts: Any, arms: Any, rewards: Any) -> None:
    """Let an agent learn one batch, as a log does."""
    agent.learn_logged(History(arms, rewards, contexts), {"log_position": 6})
