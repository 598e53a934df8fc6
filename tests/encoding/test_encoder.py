"""What becomes of numbers, categories, missing values, lists and times; what is learned, and when."""

import dataclasses
import math
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from lim2.encoding import Contribution, Encoder, EncoderState, RawEncoder

LEAVES, LENGTH, MAX_LIST_VALUES = 1000, 250, 4096  # limits of a context
SAMPLE_VALUES = 64  # after which the scaling of a number is fixed

ENCODER = Encoder(numbers=8, buckets=32)
EVENT: dict[str, Any] = {
    "country": "AT", "age": 31, "basket": {"items": 3, "total": 80.5}, "device": None, "at": "2026-11-16T10:00:00Z",
}  # fmt: skip


def learned(*raws: Any, encoder: Encoder = ENCODER) -> EncoderState:
    state = encoder.init(trusted=True)
    for raw in raws:
        state = encoder.observe(state, raw)
    return state


def same(raw: Any, other: Any, state: EncoderState, encoder: Encoder = ENCODER) -> bool:
    return encoder.encode(state, raw).tobytes() == encoder.encode(state, other).tobytes()


def by_path(parts: tuple[Contribution, ...]) -> dict[str, list[tuple[str, int | None, float]]]:
    out: dict[str, list[tuple[str, int | None, float]]] = {}
    for part in parts:
        out.setdefault(part.path, []).append((part.kind, part.column, part.encoded))
    return out


def run(code: str, **environment: str) -> str:
    """Return what Python prints in a process of its own that finds the same packages."""
    start = f"import sys; sys.path[:0] = {[entry for entry in sys.path if entry]!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", start + code], capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout


# Hashes


def test_another_process_with_another_hash_seed_gives_the_same_bits() -> None:
    code = f"""
from lim2.encoding import Encoder
encoder = Encoder(numbers=8, buckets=32)
state = encoder.init(trusted=True)
for age in (20, 30, 41):
    state = encoder.observe(state, {{**{EVENT!r}, "age": age, "tags": {{"new", "red", "sale"}}}})
print(encoder.encode(state, {EVENT!r}).tobytes().hex())
"""
    outputs = {run(code, PYTHONHASHSEED=seed) for seed in ("1", "2", "3")}
    state = learned(*({**EVENT, "age": age, "tags": {"new", "red", "sale"}} for age in (20, 30, 41)))
    assert outputs == {ENCODER.encode(state, EVENT).tobytes().hex() + "\n"}


def test_a_token_has_one_bucket_of_every_bank_and_length_one() -> None:
    encoder = Encoder(numbers=0, buckets=33, hashes=4)
    for value in map(str, range(300)):
        x = encoder.encode(encoder.init(trusted=True), {"sku": value})
        assert np.count_nonzero(x) == 4
        assert np.linalg.norm(x) == pytest.approx(1.0, abs=1e-5)


def test_signs_and_buckets_are_spread_evenly() -> None:
    encoder = Encoder(numbers=0, buckets=16, hashes=1)
    X = encoder.encode_many(encoder.init(trusted=True), [{"sku": str(k)} for k in range(4000)])
    # Counts in 16 buckets of both signs: chi-squared with 31 degrees of freedom, 99.9% quantile 61.1
    counts = np.concatenate(((X > 0).sum(axis=0), (X < 0).sum(axis=0)))
    assert ((counts - 125.0) ** 2 / 125.0).sum() < 61.1


# Categories and missing values


def test_true_one_and_their_names_are_different_values() -> None:
    encoder = Encoder(numbers=4, buckets=4096)
    vectors = [
        encoder.encode(encoder.init(trusted=True), {"x": value})
        for value in (True, False, None, "True", "None", "", "1")
    ]
    assert len({x.tobytes() for x in vectors}) == len(vectors)


def test_a_known_number_that_is_absent_is_as_one_that_is_none() -> None:
    state = learned({"age": 20}, {"age": 40})
    assert same({}, {"age": None}, state) and same({}, {"age": []}, state)
    assert not same({}, {"age": 30}, state)
    (part,) = ENCODER.explain(state, {})[:1]
    assert (part.path, part.value, part.kind) == ("age", None, "missing")
    assert ENCODER.encode(state, {})[0] == 0.0


