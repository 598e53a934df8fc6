"""Raw contexts, as dictionaries, rows or dataclasses, turned into vectors of one width.

:class:`Encoder` takes whatever keys come; :class:`Columns` takes those that are declared. Both are settings, and what
is learned is a value: ``encode(known, raw)`` is a vector, ``observe(known, raw)`` a new ``known``. :class:`RawEncoder`
holds both together.
"""

from lim2.encoding.columns import Category, Columns, Embedding, Number, Tags, Time
from lim2.encoding.encoder import Encoder
from lim2.encoding.known import Column, ColumnInfo, Contribution, Known
from lim2.encoding.parts import from_parts, to_parts
from lim2.encoding.raw_encoder import RawEncoder

__all__ = [
    "Category", "Column", "ColumnInfo", "Columns", "Contribution", "Embedding", "Encoder", "Known", "Number",
    "RawEncoder", "Tags", "Time", "from_parts", "to_parts",
]  # fmt: skip
