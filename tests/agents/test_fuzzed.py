"""Files and inputs that nobody meant: only documented errors, and nothing changes.

With LIM2_FUZZ=1 there are 10,000 cases of each, which takes a few minutes; else 500.
"""

import os
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lim2
from lim2.agents.container import pack, unpack
from lim2.agents.saving import dump, parse


def trained(agent: lim2.Agent) -> lim2.Agent:
    for t, context in enumerate(np.random.default_rng(0).normal(size=(9, 2))):
        agent.update(context, t % 2, 1.0)
    return agent


AGENTS = [
    trained(lim2.LinearTS(2, 2, seed=0)),
    trained(lim2.LiM2(2, 2, hidden=(2,), batch=3, buffer=6, recount=False, recompute_share=0.5, seed=0)),
    trained(lim2.NeuralTS(2, 2, hidden=2, iterations=3, training="batch", history=5, seed=0)),
    trained(lim2.TransportTS(2, 2, hidden=(2,), batch=3, buffer=6, seed=0)),
]
FILES = [dump(agent) for agent in AGENTS]
PARTS = [unpack(content) for content in FILES]


def cases(number: int) -> settings:
    """Try so many cases with LIM2_FUZZ=1, else the first twentieth of them."""
    number = number if os.environ.get("LIM2_FUZZ") else number // 20
    return settings(max_examples=number, suppress_health_check=list(HealthCheck), database=None)


def loads_or_refuses(content: bytes) -> bool:
    """Tell whether a file loads; then the agent is whole enough to be written again, and to decide."""
    try:
        agent = parse(content)
    except lim2.LoadError:
        return False
    dump(agent)
    agent.act(np.zeros(agent.n_features))
    return True


@cases(4000)
@given(which=st.integers(0, len(FILES) - 1), data=st.data())
def test_altered_files_are_refused(which: int, data: st.DataObject) -> None:
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
        assert not loads_or_refuses(altered)


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 9), st.sampled_from([10**9, 2**63, -(2**70), 10**400]),
    st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5), st.sampled_from(["nan", "thompson", "0x"]),
)  # fmt: skip
KEYS = st.sampled_from(["tuple", "float", "object", "settings", "given", "shown", "a", "MLP", "arms"])
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=5
)


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(place for key, part in inner for place in places(part, (*here, key)))]


def edited(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    copied = value.copy()
    if len(place) == 1 and new is ...:
        del copied[place[0]]
    else:
        copied[place[0]] = edited(value[place[0]], place[1:], new)
    return copied


PLACES = [[place for place in places(header) if place] for header, _ in PARTS]


@cases(4000)
@given(which=st.integers(0, len(FILES) - 1), data=st.data())
def test_headers_that_say_something_else_with_a_right_checksum(which: int, data: st.DataObject) -> None:
    header, arrays = PARTS[which]
    place = data.draw(st.sampled_from(PLACES[which]))
    header = edited(header, place, data.draw(st.one_of(st.just(...), JSON)))
    loads_or_refuses(pack(header, arrays))


DTYPES = st.sampled_from(["f8", "f4", "i8", "u1", "b1"])


@cases(2000)
@given(which=st.integers(0, len(FILES) - 1), data=st.data())
def test_arrays_that_are_others_with_a_right_checksum(which: int, data: st.DataObject) -> None:
    header, arrays = PARTS[which]
    name = data.draw(st.sampled_from(sorted(arrays)))
    change = data.draw(st.sampled_from(["shape", "dtype", "values", "gone", "name"]))
    array = arrays[name]
    if change == "shape":
        array = np.zeros(data.draw(st.lists(st.integers(0, 3), max_size=4)), array.dtype)
    elif change == "dtype":
        array = array.astype(data.draw(DTYPES))
    elif change == "values" and array.dtype.kind == "i":
        array = array + data.draw(st.integers(-3, 3))
    altered = {**arrays, name: array}
    if change in ("gone", "name"):
        del altered[name]
    if change == "name":
        altered[data.draw(st.sampled_from(["x", "posterior/x", "rounds", "rounds/x", f"{name}/x", "", "/"]))] = array
    loads_or_refuses(pack(header, altered))


# Inputs

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
    agent = parse(FILES[which])
    try:
        if acts:
            agent.act(context, arms=None if reward is None else [arm])
        else:
            agent.update(context, arm, reward)
    except ACCEPTED:
        assert dump(agent) == FILES[which]
    else:
        assert acts or agent.rounds == 10


SETTINGS = st.sampled_from(
    ["n_arms", "n_features", "hidden", "buffer", "batch", "steps", "initial_pulls", "prior_precision", "a0", "b0",
     "learning_rate", "matching", "matching_rate", "refresh", "noise", "exploration", "representation", "seed",
     "recompute_every", "recompute_share", "matching_clip", "matching_jitter", "matching_ridge"]
)  # fmt: skip


@cases(3000)
@given(name=SETTINGS, value=st.one_of(ODD, st.lists(ODD, max_size=2), st.integers(-2, 9)))
def test_settings_make_an_agent_that_works_or_are_refused(name: str, value: Any) -> None:
    if isinstance(value, int) and value > 1000:
        value = 1000  # as much memory as asked for is what a constructor is for
    made = {"n_arms": 2, "n_features": 2, "hidden": (2,), "batch": 3, "buffer": 6, name: value}
    try:
        agent = lim2.LiM2(**made)
    except ACCEPTED:
        return
    try:
        content = dump(agent)
    except ValueError as error:  # NumPy takes nearly anything as a seed
        assert "cannot be saved" in str(error)
        return
    assert dump(parse(content)) == content