def test_a_key_that_is_sometimes_a_number_and_sometimes_a_string() -> None:
    state = learned({"age": 20}, {"age": "unknown"}, {"age": 40})
    assert state.columns["age"].measure.moments.weight == 2
    x = ENCODER.encode(state, {"age": "unknown"})
    assert x[0] == 0.0 and np.count_nonzero(x) == 2
    assert by_path(ENCODER.explain(state, {"age": "unknown"}))["age"][0][0] == "category"
    assert ENCODER.encode(state, {"age": 40})[0] == 1.0


def test_an_unknown_key_and_a_context_without_any_are_no_error() -> None:
    state = learned(EVENT)
    assert ENCODER.encode(state, {"never": {"seen": "before"}}).shape == (40,)
    assert not ENCODER.encode(ENCODER.init(trusted=True), {}).any()


# Numbers


def test_numbers_are_standardised_by_the_mean_and_deviation_of_the_first() -> None:
    rng = np.random.default_rng(0)
    for scale, offset in ((1.0, 0.0), (1e-6, 5e-6), (1e9, -3e9), (2.0, 1e9)):
        values = offset + scale * rng.normal(size=200)
        state = learned(*({"x": float(x)} for x in values))
        first = values[: SAMPLE_VALUES + 1]  # counted from the first that differs
        expected = (values - first.mean()) / first.std()
        got = ENCODER.encode_many(state, [{"x": float(x)} for x in values])[:, 0]
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_what_never_varied_and_what_was_never_learned_is_zero() -> None:
    state = learned({"x": 7.1}, {"x": 7.1}, {"x": 7.1})
    assert ENCODER.encode(state, {"x": 1e9})[0] == 0.0
    assert by_path(ENCODER.explain(state, {"x": 7.1, "y": 3.0}))["y"] == [("new number", None, 0.0)]
    jitter = learned({"x": 1e9}, {"x": np.nextafter(1e9, 2e9)})
    assert ENCODER.encode(jitter, {"x": 2e9})[0] == 0.0


def test_a_number_far_out_is_clipped() -> None:
    state = learned({"x": 0.0}, {"x": 1.0}, {"x": 2.0}, {"x": 3.0})
    assert ENCODER.encode(state, {"x": 1e29})[0] == 2.0
    assert ENCODER.encode(state, {"x": -1e29})[0] == -2.0


def test_numbers_beyond_the_columns_are_hashed_and_counted() -> None:
    encoder = Encoder(numbers=2, buckets=8)
    raw = {"d": 1.0, "c": 2.0, "b": 3, "a": 4}
    state = learned(raw, raw, encoder=encoder)
    assert list(state.columns) == ["a", "b"]  # by name, not by order
    assert (state.used, state.overflow, state.updates) == (2, 4, 2)
    parts = by_path(encoder.explain(state, raw))
    ((kind, column, encoded),) = parts["c"]
    assert kind == "hashed number" and column is not None and column >= 2
    assert abs(encoded) == pytest.approx(0.1 * math.asinh(2.0), abs=1e-6)


@pytest.mark.parametrize("value", [31, 31.0, np.float32(31), np.int8(31), np.uint64(31), Decimal(31), Fraction(31)])
def test_numbers_of_all_types_are_one(value: Any) -> None:
    state = learned({"age": value}, {"age": 40})
    assert state == learned({"age": 31}, {"age": 40})
    assert same({"age": value}, {"age": 31}, state)


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, 10**400, 1e30, Decimal("NaN"), Decimal("sNaN"), np.float64("nan"), 1j, b"x"],
)
@pytest.mark.parametrize("wrap", [lambda x: {"basket": {"total": x}}, lambda x: {"basket.total": x}])
def test_numbers_that_are_none_are_refused_with_their_path(value: Any, wrap: Any) -> None:
    state = learned({"basket": {"total": 1.0}})
    for call in (ENCODER.encode, ENCODER.observe, ENCODER.explain):
        with pytest.raises(ValueError, match=r"^basket\.total is "):
            call(state, wrap(value))


# Lists


