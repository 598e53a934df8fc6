"""Sufficient statistics: sums over the data of every arm, from which posteriors can be recomputed."""

from typing import Annotated, NamedTuple

import numpy as np

from lim2.state import Array


class Sums(NamedTuple):
    """Sums over the weighted data of every arm: Z'WZ, Z'Wr, r'Wr, and the weights."""

    gram: Annotated[Array, "arm g g", "psd"]
    cross: Annotated[Array, "arm g"]
    squares: Annotated[Array, "arm", "nonnegative"]
    weight: Annotated[Array, "arm", "nonnegative"]


def no_sums(n_arms: int, width: int) -> Sums:
    """Return the sums over no data."""
    return Sums(np.zeros((n_arms, width, width)), np.zeros((n_arms, width)), np.zeros(n_arms), np.zeros(n_arms))
