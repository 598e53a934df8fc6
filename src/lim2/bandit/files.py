"""Save and load bandits: one file with the agent and the encoder states."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2.algorithms.base import Algorithm
from lim2.arms import arm_names
from lim2.bandit.rows import ItemRows, Rows, rows_of
from lim2.deciding import BanditState
from lim2.encoding import Category, Columns, Embedding, Encoder, EncoderState, Number, Tags, Time
from lim2.encoding.parts import from_parts, to_parts
from lim2.learner import Learner
from lim2.log.serialization import as_json
from lim2.persistence import agents
from lim2.persistence.container import LoadError, pack
from lim2.persistence.settings import decoded, encoded
from lim2.representation import Representation
from lim2.state import Ints

KIND = "bandit"  # the key of a header that says what the file holds
KNOWN: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Encoder, Columns, Number, Category, Tags, Time, Embedding)
}
_AGENT, _HEADER = "agent", {"encoders", "learned", "features"}


def dump(
    algorithm: Algorithm, encoders: Sequence[Encoder | Columns], state: BanditState, asked: Ints, positions: Any
) -> bytes:
    """Return a bandit as the bytes of a file; equal bandits give equal bytes."""
    content = agents.dump(algorithm, state, asked, positions)
    arrays: dict[str, NDArray[Any]] = {_AGENT: np.frombuffer(content, dtype=np.uint8)}
    values = []
    for place, encoder_state in enumerate(state.encoders):
        value, moments = to_parts(encoder_state)
        values.append(value)
        arrays |= {f"{place}/{name}": array for name, array in moments.items()}
    features = state.features
    header = {
        "encoders": [None if one is None else encoded(one, "an encoder", KNOWN) for one in (*encoders, None)[:2]],
        "learned": values,
        "features": None if features is None else [[encoded(k, "a name", {}), v] for k, v in features.items()],
    }
    return pack({KIND: header}, arrays)


def parse(
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    seed: int | None,
    representation: Representation | None,
) -> tuple[Learner, Rows]:
    """Return learner and rows of the bandit that :func:`dump` wrote; raise a LoadError if the content is invalid."""
    try:
        return _parsed(header, arrays, seed, representation)
    except LoadError:
        raise
    except agents.INVALID_FILE_ERRORS as error:
        raise LoadError(f"the file does not describe a valid bandit, it may have been altered: {error}") from error


def _parsed(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], seed: Any, representation: Any
) -> tuple[Learner, Rows]:
    parts = header[KIND]
    if set(header) != {KIND} or not isinstance(parts, dict) or set(parts) != _HEADER or _AGENT not in arrays:
        raise LoadError("the file's header does not describe a bandit")
    core = Learner(*agents.parse(arrays[_AGENT].tobytes(), seed=seed, representation=representation))
    encoders = tuple(decoded(part, KNOWN) for part in parts["encoders"])
    if len(encoders) != 2 or not isinstance(encoders[0], Encoder | Columns):
        raise LoadError("the file must describe an encoder of contexts and at most one encoder of items")
    rows, crossing = rows_of(*encoders), core.algorithm.crossing
    if len(parts["learned"]) != len(rows.encoders):
        raise LoadError("the file must have exactly one state per encoder")
    saved = zip(rows.encoders, parts["learned"], strict=True)
    states = [_encoder_state(encoder, values, arrays, place) for place, (encoder, values) in enumerate(saved)]
    widths = tuple(encoder.width for encoder in rows.encoders)
    expected = core.algorithm.shape if crossing is None else (crossing.context, crossing.item)
    if widths != expected:
        raise LoadError(f"the encoders return vectors of widths {widths}, but the agent expects {expected}")
    core.state = core.state._replace(encoders=tuple(states))
    features = _features(parts["features"])
    if isinstance(rows, ItemRows) and features is not None:
        rows.set_features(core, features)
    elif features is not None:
        raise LoadError("the file has features of arms, but the agent's arms have none")
    return core, rows


def _encoder_state(encoder: Any, values: Any, arrays: Mapping[str, NDArray[Any]], place: int) -> EncoderState:
    prefix = f"{place}/"
    moments = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    state = from_parts(encoder, values, moments, of_items=place == 1)
    encoder.check(state)
    return state


def _features(listed: Any) -> dict[Any, Any] | None:
    if listed is None:
        return None
    names = arm_names([decoded(name, {}) for name, _ in listed])
    return {name: as_json(features) for name, (_, features) in zip(names, listed, strict=True)}