def test_a_list_of_strings_is_a_bag_of_length_one() -> None:
    encoder = Encoder(numbers=0, buckets=4096)
    x = encoder.encode(encoder.init(trusted=True), {"tags": ["new", "red", "sale"]})
    parts = [encoder.encode(encoder.init(trusted=True), {"tags": [tag]}) for tag in ("new", "red", "sale")]
    np.testing.assert_allclose(x, sum(parts) / math.sqrt(3), atol=1e-5)
    assert same({"tags": ["new", "red"]}, {"tags": ("red", "new")}, encoder.init(trusted=True), encoder)
    assert same({"tags": ["new", "red"]}, {"tags": {"red", "new"}}, encoder.init(trusted=True), encoder)
    assert same({"tags": ["new"]}, {"tags": "new"}, encoder.init(trusted=True), encoder)


def test_a_cached_bag_is_not_taken_for_a_list_that_equals_it() -> None:
    encoder = Encoder(numbers=4, buckets=64)
    encoder.encode(encoder.init(trusted=True), {"x": ["a", True]})
    with pytest.raises(ValueError, match="x holds 'a' and 1"):
        encoder.encode(encoder.init(trusted=True), {"x": ["a", 1]})
    encoder.encode(encoder.init(trusted=True), {"x": [True]})
    assert encoder.explain(encoder.init(trusted=True), {"x": [1]})[0].kind == "new embedding"
    encoder.encode(encoder.init(trusted=True), {"x": ["2026-11-16", "b"]})  # as a tag it is no time
    state = encoder.observe(encoder.init(trusted=True), {"y": 1.0})
    assert not np.array_equal(encoder.encode(state, {"x": "2026-11-16"}), encoder.encode(state, {"x": ["2026-11-16"]}))


@pytest.mark.parametrize("make", [list, tuple, np.array])
def test_an_embedding_is_taken_as_it_is(make: Any) -> None:
    numbers = [0.25, -3.0, 1e-9, -0.0]
    raw = {"age": 1, "vector": make(numbers)}
    state = learned(raw)
    x = ENCODER.encode(state, raw)
    start = state.columns["vector"].at
    assert x[start : start + 4].tolist() == numbers
    assert ENCODER.encode_many(state, [raw, raw]).tobytes() == 2 * x.tobytes()


def test_an_embedding_of_another_length_or_without_columns_is_hashed() -> None:
    state = learned({"vector": [1.0] * 4})
    kinds = {part.kind for part in ENCODER.explain(state, {"vector": [1.0] * 5})}
    assert kinds == {"hashed embedding"}
    assert ENCODER.observe(state, {"vector": [1.0] * 5}).overflow == 1
    long = learned({"vector": [1.0] * 9})  # more than the columns that there are
    assert not long.columns and long.overflow == 1


def test_hashing_keeps_lengths_and_products_on_average() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 50)) / math.sqrt(50)
    encoder = Encoder(numbers=0, buckets=64)
    products = []
    for key in range(400):
        X = encoder.encode_many(encoder.init(trusted=True), [{f"k{key}": a.tolist()}, {f"k{key}": b.tolist()}])
        products.append(X @ X.T)
    mean, error = np.mean(products, axis=0), np.std(products, axis=0) / 20.0
    expected: NDArray[np.float64] = np.array([[a @ a, a @ b], [a @ b, b @ b]])
    assert (np.abs(mean - expected) < 4.0 * error + 1e-5).all()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["new", 1], r"^basket\.tags holds 'new' and 1"),
        ([1, "new"], r"^basket\.tags holds 'new' and 1"),
        ([0.5, math.nan], r"^basket\.tags\[1\] is nan"),
        ([0.5, 10**400], r"^basket\.tags\[1\] is a number of 1329 bits"),
        ([10**400], r"^basket\.tags\[0\] is a number of 1329 bits"),
        ([18371234, 99812], r"^the numbers of basket\.tags add up to more than"),
        (["x", ["y"]], r"^basket\.tags\[1\] is a value of type list"),
        ([{"sku": 1}], r"^basket\.tags\[0\] is a value of type dict"),
        ([datetime(2026, 1, 1)], r"^basket\.tags holds a value of type datetime"),
        (["x"] * (MAX_LIST_VALUES + 1), rf"^basket\.tags is a list of {MAX_LIST_VALUES + 1} values"),
        (np.zeros((2, 2)), r"^basket\.tags is a value of type ndarray"),
        ({1, 2}, r"^basket\.tags is a value of type set"),
        (object(), r"^basket\.tags is a value of type object"),
    ],
)
def test_other_lists_are_refused_with_their_path(value: Any, message: str) -> None:
    state = learned({"basket": {"tags": [1.0, 2.0]}})
    for call in (ENCODER.encode, ENCODER.observe, ENCODER.explain):
        with pytest.raises(ValueError, match=message):
            call(state, {"basket": {"tags": value}})


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"age": math.nan}, "^age is nan"),
        ({"age": 10**400}, "^age is a number of 1329 bits"),
        ({"vector": [0.5, math.inf]}, r"^vector\[1\] is inf"),
        ({"vector": [10**400, 0.5]}, r"^vector\[0\] is a number of 1329 bits"),
        ({"vector": [1e6, 0.5]}, "^the numbers of vector add up"),
        ({"vector": [True, 0.5]}, "^vector holds True and 0.5"),
    ],
)
def test_many_refuse_what_one_refuses(bad: dict[str, Any], message: str) -> None:
    good = {"age": 1, "vector": [0.5, 1]}
    with pytest.raises(ValueError, match=message):
        ENCODER.encode_many(learned(good, {**good, "age": 3}), [good, {**good, **bad}, good])


