"""Save and load bandits: one file with the agent and the encoder states."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2.agent import Agent
from lim2.arms import arm_names
from lim2.bandit.bandit import Bandit
from lim2.bandit.deciding import Learned
from lim2.encoding import Category, Columns, Embedding, Encoder, Known, Number, Tags, Time
from lim2.encoding.parts import from_parts, to_parts
from lim2.items import ItemAgent
from lim2.log.serialization import as_json
from lim2.persistence import agents
from lim2.persistence.container import LoadError, pack
from lim2.persistence.settings import decoded, encoded
from lim2.representation import Representation

KIND = "bandit"  # the key of a header that says what the file holds
KNOWN: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Encoder, Columns, Number, Category, Tags, Time, Embedding)
}
_AGENT, _HEADER = "agent", {"encoders", "learned", "features"}


def dump(bandit: Bandit) -> bytes:
    """Return a bandit as the bytes of a file; equal bandits give equal bytes."""
    while True:
        learned, features = bandit._learned, bandit._features
        content = bandit.agent.to_bytes()
        if bandit._learned is learned:  # of one moment, even while another thread updates it
            break
    arrays: dict[str, NDArray[Any]] = {_AGENT: np.frombuffer(content, dtype=np.uint8)}
    values = []
    for place, known in enumerate(part for part in learned if part is not None):
        own, moments = to_parts(known)
        values.append(own)
        arrays |= {f"{place}/{name}": array for name, array in moments.items()}
    header = {
        "encoders": [encoded(encoder, "an encoder", KNOWN) for encoder in bandit._encoders],
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
) -> Bandit:
    """Return the bandit that :func:`dump` wrote; raise a LoadError if the content is invalid."""
    try:
        return _made(header, arrays, seed, representation)
    except LoadError:
        raise
    except agents.INVALID_FILE_ERRORS as error:
        raise LoadError(f"the file does not describe a valid bandit, it may have been altered: {error}") from error


def _made(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], seed: Any, representation: Any) -> Bandit:
    parts = header[KIND]
    if set(header) != {KIND} or not isinstance(parts, dict) or set(parts) != _HEADER or _AGENT not in arrays:
        raise LoadError("the file's header does not describe a bandit")
    agent = Agent.restored(*agents.parse(arrays[_AGENT].tobytes(), seed=seed, representation=representation))
    encoders = tuple(decoded(part, KNOWN) for part in parts["encoders"])
    if len(encoders) != 2 or not isinstance(encoders[0], Encoder | Columns):
        raise LoadError("the file must describe an encoder of contexts and at most one encoder of items")
    used = [encoder for encoder in encoders if encoder is not None]
    if len(parts["learned"]) != len(used):
        raise LoadError("the file must have exactly one state per encoder")
    known = [_known(encoder, parts["learned"][place], arrays, place) for place, encoder in enumerate(used)]
    crossing, widths = agent.algorithm.crossing, tuple(encoder.width for encoder in used)
    expected = agent.algorithm.shape if crossing is None else (crossing.context, crossing.item)
    if widths != expected:
        raise LoadError(f"the encoders return vectors of widths {widths}, but the agent expects {expected}")
    inner = agent if crossing is None else ItemAgent(agent)
    features = _features(parts["features"])
    if features is not None and crossing is None:
        raise LoadError("the file has features of arms, but the agent's arms have none")
    bandit = Bandit.restored(inner, encoders, Learned(known[0], known[1] if crossing else None), features)
    if features is not None:
        bandit.encodable(features)
    return bandit


def _known(encoder: Any, values: Any, arrays: Mapping[str, NDArray[Any]], place: int) -> Known:
    own = {name.removeprefix(f"{place}/"): array for name, array in arrays.items() if name.startswith(f"{place}/")}
    known = from_parts(encoder, values, own, of_items=place == 1)
    encoder.check(known)
    return known


def _features(listed: Any) -> dict[Any, Any] | None:
    if listed is None:
        return None
    names = arm_names([decoded(name, {}) for name, _ in listed])
    return {name: as_json(features) for name, (_, features) in zip(names, listed, strict=True)}
