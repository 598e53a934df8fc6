"""Which numbers and times are used: those that go up and down; and by which map they are scaled."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from lim2.encoding import ColumnInfo, Columns, Encoder, EncoderState, Number

SAMPLE_VALUES = 64  # after which the scaling of a number is fixed

ENCODER = Encoder(numbers=8, buckets=32)
START = datetime(2026, 11, 2, tzinfo=UTC)
NOISE = np.random.default_rng(0).normal(size=2000)


def learned(raws: Iterable[Any], encoder: Encoder | Columns = ENCODER) -> EncoderState:
    state = encoder.init()
    for raw in raws:
        state = encoder.observe(state, raw)
    return state


def info(state: EncoderState, name: str, encoder: Encoder | Columns = ENCODER) -> ColumnInfo:
    return next(info for info in encoder.columns(state) if info.name == name)


def visits(days: float, n: int = 2000) -> list[dict[str, Any]]:
    """Return times of visits that are spread evenly."""
    return [{"at": START + timedelta(days=days * t / n)} for t in range(n)]


@pytest.mark.parametrize(
    "numbers",
    [
        range(1_000_000, 1_002_000),
        range(2000, 0, -1),
        [t + 40 * x for t, x in enumerate(NOISE)],  # not quite in order
        [1.01**t for t in range(2000)],
    ],
    ids=["counter", "countdown", "disorder", "growth"],
)
@pytest.mark.parametrize("encoder", [ENCODER, Columns(x=Number())], ids=["any", "declared"])
def test_a_number_that_only_grows_or_falls_is_zero(numbers: Iterable[float], encoder: Any) -> None:
    state = learned(({"x": float(x)} for x in numbers), encoder)
    for x in (-5.0, 0.0, 500.0, 3000.0, 1e12):
        assert not encoder.encode(state, {"x": x}).any()
    assert info(state, "x", encoder).note == "only grows or falls, not used"
    assert info(state, "x", encoder).count == 2000


def test_a_number_that_goes_up_and_down_is_used_soon() -> None:
    state = learned({"x": x} for x in NOISE[:30])
    expected = (1.0 - NOISE[:30].mean()) / NOISE[:30].std()
    assert ENCODER.encode(state, {"x": 1.0})[0] == pytest.approx(expected)
    assert info(state, "x").note == ""


def test_a_number_that_begins_to_grow_is_no_longer_used() -> None:
    state = learned({"x": x} for x in NOISE[:40])
    assert ENCODER.encode(state, {"x": 3.0})[0] != 0.0
    for t in range(200):
        state = ENCODER.observe(state, {"x": 10.0 + t})
    assert ENCODER.encode(state, {"x": 3.0})[0] == 0.0


def test_a_number_that_begins_to_go_up_and_down_is_used() -> None:
    state = learned({"x": float(t)} for t in range(100))
    assert ENCODER.encode(state, {"x": 3.0})[0] == 0.0
    for x in NOISE[:200]:
        state = ENCODER.observe(state, {"x": 50.0 + 30.0 * x})
    assert ENCODER.encode(state, {"x": 3.0})[0] != 0.0


def test_the_map_is_fixed_until_the_values_lie_elsewhere() -> None:
    state = learned({"x": x} for x in NOISE[: SAMPLE_VALUES + 1])
    before = ENCODER.encode(state, {"x": 1.5})[0]
    for x in NOISE[SAMPLE_VALUES + 1 : 1500]:
        state = ENCODER.observe(state, {"x": x})
        assert ENCODER.encode(state, {"x": 1.5})[0] == before
    for x in np.resize(NOISE, 8000):
        state = ENCODER.observe(state, {"x": 100.0 + 50.0 * x})
    moved = np.concatenate((NOISE[:1500], 100.0 + 50.0 * np.resize(NOISE, 8000)))
    values = moved[:8192]  # the last check
    assert ENCODER.encode(state, {"x": 100.0})[0] == pytest.approx((100.0 - values.mean()) / values.std(), abs=0.01)


def test_a_number_that_never_varied_says_so() -> None:
    state = learned({"x": 7.0, "y": float(t)} for t in range(5))
    assert info(state, "x").note == "never varied, not used"
    assert info(state, "y").note == "too few values so far, not used"


@pytest.mark.parametrize("days", [10, 60, 400])
def test_the_time_of_the_visit_is_not_used(days: int) -> None:
    """Neither its age nor its hour: of the last day only the clicks may be state."""
    state = learned(visits(days))
    assert info(state, "at").note == "only grows or falls, not used"
    for ahead in (0, days / 2, days, 2 * days):
        assert not ENCODER.encode(state, {"at": START + timedelta(days=ahead, hours=5)}).any()


@pytest.mark.parametrize("rate", [0.04, 0.2, 0.5])
@pytest.mark.parametrize("wait", [60, 200, 2000])
def test_clicks_before_zeros_are_no_ups_and_downs(rate: float, wait: int) -> None:
    """Of a counter, the values of clicks and of late zeros come by turns."""
    rng = np.random.default_rng(0)
    clicks = rng.random(6000) < rate
    arrival = np.arange(6000) + np.where(clicks, rng.integers(1, 10, 6000), wait)
    state = ENCODER.init()
    for t in np.argsort(arrival, kind="stable").tolist():
        state = ENCODER.observe(state, {"visit": 1e6 + t})
        assert ENCODER.encode(state, {"visit": 1e6 + 7000})[0] == 0.0


def test_a_time_that_goes_up_and_down_is_used() -> None:
    """As when the visitor was born, or the article was published."""
    state = learned({"born": START - timedelta(days=10_000 + 3000 * x)} for x in NOISE[:100])
    x = ENCODER.encode(state, {"born": START - timedelta(days=13_000)})[:5]
    assert x[:2].any() and x[2:4].any() and 0.5 < x[4] < 1.5  # one deviation older than the mean
    assert info(state, "born").note == ""
