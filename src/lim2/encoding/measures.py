"""Running statistics of one number of a context, and the fixed map by which it is scaled.

The encoding of a value must not depend on when its reward is learned: otherwise clicks, which come early, and zeros,
which come late, would be encoded differently. So the map is fixed after the first values, and a number is used only
while it goes up and down. The latest values of one that only grows, such as a counter, have early rewards only.
"""

from typing import NamedTuple

from lim2.moments import NumberMoments, NumberScaling, number_scaling, observe_number

SAMPLE_VALUES = 64  # values after which the map is fixed
FIRST_CHECK = 32  # the first check of a number comes after so many values, each later one when their number has doubled
MIN_TURNS = 2  # falls and rises from which on a number is used; with none since the last check it is used no longer


class Measure(NamedTuple):
    """Statistics of one number, and its map; counts begin with the first value that differs from those before it.

    A low is a value below the mean after one above it. Of a number that only grows each low is above the one before,
    even if the values come in two rows, one later than the other, as clicks and zeros do. So it rises, but never falls.
    """

    moments: NumberMoments = NumberMoments()
    scale: NumberScaling = NumberScaling(0.0, 0.0, 0.0)
    varied: int = 0  # values since the first that differed
    above: bool = False  # whether the last value was above the mean
    low: float = 0.0  # the last low, at first the first value
    high: float = 0.0
    falls: int = 0  # lows since the last check that were not above the low before
    rises: int = 0  # highs since the last check that were not below the high before
    steady: bool = False  # whether it goes up and down, or is trusted

    @property
    def used(self) -> bool:
        """Whether values are encoded: they vary, and go up and down."""
        return self.steady and self.scale.factor > 0.0

    @property
    def map(self) -> NumberScaling:
        """The map, which is 0 everywhere unless the number is used."""
        return self.scale if self.steady else self.scale._replace(factor=0.0)


def observe(old: Measure, x: float, trusted: bool = False) -> Measure:
    """Return the statistics with one more value.

    Examples
    --------
    >>> counter, age = Measure(), Measure()
    >>> for t in range(100):
    ...     counter, age = observe(counter, 1000.0 + t), observe(age, 20.0 + 37 * t % 50)
    >>> counter.used, age.used, round(age.moments.mean, 1)
    (False, True, 44.5)
    """
    moments = observe_number(old.moments, x)
    fresh = number_scaling(moments)
    varied = old.varied + (old.varied > 0 or fresh.factor > 0.0)
    above = x > fresh.center
    low, high, falls, rises = old.low, old.high, old.falls, old.rises
    if not old.moments.weight:
        low = high = x
    elif varied > 1 and above != old.above:
        if above:
            high, rises = x, rises + (x >= high)
        else:
            low, falls = x, falls + (x <= low)
    steady = old.steady or min(falls, rises) >= MIN_TURNS
    check = varied >= FIRST_CHECK and varied & (varied - 1) == 0
    if check:
        falls, rises, steady = 0, 0, steady and min(falls, rises) > 0
    steady = steady or trusted
    renew = varied <= SAMPLE_VALUES or not old.steady or (check and _moved(old.scale, moments))
    return Measure(moments, fresh if renew else old.scale, varied, above, low, high, falls, rises, steady)


def _moved(old: NumberScaling, moments: NumberMoments) -> bool:
    """Return whether values have come to lie elsewhere: by a standard deviation, or twice or half as far apart."""
    return abs(moments.mean - old.center) * old.factor > 1.0 or not 0.5 <= moments.std * old.factor <= 2.0
