"""Encoders: raw contexts (dictionaries, rows or dataclasses) become vectors of fixed width.

:class:`Encoder` accepts any keys, :class:`Columns` only declared ones. Both hold settings only; the learned state
``state`` is a value: ``encode(state, raw)`` returns a vector, ``observe(state, raw)`` a new ``state``.
:class:`RawEncoder` holds settings and state together.
"""

from lim2.encoding.columns import Category, Columns, Embedding, Number, Tags, Time
from lim2.encoding.encoder import Encoder
from lim2.encoding.raw_encoder import RawEncoder
from lim2.encoding.states import Column, ColumnInfo, Contribution, EncoderState

__all__ = [
    "Category", "Column", "ColumnInfo", "Columns", "Contribution", "Embedding", "Encoder", "EncoderState",
    "Number", "RawEncoder", "Tags", "Time",
]  # fmt: skip
