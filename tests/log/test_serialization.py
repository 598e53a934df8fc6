"""Raw contexts and items as JSON: what is converted, and what is refused with its path."""

from __future__ import annotations

import json
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lim2.log.serialization import as_json, dump_json, dump_names, load_json, load_names, pack_array, pack_json, unpack

pytestmark = pytest.mark.one_store


@dataclass
class Basket:
    items: int
    total: float


class Device(Enum):
    PHONE = "phone"


Row = namedtuple("Row", ["country", "age"])

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_json_stays_as_it_is(value: Any) -> None:
    converted = as_json(value)
    assert converted == value
    assert as_json(converted) == converted
    assert load_json(dump_json(converted)) == converted
    assert unpack(pack_json(converted)) == converted


@given(st.dictionaries(st.text(), values, min_size=2))
def test_the_order_of_keys_says_nothing(value: dict[str, Any]) -> None:
    assert dump_json(as_json(dict(reversed(value.items())))) == dump_json(as_json(value))


def test_what_python_and_numpy_hold_is_converted() -> None:
    given = {
        "datetime": datetime(2026, 11, 16, 10, tzinfo=UTC), "date": date(2026, 11, 16), "wait": timedelta(minutes=2),
        "float": np.float32(0.5), "int": np.int8(3), "bool": np.bool_(True), "nan": float("nan"), "text": np.str_("a"),
        "array": np.array([[1, 2]]), "tuple": (1, 2), "set": {"red", "new"}, "decimal": Decimal("9.90"),
        "device": Device.PHONE, "basket": Basket(3, 80.5), "row": Row("AT", 31), "ordered": OrderedDict(b=1, a=2),
        "np": np.datetime64("2026-11-16T10:00"), "never": np.datetime64("NaT"), "id": UUID(int=1),
    }  # fmt: skip
    converted = as_json(given)
    assert converted == {
        "datetime": "2026-11-16T10:00:00+00:00", "date": "2026-11-16", "wait": 120.0,
        "float": 0.5, "int": 3, "bool": True, "nan": None, "text": "a",
        "array": [[1, 2]], "tuple": [1, 2], "set": ["new", "red"], "decimal": 9.9,
        "device": "phone", "basket": {"items": 3, "total": 80.5}, "row": {"country": "AT", "age": 31},
        "ordered": {"a": 2, "b": 1}, "np": "2026-11-16T10:00", "never": None, "id": str(UUID(int=1)),
    }  # fmt: skip
    assert list(converted) == sorted(given)
    assert json.loads(json.dumps(converted)) == converted


def test_rows_of_frames_are_dictionaries() -> None:
    at = datetime(2026, 11, 16, 10)
    expected = {"age": 31, "at": "2026-11-16T10:00:00", "country": "AT", "device": None}
    frame = pd.DataFrame({"country": ["AT"], "age": [31], "device": [None], "at": [pd.Timestamp(at)]})
    for row in (frame.iloc[0], frame, next(frame.itertuples(index=False))):
        assert as_json(row) == expected
    other = pl.DataFrame({"country": ["AT"], "age": [31], "device": [None], "at": [at]})
    for row in (other.row(0, named=True), other):
        assert as_json(row) == expected
    assert as_json({"x": pd.NA, "y": pd.NaT, "z": pl.Series([1, 2])}) == {"x": None, "y": None, "z": [1, 2]}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": {"b": [1, object()]}}, r"of type object at a\.b\[1\]"),
        ({"a": b"x"}, "of type bytes at a"),
        ({"a": {1: 2}}, "has the key 1 at a: keys must be strings"),
        ({"a": [float("inf")]}, r"has inf at a\[0\]"),
        ({"a": np.float64("-inf")}, "has -inf at a"),
        ({"a": 10**400}, "whole number of 1329 bits at a"),
        ({"a": int}, "of type type at a"),
        (1j, "of type complex: JSON"),
    ],
)
def test_what_cannot_be_json_is_refused_with_its_path(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_json(value)


def test_depth_is_bounded_also_in_circles() -> None:
    circle: dict[str, Any] = {}
    circle["a"] = circle
    with pytest.raises(ValueError, match="more than 32 levels deep"):
        as_json(circle)


@pytest.mark.parametrize("size", [0, 1, 20, 30, 100, 3000])
def test_payloads_come_back_and_repetition_is_compressed(size: int) -> None:
    rng = np.random.default_rng(0)
    for array in (rng.normal(size=(size, 5)), np.eye(8, dtype="<f4")[rng.integers(8, size=size)]):
        packed = pack_array(array)
        again = unpack(packed)
        assert (again.dtype, again.shape, again.tobytes()) == (array.dtype, array.shape, array.tobytes())
        assert packed is not None
        assert len(packed) <= array.nbytes + 40
    items = [{"category": "shoes", "price": float(price)} for price in rng.integers(100, size=size)]
    text = pack_json(items)
    assert text is not None
    assert unpack(text) == items
    assert size < 100 or len(text) < 0.3 * len(json.dumps(items))


names = st.one_of(st.text(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none())


@given(st.lists(st.recursive(names, lambda inner: st.lists(inner).map(tuple), max_leaves=5)))
def test_names_of_arms_keep_type_and_value(arms: list[Any]) -> None:
    again = load_names(dump_names(arms))
    assert repr(list(again)) == repr(arms)