# Times


def test_a_time_is_two_circles_and_an_age() -> None:
    start = datetime(2026, 11, 16, 6, tzinfo=UTC)  # a Monday
    ages = -np.array([0.0, 2.0, 1.0, 4.0])
    state = learned(*({"published": start - timedelta(days=age)} for age in ages))
    parts = by_path(ENCODER.explain(state, {"published": start}))["published"]
    assert [kind for kind, _, _ in parts] == ["hour sin", "hour cos", "weekday sin", "weekday cos", "age"]
    x = ENCODER.encode(state, {"published": start})[:5]
    np.testing.assert_allclose(x[:4], [1.0, 0.0, 0.0, 1.0], atol=1e-12)
    assert x[4] == pytest.approx(-ages.mean() / ages.std())
    assert ENCODER.encode(state, {"published": start - timedelta(days=90)})[4] == 2.0  # not beyond sqrt(4)


def test_all_forms_of_a_time_are_one() -> None:
    forms: list[Any] = [
        "2026-11-16T10:00:00Z", "2026-11-16T10:00:00+00:00", "2026-11-16 10:00:00", "2026-11-16T10:00:00.000",
        datetime(2026, 11, 16, 10), datetime(2026, 11, 16, 10, tzinfo=UTC), np.datetime64("2026-11-16T10:00"),
        np.datetime64("2026-11-16T10:00", "ns"),
    ]  # fmt: skip
    state = learned(*({"at": form} for form in forms), {"at": "2026-11-10T03:00:00Z"})
    assert len({ENCODER.encode(state, {"at": form}).tobytes() for form in forms}) == 1
    assert same({"at": "2026-11-16"}, {"at": date(2026, 11, 16)}, state)
    assert same({"at": np.datetime64("NaT")}, {"at": None}, state)


def test_the_hour_is_that_of_the_clock_and_the_age_that_of_the_moment() -> None:
    state = learned({"at": "2026-11-16T10:00:00Z"}, {"at": "2026-11-10T10:00:00Z"})
    here, there = (ENCODER.encode(state, {"at": at}) for at in ("2026-11-14T10:00Z", "2026-11-14T10:00:00+12:00"))
    assert here[:4].tolist() == there[:4].tolist() and here[4] != there[4]
    vienna = datetime(2026, 11, 14, 10, tzinfo=timezone(timedelta(hours=12)))
    assert same({"at": vienna}, {"at": "2026-11-14T10:00:00+12:00"}, state)


def test_what_only_looks_like_a_time_is_a_category() -> None:
    for text in ("2026-99-99", "1234-67-90 is a number", "2026-11-16T99:00", "10:00", "2026"):
        assert ENCODER.explain(ENCODER.init(trusted=True), {"x": text})[0].kind == "category"


