"""A declared schema: exact columns, and errors for what was not declared."""

import math
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lim2.encoding import Category, Columns, Embedding, EncoderState, Number, RawEncoder, Tags, Time

SHOP = Columns(
    [("basket.total", Number())],
    country=Category(["AT", "DE"]),
    level=Category([1, 2, True], optional=True),
    tags=Tags(["new", "red", "sale"]),
    at=Time(optional=True),
    vector=Embedding(2),
)
EVENT: dict[str, Any] = {
    "basket": {"total": 10.0}, "country": "DE", "level": 2, "tags": ["sale", "new"], "at": "2026-11-16T06:00:00Z",
    "vector": [0.5, -1],
}  # fmt: skip

good = st.fixed_dictionaries(
    {
        "basket.total": st.floats(-1e20, 1e20),
        "country": st.sampled_from(["AT", "DE"]),
        "tags": st.lists(st.sampled_from(["new", "red", "sale"])),
        "vector": st.lists(st.floats(-10, 10), min_size=2, max_size=2),
    },
    optional={"level": st.sampled_from([1, 2, True, None]), "at": st.one_of(st.none(), st.datetimes(), st.dates())},
)


def learned(*raws: Any) -> EncoderState:
    state = SHOP.init(trusted=True)
    for raw in raws:
        state = SHOP.observe(state, raw)
    return state


def test_columns_are_exact_and_in_the_order_of_the_declaration() -> None:
    state = learned(EVENT, {**EVENT, "basket": {"total": 30.0}, "at": "2026-11-17T06:00:00Z"})
    assert SHOP.width == 1 + 2 + (3 + 1) + 3 + (5 + 1) + 2
    x = SHOP.encode(state, EVENT)
    expected = [-1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.5, -1.0]
    np.testing.assert_allclose(x, expected, atol=1e-12)
    missing = SHOP.encode(state, {key: value for key, value in EVENT.items() if key not in ("level", "at")})
    assert missing[3:7].tolist() == [0.0, 0.0, 0.0, 1.0] and missing[10:16].tolist() == [0.0] * 5 + [1.0]
    assert SHOP.encode(state, {**EVENT, "level": True})[3:7].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert SHOP.encode(state, {**EVENT, "tags": []})[7:10].tolist() == [0.0, 0.0, 0.0]
    assert SHOP.encode(state, {**EVENT, "tags": ["new", "new"]})[7:10].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"countri": "AT"}, "^countri is not a declared key: declared are basket.total, country"),
        ({"basket": {"total": 1.0, "items": 3}}, r"^basket\.items is not a declared key"),
        ({3: "AT"}, "^the key 3 must be a string"),
        ({"country": "FR"}, "^country is 'FR': expected one of 'AT', 'DE'"),
        ({"country": True}, "^country is True: expected one of"),
        ({"country": None}, "^country is missing: give a value, or declare it with optional=True"),
        ({"level": 1.0}, "^level is 1.0: expected one of 1, 2, True"),
        ({"level": [1]}, "^level is a value of type list"),
        ({"basket": {"total": "10"}}, r"^basket\.total is '10': expected a number"),
        ({"basket": {"total": True}}, r"^basket\.total is True: expected a number"),
        ({"basket": {"total": math.nan}}, r"^basket\.total is nan"),
        ({"basket": {"total": []}}, r"^basket\.total is a value of type list: expected a number"),
        ({"tags": ["blue"]}, "^tags is 'blue': expected one of 'new', 'red', 'sale'"),
        ({"tags": "new"}, "^tags is 'new': expected a list of strings"),
        ({"tags": [1]}, "^tags is a value of type list: expected a list of strings"),
        ({"at": "noon"}, "^at is 'noon': expected a date or a time"),
        ({"vector": [1.0]}, "^vector is a value of type list: expected a list of numbers, 2 of them"),
        ({"vector": ["a", "b"]}, "^vector is a value of type list: expected a list of numbers, 2 of them"),
    ],
)
def test_what_was_not_declared_so_is_refused(change: dict[Any, Any], message: str) -> None:
    state = learned(EVENT)
    for call in (SHOP.encode, SHOP.observe, SHOP.explain):
        with pytest.raises(ValueError, match=message):
            call(state, {**EVENT, **change})


@given(st.lists(good, max_size=4), good)
def test_it_keeps_the_encoders_promises(history: list[dict[str, Any]], raw: dict[str, Any]) -> None:
    state = learned(*history)
    x = SHOP.encode(state, raw)
    assert np.isfinite(x).all() and x.shape == (SHOP.width,)
    assert SHOP.encode(state, dict(reversed(raw.items()))).tobytes() == x.tobytes()
    assert SHOP.encode_many(state, [raw, raw]).tobytes() == x.tobytes() * 2
    total = np.zeros(SHOP.width)
    for part in SHOP.explain(state, raw):
        total[0 if part.column is None else part.column] += part.encoded
    assert total.tobytes() == x.tobytes()
    assert learned(*history) == state  # a value that nothing has changed


def test_what_is_known_of_the_columns() -> None:
    shell = RawEncoder(SHOP)
    shell.update(EVENT)
    infos = {info.name: info for info in shell.columns}
    assert list(infos) == ["basket.total", "country", "level", "tags", "at", "vector"]
    assert (infos["basket.total"].mean, infos["basket.total"].count) == (10.0, 1)
    assert (infos["level"].kind, infos["level"].columns, infos["level"].mean) == ("category", range(3, 7), None)


def test_a_key_may_have_any_name() -> None:
    columns = Columns(declared=Number(), columns=Number())
    state = columns.observe(columns.init(trusted=True), {"declared": 1.0, "columns": 2.0})
    assert list(state.columns) == ["declared", "columns"]
    assert Columns([("declared", Number())]) == Columns(declared=Number())


@pytest.mark.parametrize(
    "make",
    [
        lambda: Columns(),
        lambda: Columns(age="number"),  # type: ignore[arg-type]
        lambda: Columns(age=Number),  # type: ignore[arg-type]
        lambda: Columns([("age", Number())], age=Number()),
        lambda: Columns([(3, Number())]),  # type: ignore[list-item]
        lambda: Columns(age=Number(optional=2)),  # type: ignore[arg-type]
        lambda: Columns(age=Embedding(2**15), more=Embedding(2**15)),
        lambda: Category("AT"),
        lambda: Category([]),
        lambda: Category(["AT", "AT"]),
        lambda: Category([datetime(2026, 1, 1)]),
        lambda: Tags(["new", 1]),
        lambda: Embedding(0),
        lambda: Embedding(1.5),  # type: ignore[arg-type]
    ],
)
def test_declarations_that_are_refused(make: Any) -> None:
    with pytest.raises(ValueError):
        make()
