"""Rows of raw contexts, for arms, or of raw contexts and items."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lim2.arms import arm_names
from lim2.deciding import BanditState, Decider, Question
from lim2.encoding import Columns, Encoder, EncoderState
from lim2.encoding.reading import leaves_of
from lim2.items import beside
from lim2.learner import Learner, Position
from lim2.log.serialization import as_json
from lim2.state import Array

Encoding = Encoder | Columns
Items = Mapping[Any, Any] | None  # features by name: dictionaries, rows or dataclasses; None: those of the arms
Arms = Iterable[Hashable] | None  # names of the eligible arms or items; None: all are eligible
Candidates = dict[Hashable, Any] | None  # raw features by name; None if arms have none

POSITION = "position in the slate"  # the key of a feature: from the second position on, an item has it
NAME = "name of the arm"  # the key of another: arms with features have it


class Rows:
    """Rows of contexts, for arms without features. The states of encoders are in the state of the bandit."""

    def __init__(self, *encoders: Encoding) -> None:
        self.encoders = encoders

    @property
    def width(self) -> int:
        """Number of columns of a row."""
        return sum(encoder.width for encoder in self.encoders)

    @property
    def sources(self) -> tuple[str, ...]:
        """What each encoder encodes: contexts, and items."""
        return ("context", "item")[: len(self.encoders)]

    def init(self) -> tuple[EncoderState, ...]:
        """Return the initial states of the encoders; items are trusted from the first on."""
        return tuple(encoder.init(trusted=place == 1) for place, encoder in enumerate(self.encoders))

    def learned(self, state: BanditState, parts: Sequence[Sequence[Any]]) -> tuple[tuple[EncoderState, ...], Array]:
        """Let the encoders observe all rows, then encode them; return the new states of the encoders, and the rows.

        ``parts`` are the contexts of all rows and, with items, the items of all rows.
        """
        states, blocks = [], []
        for encoder, before, raws in zip(self.encoders, state.encoders, parts, strict=True):
            leaves, after = [leaves_of(raw) for raw in raws], before
            for values in leaves:
                after = encoder.observe(after, values)
            states.append(after)
            many = len(leaves) > 1
            blocks.append(encoder.encode_many(after, leaves) if many else encoder.encode(after, leaves[0])[None])
        return tuple(states), blocks[0] if len(blocks) == 1 else np.hstack(blocks)

    def question(
        self, core: Decider, context: Any, items: Items, arms: Arms, exploit: bool
    ) -> tuple[Question, Candidates]:
        """Return a question, and the raw features of its candidates: none."""
        if items is not None:
            self.candidates(core.state, items, arms)
        (encoder,), (encoder_state,) = self.encoders, core.state.encoders
        x = encoder.encode(encoder_state, context)
        return core.question(x if core.takes_floats else core.row(x), arms, exploit), None

    def parts(self, core: Decider, context: Any, arm: Hashable, item: Any, position: int) -> tuple[int, list[Any]]:  # noqa: ARG002
        """Return the index of an arm, and the context."""
        return core.arm(arm), [context if position == 1 else with_key(context, POSITION, str(position))]

    def candidates(self, state: BanditState, items: Items, arms: Arms) -> Any:  # noqa: ARG002
        """Return no features; refuse items."""
        if items is not None:
            raise ValueError(
                "this bandit was made with arms that have no features, so it takes no items: name the eligible "
                "arms as arms=, or make a bandit without arms"
            )

    def arms(self, state: BanditState) -> Mapping[Hashable, Any] | None:
        """Return a mapping from the names of the arms."""
        return state.places

    def add_arm(self, core: Learner, name: Hashable, like: Any, features: Any, position: Position | None) -> None:
        """Add an arm with its own posterior."""
        if features is not None:
            raise ValueError("the arms of this bandit have no features: leave out features=")
        core.add_arm(name, like, position)

    def remove_arm(self, core: Learner, name: Hashable, position: Position | None) -> None:
        """Remove an arm with its posterior."""
        core.remove_arm(name, position)


class ItemRows(Rows):
    """Rows of contexts and items: those of a call, or arms with features."""

    def question(
        self, core: Decider, context: Any, items: Items, arms: Arms, exploit: bool
    ) -> tuple[Question, Candidates]:
        """Return a question, and the raw features of its candidates."""
        candidates = self.candidates(core.state, items, arms)
        x = self.encoders[0].encode(core.state.encoders[0], context)
        return Question(tuple(candidates), beside(x, self._items(core.state, candidates)), None, exploit), candidates

    def parts(self, core: Decider, context: Any, arm: Hashable, item: Any, position: int) -> tuple[int, list[Any]]:
        """Return the index of the one arm of all items, and the context and the item."""
        if item is None:
            item = self.candidates(core.state, None, [arm])[arm]
        return 0, [context, item if position == 1 else with_key(item, POSITION, str(position))]

    def arms(self, state: BanditState) -> Mapping[Hashable, Any] | None:
        """Return the features of the arms by name; None if items come with every call."""
        return state.features

    def add_arm(self, core: Learner, name: Hashable, like: Any, features: Any, position: Position | None) -> None:
        """Add an arm with features."""
        features_of = core.state.features
        if features_of is None:
            raise ValueError("this bandit has no arms to add to: pass the item in items= of the next call")
        if like is not None or features is None:
            raise ValueError(
                f"the arms of this bandit have features: give the new arm features= and leave out like=, "
                f"got features={features!r} and like={like!r}"
            )
        name = arm_names((*features_of, name))[-1]
        self.set_features(core, {**features_of, name: with_key(features, NAME, name)}, position)

    def remove_arm(self, core: Learner, name: Hashable, position: Position | None) -> None:
        """Remove an arm with its features."""
        features_of = core.state.features
        if features_of is None:
            raise ValueError("this bandit has no arms to remove: leave the item out of items= in the next call")
        if name not in list(features_of) or len(features_of) == 1:  # a list, for what is not hashable
            raise ValueError(
                f"cannot remove {name!r}: name one of the arms {list(features_of)!r}, of which one must remain"
            )
        core.set_features({key: value for key, value in features_of.items() if key != name}, position)

    def set_features(self, core: Learner, features: Mapping[Hashable, Any], position: Position | None = None) -> None:
        """Replace the raw features of the arms; raise a ValueError if they cannot be encoded."""
        self._items(core.state, features)
        core.set_features(features, position)

    def candidates(self, state: BanditState, items: Items, arms: Arms) -> dict[Hashable, Any]:
        """Return the raw features of the candidates by name."""
        if items is None:
            if state.features is None:
                raise ValueError("this bandit chooses among items: give candidates as items={name: features, ...}")
            items = state.features
        elif not isinstance(items, Mapping):
            raise ValueError(f"items must be a mapping {{name: features, ...}}, got {type(items).__name__}")
        if not items:
            raise ValueError("items is empty: there must be at least one to choose from")
        if arms is not None:
            eligible = arm_names(arms)
            unknown = [name for name in eligible if name not in items]
            if unknown:
                raise ValueError(f"{unknown[0]!r} is eligible, but there is no such arm or item")
            items = {name: items[name] for name in eligible}
        arm_names(items)
        return dict(items)

    def _items(self, state: BanditState, candidates: Mapping[Hashable, Any]) -> Array:
        """Return the vectors of items."""
        encoder, encoder_state = self.encoders[1], state.encoders[1]
        try:
            return encoder.encode_many(encoder_state, candidates.values())
        except ValueError:
            for name, item in candidates.items():  # to say which
                try:
                    encoder.encode(encoder_state, item)
                except ValueError as error:
                    raise ValueError(f"the item {name!r}: {error}") from error
            raise


def rows_of(encoder: Encoding, item_encoder: Encoding | None) -> Rows:
    """Return what makes rows with these encoders; None: arms have no features."""
    return Rows(encoder) if item_encoder is None else ItemRows(encoder, item_encoder)


def with_key(raw: Any, key: str, value: Any) -> Any:
    """Return raw features with one more key."""
    features = as_json(raw, "an item")
    if not isinstance(features, dict):
        raise ValueError(f"features must be given by key, as a dictionary, a dataclass or a row; got {raw!r}")
    extended = {**features, key: value if isinstance(value, str) else repr(value)}
    return dict(sorted(extended.items()))  # as JSON of a log or a file comes back
