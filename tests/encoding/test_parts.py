"""What was learned, saved and altered: what cannot have been learned is refused."""

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.raw import contexts
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lim2.encoding import Category, Columns, Embedding, Encoder, EncoderState, Number, Tags, Time
from lim2.encoding.categories import MAX_NEW
from lim2.encoding.parts import from_parts, to_parts
from lim2.encoding.states import MAX_KEYS
from lim2.persistence.container import pack, unpack
from lim2.persistence.settings import decoded, encoded

ENCODER = Encoder(numbers=10, buckets=8)
Values = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


def learned() -> EncoderState:
    state = ENCODER.init()
    for t in range(3):
        raw = {
            "age": t,
            "at": f"2026-01-0{t + 1}",
            "vector": [0.5, 1.0],
            "x\ud800": 1e9 + t,
            "id": f"i{t}",
            "way": "in",
        }
        state = ENCODER.observe(state, raw)
    return state


def test_parts_survive_a_file_in_every_bit() -> None:
    state = learned()
    values, arrays = to_parts(state)
    header, back = unpack(pack(values, arrays))
    assert from_parts(ENCODER, header, back) == state
    assert decoded(json.loads(json.dumps(encoded(ENCODER, "x", {"Encoder": Encoder}))), {"Encoder": Encoder}) == ENCODER


def column(place: int, part: int, value: Any) -> Callable[[Values, Arrays], None]:
    def change(values: Values, arrays: Arrays) -> None:
        values["columns"][place][part] = value

    return change


def key(place: int, part: int, value: Any) -> Callable[[Values, Arrays], None]:
    def change(values: Values, arrays: Arrays) -> None:
        values["keys"][place][part] = value

    return change


def entry(name: str, value: Any) -> Callable[[Values, Arrays], None]:
    return lambda values, arrays: values.__setitem__(name, value)


def array(name: str, change: Callable[[NDArray[Any]], Any]) -> Callable[[Values, Arrays], None]:
    def changed(values: Values, arrays: Arrays) -> None:
        arrays[name] = change(arrays[name])

    return changed


def at(place: int, value: Any) -> Callable[[NDArray[Any]], NDArray[Any]]:
    def change(numbers: NDArray[Any]) -> NDArray[Any]:
        numbers[place] = value
        return numbers

    return change


@pytest.mark.parametrize(
    "alter",
    [
        entry("used", 8), entry("used", 9.0), entry("used", True), entry("overflow", -1), entry("updates", 2),
        entry("updates", 2**70), entry("updates", None), entry("more", 1), entry("columns", None),
        entry("columns", [["age"]]), lambda values, arrays: values.pop("overflow"),
        lambda values, arrays: values["columns"].pop(), column(0, 0, 3), column(0, 0, "at"), column(0, 0, "k" * 251),
        column(0, 1, "category"), column(0, 1, "time"), column(0, 1, ["number"]), column(0, 2, 1), column(0, 2, -1),
        column(0, 2, 0.0), column(0, 3, 2), column(1, 3, 4), column(2, 3, 3), column(2, 3, True),
        array("count", at(0, 0)), array("count", at(0, -1)), array("count", at(0, 4)),
        array("count", lambda x: x.astype(np.float64)), array("count", lambda x: x[:-1]),
        array("origin", at(0, np.nan)), array("origin", at(0, np.inf)), array("offset", at(0, 1e200)),
        array("origin", at(2, 1.0)), array("squares", at(0, -1.0)), array("squares", lambda x: x[:, None]),
        array("factor", at(1, np.nan)), array("factor", at(0, -1.0)), array("factor", lambda x: x.astype(np.float32)),
        array("varied", at(0, 4)), array("varied", at(0, -1)), array("falls", at(0, 4)),
        array("rises", at(0, -1)), array("low", at(0, np.inf)),
        array("center", at(2, 1.0)), array("steady", at(2, True)),
        array("above", lambda x: x.astype(np.int64)), array("cells", lambda x: x[::-1]),
        array("cells", lambda x: x[:-1]), array("cells", lambda x: x.astype(np.int64)), array("counts", at(0, 0)),
        entry("new", None), entry("new", MAX_NEW), entry("new", -1), entry("new", True), entry("trusted", 1),
        entry("trusted", None), entry("keys", None), entry("keys", [["age"]]), key(0, 0, "at"), key(0, 0, 3),
        key(0, 1, "x"), key(0, 1, []), key(0, 2, 0), key(0, 3, 4), key(0, 4, 4), key(0, 5, 1), key(0, 6, -1),
        entry("keys", [[f"k{n}", "number", 1, 1, 1, 0, 0] for n in range(MAX_KEYS + 1)]),
        lambda values, arrays: arrays.pop("limit"), lambda values, arrays: arrays.update(more=np.zeros(4)),
    ],
)  # fmt: skip
def test_altered_parts_are_refused(alter: Callable[[Values, Arrays], Any]) -> None:
    values, arrays = copy.deepcopy(to_parts(learned()))
    assert [path for path, *_ in values["columns"]] == ["age", "at", "vector", "x\ud800"]
    alter(values, arrays)
    with pytest.raises(ValueError):
        from_parts(ENCODER, values, arrays)


def test_parts_of_another_encoder_are_refused() -> None:
    parts = to_parts(learned())
    with pytest.raises(ValueError, match="at most 8"):
        from_parts(Encoder(numbers=8), *parts)
    with pytest.raises(ValueError, match="other columns than those declared"):
        from_parts(Columns(age=Number()), *parts)
    columns = Columns(age=Number())
    values, arrays = to_parts(columns.init())
    assert from_parts(columns, values, arrays) == columns.init()
    with pytest.raises(ValueError, match="hashed, expected 1 and 0"):
        from_parts(columns, {**values, "overflow": 1}, arrays)
    with pytest.raises(ValueError, match="a column has no observations"):
        from_parts(Encoder(), values, arrays)


SETTINGS = (Encoder(), Encoder(numbers=3, buckets=5, hashes=1, seed=7), Encoder(numbers=0, buckets=4, hashes=3))


@given(st.sampled_from(SETTINGS), st.lists(contexts, max_size=6), contexts)
def test_what_was_learned_comes_back_exactly(
    encoder: Encoder, history: list[dict[str, Any]], raw: dict[str, Any]
) -> None:
    state = encoder.init()
    for context in history:
        state = encoder.observe(state, context)
    back = from_parts(encoder, *to_parts(state))
    assert back == state
    assert encoder.encode(back, raw).tobytes() == encoder.encode(state, raw).tobytes()


def test_a_schema_and_its_state_come_back() -> None:
    kinds = (Columns, Number, Category, Tags, Time, Embedding)
    shop = Columns(
        total=Number(), country=Category(["AT", "DE"]), tags=Tags(["new", "red"]), at=Time(optional=True),
        vector=Embedding(2),
    )  # fmt: skip
    classes = {kind.__name__: kind for kind in kinds}
    assert decoded(encoded(shop, "a schema", classes), classes) == shop
    state = shop.init(trusted=True)
    for total in (10.0, 30.0):
        event = {"total": total, "country": "AT", "tags": ["red"], "at": "2026-11-16", "vector": [0.5, -1]}
        state = shop.observe(state, event)
    assert from_parts(shop, *to_parts(state)) == state


def test_counts_of_categories_come_back() -> None:
    state = ENCODER.init()
    for t in range(200):
        state = ENCODER.observe(state, {"user": f"u{t % 70}", "session": f"s{t}", "age": 20 + 37 * t % 50})
    assert from_parts(ENCODER, *to_parts(state)) == state
