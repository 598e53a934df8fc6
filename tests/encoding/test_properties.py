"""What must hold of every context: bounded, the same in every order, nothing learned by encoding, no NaN."""

import dataclasses
import math
import random
from typing import Any

import numpy as np
import pytest
from helpers.raw import any_root, bad_paths, chain_of, contexts
from hypothesis import given
from hypothesis import strategies as st

from lim2.encoding import Encoder, EncoderState

DEPTH = 8  # levels of dictionaries in a context

SETTINGS = (Encoder(), Encoder(numbers=3, buckets=5, hashes=1, seed=7), Encoder(numbers=0, buckets=4, hashes=3))
histories = st.lists(contexts, max_size=6)
settings_of_encoders = st.sampled_from(SETTINGS)


def learned(encoder: Encoder, history: list[dict[str, Any]]) -> EncoderState:
    state = encoder.init()
    for raw in history:
        state = encoder.observe(state, raw)
    return state


def shuffled(raw: Any, rng: random.Random) -> Any:
    if not isinstance(raw, dict):
        return raw
    items = [(key, shuffled(value, rng)) for key, value in raw.items()]
    rng.shuffle(items)
    return dict(items)


@given(settings_of_encoders, histories, contexts)
def test_a_vector_has_the_width_of_the_settings_and_is_finite_and_bounded(
    encoder: Encoder, history: list[dict[str, Any]], raw: dict[str, Any]
) -> None:
    state = learned(encoder, history)
    x = encoder.encode(state, raw)
    assert x.shape == (encoder.width,) and x.dtype == np.float64
    assert np.isfinite(x).all()
    # An own column holds at most sqrt(updates), a place on a circle, or one of an embedding's numbers, here up to 100;
    # a bucket is at most the sum of what up to 6 ** 2 values and the missing ones add to it.
    assert np.abs(x).max() <= max(100.0, math.sqrt(len(history))) * 50.0


@given(settings_of_encoders, histories, contexts, st.randoms(use_true_random=False))
def test_the_order_of_keys_changes_no_bit(
    encoder: Encoder, history: list[dict[str, Any]], raw: dict[str, Any], rng: random.Random
) -> None:
    state = learned(encoder, history)
    again = learned(encoder, [shuffled(each, rng) for each in history])
    assert state == again
    assert encoder.encode(state, raw).tobytes() == encoder.encode(again, shuffled(raw, rng)).tobytes()
    assert encoder.explain(state, raw) == encoder.explain(again, shuffled(raw, rng))


@given(settings_of_encoders, histories, contexts)
def test_contributions_add_up_to_the_vector_in_every_bit(
    encoder: Encoder, history: list[dict[str, Any]], raw: dict[str, Any]
) -> None:
    state = learned(encoder, history)
    total = np.zeros(encoder.width)
    for part in encoder.explain(state, raw):
        if part.column is None:
            assert part.encoded == 0.0
        else:
            total[part.column] += part.encoded
    assert total.tobytes() == encoder.encode(state, raw).tobytes()


@given(settings_of_encoders, histories, contexts)
def test_what_an_encoder_has_cached_changes_nothing(
    encoder: Encoder, history: list[dict[str, Any]], raw: dict[str, Any]
) -> None:
    state = learned(encoder, history)
    encoder.encode_many(state, history)
    assert encoder.encode(state, raw).tobytes() == dataclasses.replace(encoder).encode(state, raw).tobytes()


@given(settings_of_encoders, histories, st.lists(contexts, max_size=4))
def test_many_are_encoded_as_one_by_one(
    encoder: Encoder, history: list[dict[str, Any]], raws: list[dict[str, Any]]
) -> None:
    state = learned(encoder, history)
    for together in (raws, raws[:1] * 3, history[:1] + history[:1]):
        many = encoder.encode_many(state, together)
        assert many.shape == (len(together), encoder.width)
        assert many.tobytes() == b"".join(encoder.encode(state, raw).tobytes() for raw in together)


@given(settings_of_encoders, histories, contexts)
def test_encoding_and_explaining_learn_nothing_and_observing_writes_into_nothing(
    encoder: Encoder, history: list[dict[str, Any]], raw: dict[str, Any]
) -> None:
    state = learned(encoder, history)
    before = {path: tuple(own) for path, own in state.columns.items()}
    encoder.encode(state, raw)
    encoder.explain(state, raw)
    after = encoder.observe(state, raw)
    assert {path: tuple(own) for path, own in state.columns.items()} == before
    assert (state.updates, after.updates) == (len(history), len(history) + 1)


@pytest.mark.parametrize("encoder", SETTINGS)
def test_10_000_json_values_are_encoded_or_refused_with_the_path_of_what_is_bad(encoder: Encoder) -> None:
    rng = random.Random(0)
    state, accepted, refused = encoder.init(), 0, 0
    for _ in range(10_000):
        raw = any_root(rng)
        before = state
        try:
            x = encoder.encode(state, raw)
            state = encoder.observe(state, raw)
        except ValueError as error:
            refused += 1
            assert state is before
            if isinstance(raw, dict):
                assert any(path in str(error) for path in bad_paths(raw)), (str(error), bad_paths(raw))
            else:
                assert "a context must be a dictionary" in str(error)
            for call in (encoder.observe, lambda state, raw: encoder.encode_many(state, [raw, raw])):
                with pytest.raises(ValueError):
                    call(state, raw)
            continue
        accepted += 1
        assert isinstance(raw, dict) and not bad_paths(raw)
        assert np.isfinite(x).all()
    assert accepted > 2000 and refused > 2000


@given(histories, contexts)
def test_whether_a_context_is_accepted_does_not_depend_on_what_was_learned(
    history: list[dict[str, Any]], raw: dict[str, Any]
) -> None:
    encoder = SETTINGS[1]
    for state in (encoder.init(), learned(encoder, history), learned(encoder, [raw, raw])):
        encoder.encode(state, raw)  # raises nothing
        encoder.observe(state, raw)


def test_dictionaries_are_nested_up_to_a_bound() -> None:
    encoder = Encoder()
    encoder.encode(encoder.init(), chain_of(DEPTH))
    with pytest.raises(ValueError, match=r"^x(\.x){7} is nested too deeply"):
        encoder.encode(encoder.init(), chain_of(DEPTH + 1))
    endless: dict[str, Any] = {}
    endless["x"] = endless
    with pytest.raises(ValueError, match="nested too deeply"):
        encoder.encode(encoder.init(), endless)
