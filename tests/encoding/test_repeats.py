"""Which categories count: those that come again; and what is state of keys that change or vanish."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from lim2.encoding import ColumnInfo, Encoder, EncoderState

MAX_NEW = 2**13  # new categories after which all counts are halved

ENCODER = Encoder(numbers=8, buckets=4096)


def learned(raws: Iterable[Any], encoder: Encoder = ENCODER) -> EncoderState:
    state = encoder.init()
    for raw in raws:
        state = encoder.observe(state, raw)
    return state


def info(state: EncoderState, name: str) -> ColumnInfo:
    return next(info for info in ENCODER.columns(state) if info.name == name)


# Categories


@pytest.mark.parametrize("value", ["u7", True, None, ["a", "b"]], ids=str)
def test_a_category_counts_from_its_second_occurrence_on(value: Any) -> None:
    state = ENCODER.init()
    for _ in range(2):
        assert not ENCODER.encode(state, {"key": value}).any()
        assert ENCODER.explain(state, {"key": value})[0].kind.startswith("new ")
        state = ENCODER.observe(state, {"key": value})
    trusted = ENCODER.init(trusted=True)
    assert ENCODER.encode(state, {"key": value}).tobytes() == ENCODER.encode(trusted, {"key": value}).tobytes()
    assert ENCODER.encode(state, {"key": value}).any()


def test_a_unique_id_adds_nothing() -> None:
    raws = [{"age": 20 + 37 * t % 50, "country": "AT", "session": f"{t * 7919:x}"} for t in range(1000)]
    state = ENCODER.init()
    extra = 0
    for raw in raws:
        state = ENCODER.observe(state, raw)  # as a bandit does that learns a reward, before it encodes
        plain = {key: value for key, value in raw.items() if key != "session"}
        extra += ENCODER.encode(state, raw).tobytes() != ENCODER.encode(state, plain).tobytes()
    assert extra == 0
    session = info(state, "session")
    assert (session.count, session.new) == (1000, 1000)
    assert session.note == "most values do not repeat, only repeated ones are used"
    assert (info(state, "country").new, info(state, "country").note) == (1, "")


def test_of_a_list_only_what_is_repeated_counts() -> None:
    state = learned([{"tags": ["red", f"t{t}"]} for t in range(4)])
    alone, both = (ENCODER.encode(state, {"tags": tags}) for tags in (["red"], ["red", "never seen"]))
    np.testing.assert_allclose(both, alone / np.sqrt(2.0), atol=1e-5)
    assert alone.any()


def test_many_contexts_are_encoded_as_each_alone() -> None:
    raws = [{"user": f"u{t % 30}", "session": f"s{t}", "tags": [f"t{t % 9}", f"x{t}"]} for t in range(60)]
    state = learned(raws[:45])
    assert ENCODER.encode_many(state, raws).tobytes() == b"".join(ENCODER.encode(state, raw).tobytes() for raw in raws)


def test_frequent_ids_count_among_many_that_never_come_again() -> None:
    """Also after the counts were halved several times."""
    state = ENCODER.init()
    for t in range(3 * MAX_NEW):
        state = ENCODER.observe(state, {"user": f"u{t % 50}" if t % 4 == 0 else f"once {t}"})
    assert all(ENCODER.encode(state, {"user": f"u{k}"}).any() for k in range(50) if k % 2 == 0)
    strangers = sum(ENCODER.encode(state, {"user": f"stranger {t}"}).any() for t in range(2000))
    assert strangers < 2000 / 50
    # those that were left out when they came: all but the few that were taken for others
    assert 0.98 * 2.25 * MAX_NEW < info(state, "user").new < 2.25 * MAX_NEW + 200


# Keys


def test_a_key_that_changes_its_type_is_counted() -> None:
    raws: list[dict[str, Any]] = [{"age": 30 + 7 * t % 11, "plan": "free"} for t in range(50)]
    state = learned([*raws, {"age": "unknown", "plan": 3}, {"age": None, "plan": "free"}, {"age": [1.0], "plan": 4.5}])
    age, plan = info(state, "age"), info(state, "plan")
    assert (age.kind, age.count, age.changed, age.missing, age.note) == ("number", 50, 2, 1, "2 of another type")
    assert (plan.kind, plan.count, plan.changed, plan.missing) == ("category", 51, 2, 0)
    assert "2 of another type" in plan.note


def test_an_embedding_of_another_length_is_counted() -> None:
    state = learned([{"v": [1.0, 2.0]}, {"v": [1.0, 2.0, 3.0]}, {"v": [0.0, 1.0]}])
    assert (info(state, "v").count, info(state, "v").changed) == (2, 1)


def test_a_key_that_vanishes_is_shown() -> None:
    raws: list[dict[str, Any]] = [{"age": 30 + 7 * t % 11, "country": "AT", "rare": "x"} for t in range(50)]
    raws += [{"country": "AT"} | ({"rare": "x"} if t % 60 == 0 else {}) for t in range(150)]
    state = learned(raws)
    assert (info(state, "age").missing, info(state, "age").note) == (150, "absent from the last 150 contexts")
    assert (info(state, "country").missing, info(state, "country").note) == (0, "")
    assert (info(state, "rare").missing, info(state, "rare").note) == (147, "")  # often absent, and not for long
    back = ENCODER.observe(state, {"age": 31, "country": "AT"})
    assert info(back, "age").note == ""


def test_a_key_that_was_never_there_before_counts_from_its_first_context() -> None:
    state = learned([{"country": "AT"}] * 10 + [{"country": "AT", "new": "x"}] * 3)
    assert (info(state, "new").missing, info(state, "new").count) == (0, 3)
