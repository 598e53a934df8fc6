"""Files, inputs and settings that nobody meant: only documented errors, and nothing changes.

With LIM2_FUZZ=1 there are thousands of cases of each, which takes a few minutes; else a twentieth of them.
"""

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from persistence.saved_agents import make

import lim2

FILES = [make(name).to_bytes() for name in ("linear-ts", "lim2-matching", "neural-ts", "adaptive-ts")]


def cases(number: int) -> settings:
    """Try so many cases with LIM2_FUZZ=1, else the first twentieth of them."""
    number = number if os.environ.get("LIM2_FUZZ") else number // 20
    return settings(max_examples=number, suppress_health_check=list(HealthCheck), database=None)


@cases(4000)
@given(which=st.integers(0, len(FILES) - 1), data=st.data())
def test_files_that_were_altered_by_accident_are_refused(which: int, data: st.DataObject) -> None:
    content = FILES[which]
    place = data.draw(st.integers(0, len(content) - 1))
    how = data.draw(st.sampled_from(["flip", "cut", "insert", "remove"]))
    if how == "flip":
        changed = bytearray(content)
        changed[place] ^= 1 << data.draw(st.integers(0, 7))
        altered = bytes(changed)
    elif how == "cut":
        altered = content[:place]
    elif how == "insert":
        altered = content[:place] + data.draw(st.binary(min_size=1, max_size=20)) + content[place:]
    else:
        altered = content[:place] + content[place + data.draw(st.integers(1, 50)) :]
    if altered != content:
        with pytest.raises(lim2.LoadError):
            lim2.from_bytes(altered)


NUMBERS = st.one_of(st.floats(), st.integers(), st.sampled_from([1e29, 1e31, -0.0, 10**400]))
ODD = st.one_of(
    NUMBERS, st.none(), st.booleans(), st.text(max_size=3), st.binary(max_size=3), st.complex_numbers(max_magnitude=9),
    st.just(object()), st.just(np.float32(1)), st.just({}), st.just([[1], [2, 3]]), st.just(range(2)),
)  # fmt: skip
CONTEXTS = st.one_of(ODD, st.lists(NUMBERS, max_size=4), st.lists(ODD, min_size=2, max_size=2))
GOOD = st.lists(st.floats(-3, 3), min_size=2, max_size=2)
ARMS = st.one_of(st.integers(-1, 2), ODD)
ACCEPTED = (ValueError, TypeError)


@cases(7000)
@given(
    which=st.integers(0, 1),
    context=st.one_of(GOOD, CONTEXTS),
    arm=ARMS,
    reward=st.one_of(st.floats(-3, 3), ODD),
    acts=st.booleans(),
)
def test_inputs_are_learned_or_refused_and_then_nothing_changes(
    which: int, context: Any, arm: Any, reward: Any, acts: bool
) -> None:
    agent = lim2.from_bytes(FILES[which])
    rounds = agent.rounds
    try:
        if acts:
            agent.act(context, arms=None if reward is None else [arm])
        else:
            agent.update(context, arm, reward)
    except ACCEPTED:
        assert agent.to_bytes() == FILES[which]
    else:
        assert acts or agent.rounds == rounds + 1


SETTINGS = st.sampled_from(
    ["n_arms", "n_features", "hidden", "buffer", "batch", "steps", "initial_pulls", "prior_precision", "a0", "b0",
     "learning_rate", "matching", "exploration", "representation", "seed", "epsilon", "standardize", "intercept"]
)  # fmt: skip


@cases(3000)
@given(name=SETTINGS, value=st.one_of(ODD, st.lists(ODD, max_size=2), st.integers(-2, 9)))
def test_settings_make_an_agent_that_can_be_saved_or_are_refused(name: str, value: Any) -> None:
    if isinstance(value, int) and value > 1000:
        value = 1000  # as much memory as asked for is what a constructor is for
    made = {"n_arms": 2, "n_features": 2, "hidden": (2,), "batch": 3, "buffer": 6, name: value}
    try:
        agent = lim2.LiM2(**made)
    except ACCEPTED:
        return
    try:
        content = agent.to_bytes()
    except ValueError as error:  # NumPy takes nearly anything as a seed, and Python anything as true or false
        assert "cannot be saved" in str(error)
        return
    assert lim2.from_bytes(content).to_bytes() == content
