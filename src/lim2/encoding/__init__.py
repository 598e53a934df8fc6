"""Encoders: raw contexts (dictionaries, rows or dataclasses) become vectors of fixed width.

:class:`Encoder` accepts any keys, :class:`Columns` only declared ones. Both hold settings only; the learned state
``known`` is a value: ``encode(known, raw)`` returns a vector, ``observe(known, raw)`` a new ``known``.
:class:`RawEncoder` holds settings and state together.
"""

from lim2.encoding.columns import Category, Columns, Embedding, Number, Tags, Time
from lim2.encoding.encoder import Encoder
from lim2.encoding.known import Column, ColumnInfo, Contribution, Known
from lim2.encoding.raw_encoder import RawEncoder

__all__ = [
    "Category", "Column", "ColumnInfo", "Columns", "Contribution", "Embedding", "Encoder", "Known", "Number",
    "RawEncoder", "Tags", "Time",
]  # fmt: skip