def test_without_times_a_string_in_iso_format_is_a_category() -> None:
    plain, dated = Encoder(times=False), Encoder()
    raw, other = {"at": "2026-11-16T10:00:00Z", "age": 3}, {"at": "2026-11-17", "age": 3}
    state = plain.observe(plain.init(trusted=True), raw)
    assert list(state.columns) == ["age"]
    assert [part.kind for part in plain.explain(state, {"at": raw["at"]}) if part.path == "at"] == ["category"] * 2
    assert plain.encode(state, raw).tolist() != plain.encode(state, other).tolist()
    many = plain.encode_many(state, [raw, other] * 20)
    assert many.tobytes() == np.array([plain.encode(state, one) for one in [raw, other] * 20]).tobytes()
    assert list(dated.observe(dated.init(trusted=True), raw).columns) == ["age", "at"]
    assert plain.observe(state, {"at": datetime(2026, 11, 16)}).columns["at"].kind == "time"  # no string


def test_a_time_without_free_columns_is_hashed() -> None:
    encoder = Encoder(numbers=4, buckets=16)
    state = learned({"at": "2026-11-16T06:00:00Z"}, encoder=encoder)
    assert state.overflow == 1 and not state.columns
    assert {part.kind for part in encoder.explain(state, {"at": "2026-11-16T06:00:00Z"})} == {"hashed time"}


# Forms of contexts


@dataclasses.dataclass
class Basket:
    items: int
    total: float


@dataclasses.dataclass
class Visit:
    country: str
    basket: Basket


class Pair(NamedTuple):
    country: str
    basket: Any


def test_mappings_dataclasses_and_named_tuples_are_as_dictionaries() -> None:
    raw = {"country": "AT", "basket": {"items": 3, "total": 80.5}}
    state = learned(raw, {"basket": {"items": 4, "total": 2.5}})
    for other in (
        Visit("AT", Basket(3, 80.5)), Pair("AT", {"items": 3, "total": 80.5}), MappingProxyType(raw),
        {"country": "AT", "basket.items": 3, "basket.total": 80.5},
        {"country": np.str_("AT"), "basket": Basket(3, 80.5)},
    ):  # fmt: skip
        assert same(raw, other, state)


def test_rows_of_polars() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = polars.DataFrame({"country": ["AT", None], "age": [31, 40], "tags": [["a", "b"], ["c"]]})
    rows = [{"country": "AT", "age": 31, "tags": ["a", "b"]}, {"country": None, "age": 40, "tags": ["c"]}]
    state = learned(*frame.iter_rows(named=True))
    assert state == learned(*rows)
    assert same(frame.row(0, named=True), rows[0], state) and same(frame[1], rows[1], state)
    assert ENCODER.encode_many(state, frame).tobytes() == ENCODER.encode_many(state, rows).tobytes()
    assert same({"x": frame["age"]}, {"x": [31, 40]}, state)
    with pytest.raises(ValueError, match="a context must be a dictionary"):
        ENCODER.encode(state, frame)


def test_rows_of_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    at = pandas.Timestamp("2026-11-16T10:00:00.123456789Z")
    frame = pandas.DataFrame({"country": ["AT", None], "age": [31.0, math.nan], "new": [True, False], "at": [at, None]})
    rows = [
        {"country": "AT", "age": 31.0, "new": True, "at": "2026-11-16T10:00:00.123456Z"},
        {"country": None, "age": None, "new": False, "at": None},
    ]
    state = learned({"age": 20}, {"age": 40}, {"at": "2026-11-18T10:00:00Z"}, {"at": "2026-11-11T10:00:00Z"})
    for place, row in enumerate(rows):
        np.testing.assert_allclose(ENCODER.encode(state, frame.iloc[place]), ENCODER.encode(state, row), atol=1e-9)
        assert same(frame.iloc[place], frame.iloc[place][["new", "at", "age", "country"]], state)
        assert same(frame.iloc[place], frame.iloc[place : place + 1], state)
    np.testing.assert_allclose(ENCODER.encode_many(state, frame), ENCODER.encode_many(state, rows), atol=1e-9)
    assert same({"at": pandas.NaT}, {"at": None}, state)
    with pytest.raises(ValueError, match="the key 0 must be a string"):
        ENCODER.encode(state, pandas.Series([1.0, 2.0]))


