"""Tables from logs, arrays, frames and files: candidates that differ, and what is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log.stand_ins import ItemLearner, RawLearner
from log.test_items import CATALOGUE, USERS, live_raw, some_items
from log.world import contexts, learned, make_agent, make_log

import lim2
from lim2.log import LogError, Table
from lim2.log.candidates import Candidates

pytestmark = pytest.mark.one_store

ragged = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True), min_size=1, max_size=12)


@given(ragged, st.data())
def test_rows_of_candidates_are_those_of_lists(rows: list[list[int]], data: st.DataObject) -> None:
    flat = Candidates.of(rows)
    assert [flat.arms[a:b].tolist() for a, b in zip(flat.starts, flat.starts[1:], strict=False)] == rows
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8))
    some = flat.take(np.array(chosen, dtype=np.intp))
    assert len(some) == len(chosen)
    assert some.arms.tolist() == [arm for row in chosen for arm in rows[row]]
    assert some.rows.tolist() == [i for i, row in enumerate(chosen) for _ in rows[row]]
    dense = flat.dense(flat.arms + 1, 10, 0)
    assert dense.tolist() == [[arm + 1 if arm in row else 0 for arm in range(10)] for row in rows]


def test_a_catalogue_of_thousands_needs_no_dense_array(tmp_path: Path) -> None:
    rng, n, k = np.random.default_rng(0), 2000, 20
    eligible = [rng.choice(50_000, size=k, replace=False).tolist() for _ in range(n)]
    played = [row[0] for row in eligible]
    table = Table.of(np.zeros((n, 1)), played, np.ones(n), np.full(n, 1 / k), eligible=eligible)
    assert len(table.arms) > 25_000
    held = sum(array.nbytes for array in (table.contexts, table.chosen, table.candidates.arms, table.candidates.starts))
    assert held < 1_000_000  # (n, K) booleans would be 50 MB
    assert (table.candidates.arms[table.played] == table.chosen).all()
    half = table[::2]
    assert [half.arms_of(row) for row in (0, 7)] == [table.arms_of(0), table.arms_of(14)]


def test_a_log_of_raw_decisions_is_a_table(tmp_path: Path) -> None:
    bandit = RawLearner(["country", "category"])
    with make_log(tmp_path) as log:
        rng = np.random.default_rng(0)
        entries = []
        for user in USERS * 3:
            entries.append(log.decide(bandit, user, items=some_items(rng, int(rng.integers(2, 6)))))
            log.reward(entries[-1].id, 0.5)
        table = log.table()
    assert table.is_raw
    assert table.raw is not None
    assert table.contexts.tolist() == table.raw.tolist() == USERS * 3
    for row, entry in enumerate(entries):
        assert table.arms_of(row) == entry.arms
        assert table.items_of(row) == table.items_of(row, raw=True) == entry.raw_items
        assert table.arms[table.chosen[row]] == entry.arm
    assert table.candidates.propensities is not None
    np.testing.assert_array_equal(table.candidates.propensities, np.concatenate([e.propensities for e in entries]))
    np.testing.assert_array_equal(table.candidates.propensities[table.played], table.propensity)


def test_a_log_of_items_is_a_table(tmp_path: Path) -> None:
    agent, rng = ItemLearner(3), np.random.default_rng(0)
    with make_log(tmp_path) as log:
        entries = []
        for context in contexts(12):
            items = rng.normal(size=(rng.integers(2, 5), 3))
            raw_items = [{"place": place} for place in range(len(items))]
            entries.append(log.decide(agent, context, items=items, raw={"n": 1}, raw_items=raw_items))
            log.reward(entries[-1].id, 1.0)
        table = log.table()
        log.reward(log.decide(RawLearner(["x"]), {}, items={"a": {}}).id, 1.0)
        both = log.table()  # what is raw is what all have
        assert both.is_raw
        assert (both.items_of(0) or {})[1] == {"place": 1}
        log.reward(log.decide(RawLearner(["x"], arms=["a"]), {}).id, 1.0)
        with pytest.raises(ValueError, match="among items, and others without"):
            log.table()
        log.reward(log.decide(make_agent(), np.zeros(4)).id, 1.0)
        with pytest.raises(ValueError, match="vectors only and others with raw contexts only"):
            log.table()
        log.reward(log.record(make_agent().decide(np.zeros(4)), np.zeros(2)).id, 1.0)
        with pytest.raises(ValueError, match="different shapes"):
            log.table(last=2)
    assert table.contexts.shape == (12, 4)
    assert table.candidates.items is not None
    assert [item.tolist() for item in table.candidates.items] == [row.tolist() for e in entries for row in e.vectors]  # type: ignore[union-attr]
    assert table.items_of(2)[1].tolist() == entries[2].vectors[1].tolist()  # type: ignore[index]
    assert (table.items_of(2, raw=True) or {})[1] == {"place": 1}


def test_an_agent_learns_a_table_as_it_learns_the_log(tmp_path: Path) -> None:
    agent, by_log, by_table = make_agent(), make_agent(), make_agent()
    bandit, raw_by_table = RawLearner(["country"]), RawLearner(["country"])
    with make_log(tmp_path) as log:
        for context in contexts(20):
            log.reward(log.decide(agent, context).id, float(context[0]))
        log.replay(by_log)
        assert log.table().replay(by_table) == 20
    by_table.metadata = by_log.metadata
    assert learned(by_table) == learned(by_log)
    (tmp_path / "raw").mkdir()
    with make_log(tmp_path / "raw") as log:
        for user in USERS:
            log.reward(log.decide(bandit, user, items=CATALOGUE).id, 0.5)
        log.apply(bandit)
        table = log.table()
    assert table.replay(raw_by_table) == len(USERS)
    assert raw_by_table.heard == bandit.heard
    with pytest.raises(LogError, match="row 0 has only a raw context"):
        table.replay(make_agent())
    items = ItemLearner(2)
    numbered = Table.of([[1.0]], [1], [0.5], [0.5], items=[np.eye(2)], raw=[{"a": 1}])
    numbered.replay(items)
    assert items.heard == [([1.0], [0.0, 1.0], 0.5)]
    with pytest.raises(LogError, match="row 0 chose among items without names"):
        numbered.replay(lim2.LinearTS(n_arms=2, n_features=1))


@dataclass
class User:
    age: int


def test_arrays_and_dictionaries_make_tables() -> None:
    base: dict[str, Any] = {"played": ["a", "b"], "rewards": [0.0, 1.0], "propensity": [0.5, 0.25]}
    per_row = [{"a": [1.0, 2.0], "c": [0.0, 0.0]}, {"c": [5.0, 5.0], "b": [3.0, 4.0]}]
    table = Table.of(np.zeros((2, 1)), **base, items=per_row, propensities=[[0.5, 0.5], [0.75, 0.25]])
    assert (table.arms, table.arms_of(1)) == (("a", "b", "c"), ("c", "b"))
    assert table.candidates.items is not None
    assert table.candidates.items[table.played].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert table.propensities is not None
    assert table.propensities.tolist() == [[0.5, 0.0, 0.5], [0.0, 0.25, 0.75]]
    raw = Table.of([User(31), User(50)], **base, items={"a": {"p": 1}, "b": {"p": np.int8(2)}})
    assert raw.contexts.tolist() == [{"age": 31}, {"age": 50}]
    assert raw.items_of(0, raw=True) == {"a": {"p": 1}, "b": {"p": 2}}
    both = Table.of(np.ones((2, 3)), **base, raw=[{"x": 1}, {"x": None}])
    assert (both.contexts.shape, both.raw.tolist()) == ((2, 3), [{"x": 1}, {"x": None}])  # type: ignore[union-attr]
    mask = Table.of(np.ones((2, 3)), **base, arms=["a", "b", "c"], eligible=np.array([[1, 0, 1], [0, 1, 0]], bool))
    assert mask.eligible.tolist() == [[True, False, True], [False, True, False]]


def test_the_order_of_propensities_is_that_of_the_names() -> None:
    table = Table.of(
        np.zeros((2, 1)), ["a", "b"], [0.0, 1.0], [0.7, 0.8],
        eligible=[["b", "a"], ["a", "b"]], propensities=[[0.3, 0.7], [0.2, 0.8]],
    )  # fmt: skip
    assert table.propensities is not None
    assert table.arms == ("a", "b")
    assert table.propensities.tolist() == [[0.7, 0.3], [0.2, 0.8]]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"contexts": [[np.nan], [0.0]]}, r"contexts must be finite, got nan in row 0, column \[0\]"),
        ({"contexts": [{"a": b""}, {}]}, "the raw context of row 0 has a value of type bytes at a"),
        ({"propensity": [0.5, np.nan]}, "propensity must be finite, got nan in row 1"),
        ({"propensities": [[0.5, np.nan], [0.5, 0.5]]}, "propensities must be between 0 and 1, got nan in row 0"),
        ({"means": [[0.5, 0.5], [np.inf, 0.5]]}, "means must be finite, got inf in row 1"),
        ({"eligible": [["a", "b"]]}, "eligible must have 2 rows"),
        ({"eligible": [["a", "a"], ["b"]]}, "an arm twice in row 0"),
        ({"eligible": [["a", "x"], ["b"]], "arms": ["a", "b"]}, "'x', which is not among arms"),
        ({"eligible": [["b"], ["b"]]}, "among the row's candidates exactly once, but is not in row 0"),
        ({"eligible": np.ones((2, 3), bool)}, "eligible must have the shape"),
        ({"eligible": [["a"], ["b"]], "propensities": [[1.0], [0.5, 0.5]]}, "for each of the row's candidates"),
        ({"items": {"a": [1.0]}}, r"no features of \['b'\]"),
        ({"items": {"a": [1.0], "b": [1.0, 2.0]}}, "vectors of one length"),
        ({"items": {"a": [1.0], "b": [np.nan]}}, "the item 'b' is"),
        ({"items": [{"a": [1.0]}]}, "one per row: 2"),
        ({"items": [{"a": [1.0]}, {"a": [1.0]}], "eligible": [["a"], ["b"]]}, "items of row 1 has no 'b'"),
        ({"raw": [{}]}, "raw must have 2 rows"),
        ({"rewards": ["x", "y"]}, "real numbers only"),
    ],
)
def test_what_is_no_table_is_refused(wrong: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {
        "contexts": np.zeros((2, 1)), "played": ["a", "b"], "rewards": [0.0, 1.0], "propensity": [0.5, 0.5]
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        Table.of(**{**good, **wrong})


# Frames

COLUMNS: dict[str, list[Any]] = {
    "x_age": [31.0, 50.0, 20.0], "x_basket": [3, 0, 1], "country": ["AT", None, "DE"],
    "banner": ["spring", "shoes", "gift"], "click": [1, 0, 1], "p": [0.5, 0.25, 1.0],
    "could": [["spring", "shoes"], ["shoes", "gift", "spring"], ["gift"]], "ps": [[0.5, 0.5], [0.25, 0.25, 0.5], [1.0]],
}  # fmt: skip
NAMES: dict[str, Any] = {"arm": "banner", "reward": "click", "propensity": "p"}


def frames(folder: Path) -> dict[str, Any]:
    frame = pl.DataFrame(COLUMNS)
    frame.write_parquet(folder / "log.parquet")
    as_text = [pl.Series(name, [json.dumps(row) for row in COLUMNS[name]]) for name in ("could", "ps")]
    frame.with_columns(as_text).write_csv(folder / "log.csv")
    return {
        "polars": frame, "lazy": frame.lazy(), "pandas": pd.DataFrame(COLUMNS), "parquet": folder / "log.parquet",
        "csv": str(folder / "log.csv"),
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "parquet", "csv"])
def test_frames_and_files_give_the_same_table(tmp_path: Path, kind: str) -> None:
    frame = frames(tmp_path)[kind]
    table = Table.from_frame(frame, context="x_", **NAMES, eligible="could", propensities="ps")
    assert table.contexts.tolist() == [[31.0, 3.0], [50.0, 0.0], [20.0, 1.0]]
    assert [table.arms_of(row) for row in range(3)] == [tuple(row) for row in COLUMNS["could"]]
    assert table.candidates.propensities is not None
    assert table.candidates.propensities.tolist() == [p for row in COLUMNS["ps"] for p in row]
    assert (table.rewards.tolist(), table.propensity.tolist()) == ([1.0, 0.0, 1.0], [0.5, 0.25, 1.0])
    raw = Table.from_frame(frame, context=["country", "x_basket"], raw=True, **NAMES)
    assert raw.contexts.tolist() == [
        {"country": "AT", "x_basket": 3}, {"country": None, "x_basket": 0}, {"country": "DE", "x_basket": 1}
    ]  # fmt: skip
    assert raw.eligible.all()


@pytest.mark.parametrize("library", [pl.DataFrame, pd.DataFrame])
def test_items_come_from_a_frame_of_their_own(library: Any) -> None:
    names = ["gift", "shoes", "spring"]
    items = library({"name": names, "price": [10.0, 80.0, 5.5], "size": [1, 2, 3], "kind": ["a", "b", "c"]})
    settings: dict[str, Any] = {"items": items, "item": "name", "item_features": ["price", "size"]}
    table = Table.from_frame(library(COLUMNS), context="x_", **NAMES, eligible="could", **settings)
    prices = [[float(item[0]) for item in (table.items_of(row) or {}).values()] for row in range(3)]
    assert prices == [[5.5, 80.0], [80.0, 10.0, 5.5], [10.0]]
    raw = Table.from_frame(library(COLUMNS), context=["country"], raw=True, **NAMES, items=items, item="name")
    assert raw.items_of(2, raw=True)["gift"] == {"kind": "a", "price": 10.0, "size": 1}  # type: ignore[index]


def test_propensities_by_arm_say_what_was_eligible() -> None:
    frame = pl.DataFrame(
        {"x": [0.0, 1.0], "arm": ["a", "b"], "r": [1, 0], "p": [0.4, 1.0], "pa": [0.4, 0], "pb": [0.6, 1]}
    )
    table = Table.from_frame(
        frame, context=["x"], arm="arm", reward="r", propensity="p", propensities={"a": "pa", "b": "pb"}
    )
    assert [table.arms_of(0), table.arms_of(1)] == [("a", "b"), ("b",)]
    assert table.propensities is not None
    assert table.propensities.tolist() == [[0.4, 0.6], [0.0, 1.0]]


@pytest.mark.parametrize("library", [pl.DataFrame, pd.DataFrame])
@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ({}, {"context": "z_"}, "no column begins with 'z_'"),
        ({}, {"context": ["age"]}, "no column 'age': there are"),
        ({}, {"context": ["country"]}, "'country' must hold numbers, got 'AT'"),
        ({"x_age": [31, None, 20]}, {}, "'x_age' has no value in row 1"),
        ({"x_age": [31.0, 1.0, float("nan")]}, {}, "'x_age' has no value in row 2"),
        ({"x_age": [31.0, 1.0, float("inf")]}, {}, "'x_age' has inf in row 2"),
        ({"click": [1, None, 0]}, {}, "'click' has no value in row 1"),
        ({"p": [0.5, None, 0.5]}, {}, "'p' has no value in row 1"),
        ({"p": [0.5, 0.0, 0.5]}, {}, "above 0 and at most 1, got 0.0 in row 1"),
        ({"banner": ["spring", None, "shoes"]}, {}, "'banner' has no value in row 1"),
        ({}, {"eligible": "country"}, "must hold lists, or lists as JSON text; got 'AT' in row 0"),
        ({}, {"propensities": "ps"}, "goes with eligible="),
        ({}, {"eligible": "could", "propensities": {"spring": "p"}}, "no column for 'shoes'"),
        ({}, {"propensities": {"spring": "p"}}, "among the row's candidates exactly once, but is not in row 1"),
        ({}, {"items": "names.txt"}, "must end in .csv or .parquet"),
        ({}, {"items": pl.DataFrame({"a": [1]})}, "item= must name the column"),
        ({}, {"items": pl.DataFrame({"a": ["x", "x"], "b": [1, 2]}), "item": "a"}, "every arm once"),
    ],
)
def test_what_is_wrong_with_a_frame_is_said_by_its_columns(
    library: Any, change: dict[str, Any], settings: dict[str, Any], message: str
) -> None:
    frame = library({**COLUMNS, **change})
    with pytest.raises(ValueError, match=message):
        Table.from_frame(frame, **{"context": "x_", **NAMES, **settings})


def test_numbers_have_many_forms() -> None:
    numbers = {
        "nullable": pd.array([1, 2], dtype="Int64"),
        "objects": pd.Series([1, 2.0], dtype=object),
        "booleans": pd.Series([True, False]),
    }
    for name, column in numbers.items():
        frame = pd.DataFrame({0: column, 1: ["a", "b"], 2: [1, 0], 3: [0.5, 0.5]})  # names are numbers
        table = Table.from_frame(frame, context=["0"], arm="1", reward="2", propensity="3")
        assert table.contexts.tolist() == [[1.0], [0.0 if name == "booleans" else 2.0]], name
    prices = pl.Series("x", ["1.5", "2.5"]).cast(pl.Decimal(10, 2))
    other = pl.DataFrame({"x": prices, "a": ["a", "b"], "r": [1, 0], "p": [0.5, 0.5]})
    table = Table.from_frame(other, context="x", arm="a", reward="r", propensity="p")
    assert table.contexts.tolist() == [[1.5], [2.5]]


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="got dict"):
        Table.from_frame(COLUMNS, context="x_", **NAMES)


def test_live_raw_logs_reach_the_table(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        live_raw(log, RawLearner(["country"]))
        table = log.table()
        rows = len(log.store.look(lambda tables: tables.decisions("all", 0, 1000)))
    assert len(table) == rows == 40
