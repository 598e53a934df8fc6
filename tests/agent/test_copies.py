"""Copies: by copy, deepcopy, pickle and files, and that they are independent."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.variants import every_agent, make, own_module
from helpers.worlds import beliefs, contexts_of, play

import lim2

COPYING: dict[str, Any] = {
    "copy": lambda agent: agent.copy(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda agent: pickle.loads(pickle.dumps(agent)),
}
every_copy = pytest.mark.parametrize("copied", COPYING.values(), ids=COPYING.keys())


@every_agent
@pytest.mark.parametrize("rounds", [0, 4, 50], ids=["fresh", "starting", "full"])
def test_copies_go_on_as_the_original(variant: str, rounds: int) -> None:
    agent = make(variant)
    play(agent, rounds)
    agent.metadata["note"] = ["of the user"]
    copies = {way: copied(agent) for way, copied in COPYING.items()}
    before, metadata, params = agent.to_bytes(), copy.deepcopy(agent.metadata), agent.get_params().keys()
    played, contexts = play(agent, 40, seed=1), contexts_of(20, seed=2)
    after, decided = agent.to_bytes(), agent.snapshot().act_many(contexts).tolist()
    for way, other in copies.items():
        assert other.to_bytes() == before, way
        assert other.metadata == metadata, way
        assert other.get_params().keys() == params, way
        assert play(other, 40, seed=1) == played, way
        assert other.to_bytes() == after, way
        assert other.snapshot().act_many(contexts).tolist() == decided, way


@every_agent
@every_copy
def test_a_copy_is_independent(variant: str, copied: Any) -> None:
    agent = make(variant)
    play(agent, 50)
    agent.metadata["note"] = ["of the user"]
    before, believed = agent.to_bytes(), beliefs(agent, contexts_of(4, seed=3))
    other = copied(agent)
    play(other, 30, seed=1)
    other.add_arm("new", like=0)
    other.metadata["note"].append("another")
    assert agent.to_bytes() == before
    assert beliefs(agent, contexts_of(4, seed=3)) == believed
    kept = other.to_bytes()
    play(agent, 30, seed=1)
    agent.remove_arm(0)
    assert other.to_bytes() == kept


@every_agent
@pytest.mark.parametrize("rounds", [0, 4, 15, 50], ids=["fresh", "starting", "just full", "full"])
def test_a_loaded_agent_goes_on_as_the_saved_one(variant: str, rounds: int) -> None:
    agent = make(variant)
    play(agent, rounds)
    agent.metadata["note"] = ["of the user", 1, None]
    loaded = lim2.from_bytes(agent.to_bytes(), representation=own_module(variant))
    assert loaded.name == agent.name
    assert loaded.metadata == agent.metadata
    assert loaded.to_bytes() == agent.to_bytes()
    assert play(loaded, 30, seed=1) == play(agent, 30, seed=1)
    assert loaded.to_bytes() == agent.to_bytes()


@every_agent
def test_arrays_that_arrive_read_only_become_ones_own(variant: str) -> None:
    """Pickles with buffers out of band, as joblib and others hand them over, in memory that is not ours."""
    agent = make(variant)
    play(agent, 20)
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(agent, protocol=5, buffer_callback=buffers.append)
    frozen = [bytes(buffer.raw()) for buffer in buffers]
    copies = [bytes(bytearray(part)) for part in frozen]
    other = pickle.loads(body, buffers=frozen)
    assert play(other, 5, seed=1) == play(agent, 5, seed=1)
    assert frozen == copies, "memory that belongs to others was written"
    assert other.to_bytes() == agent.to_bytes()


@every_agent
def test_info_does_not_go_along(variant: str) -> None:
    agent = make(variant)
    play(agent, 5)
    assert agent.info is not None
    for copied in COPYING.values():
        assert copied(agent).info is None


def test_an_agent_inside_other_things_is_copied_once() -> None:
    agent = make("LiM2")
    first, second = copy.deepcopy([agent, agent])
    assert first is second is not agent


def test_a_pickle_holds_settings_and_state_and_little_else() -> None:
    agent = lim2.LiM2(3, 4, hidden=(6,), batch=8, buffer=15, seed=0)
    fresh = len(pickle.dumps(agent))
    play(agent, 100)
    assert len(pickle.dumps(agent)) < fresh + agent.nbytes


def test_a_copy_of_a_snapshot_decides_alike() -> None:
    agent = make("LinearTS")
    play(agent, 20)
    one, other = (pickle.loads(pickle.dumps(agent.snapshot())) for _ in range(2))
    contexts = contexts_of(30, seed=4)
    assert one.act_many(contexts).tolist() == other.act_many(contexts).tolist()
    np.testing.assert_array_equal(one.means(contexts), agent.means(contexts))
