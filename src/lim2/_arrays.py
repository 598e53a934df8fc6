"""State that survives copying: what unpickling may do to arrays that BLAS writes in place."""

from typing import Any

import numpy as np


def _owned(value: Any) -> Any:
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        return value.copy()
    if isinstance(value, dict):
        return {name: _owned(part) for name, part in value.items()}
    return value


class OwnsArrays:
    """An object whose arrays are its own after unpickling.

    Unpickled arrays can be read-only views of memory that belongs to others: of a file that joblib has mapped, or of
    buffers that were handed over out of band. BLAS writes through such views, and crashes or corrupts; so they are
    copied on arrival.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({name: _owned(value) for name, value in state.items()})