def test_what_is_no_context_is_refused() -> None:
    for raw in (None, 3, "AT", [1.0, 2.0], [{"a": 1}], np.zeros(3), Visit, object()):
        with pytest.raises(ValueError, match="a context must be a dictionary"):
            ENCODER.encode(ENCODER.init(trusted=True), raw)
    others: tuple[Any, ...] = ({"a": 1}, "AT", 3)
    for raws in others:
        with pytest.raises(ValueError, match="contexts must be a sequence or a data frame"):
            ENCODER.encode_many(ENCODER.init(trusted=True), raws)
    assert ENCODER.encode_many(ENCODER.init(trusted=True), []).shape == (0, 40)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({1: 2.0}, "^the key 1 must be a string"),
        ({True: "x"}, "^the key True must be a string"),
        ({"a": {("b",): 2.0}}, "^the key a value of type tuple of a must be a string"),
        ({"a": {"b": 1}, "a.b": 2}, r"^a\.b appears twice"),
        ({"a.b": 2, "a": {"b": 1}}, r"^a\.b appears twice"),
        ({"k" * (LENGTH + 1): "x"}, f"^the path {'k' * 50}... has {LENGTH + 1} characters"),
        ({"k" * (LENGTH + 1): 1.0}, f"^the path {'k' * 50}... has {LENGTH + 1} characters"),
        ({"k" * (LENGTH + 1): {}}, f"^the path {'k' * 50}... has {LENGTH + 1} characters"),
        ({f"k{i}": 1 for i in range(LEAVES + 1)}, f"^k{LEAVES} is one value too many"),
        ({"a": {f"k{i}": 1 for i in range(LEAVES + 1)}}, rf"^a\.k{LEAVES} is one value too many"),
    ],
)
def test_keys_that_are_refused(raw: Any, message: str) -> None:
    for call in (ENCODER.encode, ENCODER.observe, ENCODER.explain):
        with pytest.raises(ValueError, match=message):
            call(ENCODER.init(trusted=True), raw)
    with pytest.raises(ValueError, match=message):
        ENCODER.encode_many(ENCODER.init(trusted=True), [raw, raw])


# Memory


# Settings and the shell


@pytest.mark.parametrize(
    "settings",
    [{"numbers": -1}, {"buckets": 0}, {"hashes": 0}, {"hashes": 9}, {"buckets": 1, "hashes": 2}, {"seed": -1},
     {"numbers": 1.5}, {"seed": 2**63}, {"buckets": True}, {"times": 1}],
)  # fmt: skip
def test_settings_that_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Encoder(**settings)


def test_settings_are_plain_numbers() -> None:
    encoder = Encoder(numbers=np.int64(3), buckets=np.int32(8), seed=np.int64(5))  # type: ignore[arg-type]
    assert encoder == Encoder(numbers=3, buckets=8, seed=5) and {type(n) for n in vars(encoder).values()} == {int, bool}
    assert encoder.encode(encoder.init(trusted=True), EVENT).shape == (11,)


def test_neither_pandas_nor_polars_nor_scikit_learn_is_imported() -> None:
    code = "import sys, lim2.encoding; print(*{name.split('.')[0] for name in sys.modules})"
    path = [entry for entry in sys.path if entry]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"pandas", "polars", "sklearn", "torch"} & set(done.stdout.split())


def test_the_shell_learns_on_update_only() -> None:
    encoder = RawEncoder(Encoder(numbers=8, buckets=32))
    before = encoder.state
    encoder.encode(EVENT)
    encoder.explain(EVENT)
    assert encoder.state is before and not encoder.state.columns
    encoder.update(EVENT)
    assert [(info.name, info.kind, info.columns) for info in encoder.columns] == [
        ("age", "number", range(1)),
        ("at", "time", range(1, 6)),
        ("basket.items", "number", range(6, 7)),
        ("basket.total", "number", range(7, 8)),
        ("country", "category", range(0)),
        ("device", "missing", range(0)),
    ]
    assert (encoder.width, encoder.columns[0].mean, encoder.columns[0].count) == (40, 31.0, 1)
    state = encoder.state
    with pytest.raises(ValueError, match="age is nan"):
        encoder.update({**EVENT, "age": math.nan})
    assert encoder.state is state
    assert RawEncoder(encoder.settings, state).encode(EVENT).tobytes() == encoder.encode(EVENT).tobytes()
    with pytest.raises(ValueError, match="columns are in use"):
        RawEncoder(Encoder(numbers=4), state)
