"""Distribution of the arms' scores, the only input of exploration."""

from typing import Any, NamedTuple

import numpy as np

from lim2.state import Array


class StudentT(NamedTuple):
    """Independent Student-t distributions of the arms' scores.

    Thompson sampling, upper confidence bounds, propensities, means and variances are computed from it.

    Parameters
    ----------
    mean
        Location, (n_arms,) for one context, (n, n_arms) for n rows of contexts.
    freedom
        Degrees of freedom of each arm, (n_arms,); infinity for normal scores.

    Examples
    --------
    >>> StudentT(np.zeros(2), np.ones(2), np.array([4.0, np.inf])).variance.tolist()
    [2.0, 1.0]
    """

    mean: Array
    scale: Array
    freedom: Array

    @property
    def variance(self) -> Array:
        """Variance of every score; infinite with at most two degrees of freedom, unless the scale is 0."""
        if self.freedom.min() > 2.0:  # nearly always
            return self.scale * self.scale * (1.0 / (1.0 - 2.0 / self.freedom))
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(self.freedom > 2.0, 1.0 / (1.0 - 2.0 / self.freedom), np.inf)
            return np.where(self.scale > 0.0, self.scale * self.scale * factor, 0.0 * self.scale)

    def of(self, arms: Any) -> "StudentT":
        """Return the scores of some arms."""
        return StudentT(self.mean[..., arms], self.scale[..., arms], self.freedom[arms])
