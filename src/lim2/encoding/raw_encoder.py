"""An encoder together with its state, for use without a bandit."""

from collections.abc import Iterable

from lim2.encoding.columns import Columns
from lim2.encoding.encoder import Encoder
from lim2.encoding.reading import Raw
from lim2.encoding.states import ColumnInfo, Contribution, EncoderState
from lim2.state import Array


class RawEncoder:
    """Encoder together with its state.

    Parameters
    ----------
    settings
        An :class:`Encoder` or :class:`Columns`; None is ``Encoder()``.
    state
        State to start from; None: the initial state.

    Examples
    --------
    >>> encoder = RawEncoder(Encoder(numbers=4, buckets=8))
    >>> for age in (20, 40) * 4:
    ...     encoder.update({"age": age, "country": "AT"})
    >>> x = encoder.encode({"age": 40, "country": "DE"})
    >>> x.shape, x[:2].round(3).tolist()
    ((12,), [1.0, 0.0])
    >>> encoder.columns[0]
    ColumnInfo(name='age', kind='number', columns=range(0, 1), mean=30.0, std=10.0, count=8, ...)
    """

    def __init__(self, settings: Encoder | Columns | None = None, state: EncoderState | None = None) -> None:
        self.settings = Encoder() if settings is None else settings
        if state is not None:
            self.settings.check(state)
        self.state = self.settings.init() if state is None else state

    def __repr__(self) -> str:
        return f"RawEncoder({self.settings!r}, updates={self.state.updates})"

    @property
    def known(self) -> EncoderState:
        """The state, by its name in lim2 0.2."""
        return self.state

    @property
    def width(self) -> int:
        """Number of columns of a vector."""
        return self.settings.width

    @property
    def columns(self) -> tuple[ColumnInfo, ...]:
        """Summary of each key that has its own columns."""
        return self.settings.columns(self.state)

    def encode(self, context: Raw) -> Array:
        """Return the vector of a context without learning from it."""
        return self.settings.encode(self.state, context)

    def encode_many(self, contexts: Iterable[Raw]) -> Array:
        """Return the vectors of contexts, or of the rows of a data frame."""
        return self.settings.encode_many(self.state, contexts)

    def update(self, context: Raw) -> None:
        """Observe a context."""
        self.state = self.settings.observe(self.state, context)

    def explain(self, context: Raw) -> tuple[Contribution, ...]:
        """Return the contribution of each value of a context to each column."""
        return self.settings.explain(self.state, context)
