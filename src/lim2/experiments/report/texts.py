"""Numbers as a reader wants them."""

from __future__ import annotations

import math

from lim2.experiments.stats import LEVEL


def decimals(value: float) -> int:
    """Return how many decimals suit a number of that size: four significant digits, at most three decimals.

    Examples
    --------
    >>> decimals(4820.0), decimals(12.3), decimals(0.5)
    (0, 2, 3)
    """
    if value == 0 or not math.isfinite(value):
        return 0
    return min(3, max(0, 3 - math.floor(math.log10(abs(value)))))


def number(value: float | None, places: int | None = None) -> str:
    """Return a number; a dash for what there is not.

    Examples
    --------
    >>> number(4820.4), number(-0.25), number(None), number(0.5, 2)
    ('4,820', '−0.250', '–', '0.50')
    """
    if value is None:
        return "–"
    text = f"{value:,.{decimals(value) if places is None else places}f}"
    return text.replace("-", "−") if float(text.replace(",", "")) else text.removeprefix("-")


def plus_minus(mean: float, std: float | None, places: int | None = None) -> str:
    """Return mean and standard deviation.

    Examples
    --------
    >>> plus_minus(4820.3, 67.9), plus_minus(0.5, None)
    ('4,820 ± 68', '0.500')
    """
    places = decimals(mean) if places is None else places
    return number(mean, places) if std is None else f"{number(mean, places)} ± {number(std, places)}"


def percent(value: float) -> str:
    """Return a share.

    Examples
    --------
    >>> percent(0.9234)
    '92.3%'
    """
    return f"{100 * value:.1f}%"


def microseconds(value: float) -> str:
    """Return a time that was given in microseconds.

    Examples
    --------
    >>> microseconds(8.23), microseconds(412.0), microseconds(15300.0)
    ('8.2 µs', '412 µs', '15.3 ms')
    """
    if value >= 1e4:
        return f"{value / 1e3:,.1f} ms"
    return f"{value:,.1f} µs" if value < 10 else f"{value:,.0f} µs"


def megabytes(value: float | None) -> str:
    """Return a size that was given in MB.

    Examples
    --------
    >>> megabytes(0.0005), megabytes(0.131), megabytes(12.34), megabytes(0.0)
    ('0.5 kB', '131 kB', '12.3 MB', '0 kB')
    """
    if value is None:
        return "–"
    if value == 0:
        return "0 kB"
    if value < 1:
        return f"{value * 1e3:.1f} kB" if value < 0.01 else f"{value * 1e3:.0f} kB"
    return f"{value:,.1f} MB"


def p_value(p: float | None) -> str:
    """Return a p-value.

    Examples
    --------
    >>> p_value(0.00001), p_value(0.0314), p_value(0.5), p_value(None)
    ('< 0.001', '0.031', '0.50', '')
    """
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < LEVEL * 2 else f"{p:.2f}"


def listed(words: list[str]) -> str:
    """Return words as a sentence lists them.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
