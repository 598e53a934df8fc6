"""Raw contexts, as dictionaries, rows or dataclasses, turned into vectors of one width."""

from lim2.encoding.encoder import Encoder
from lim2.encoding.known import Column, ColumnInfo, Contribution, Known

__all__ = ["Column", "ColumnInfo", "Contribution", "Encoder", "Known"]
