"""What the paper reports: table 1 (normalised) and the raw table of supplement B, mean and standard deviation."""

from __future__ import annotations

from dataclasses import dataclass

# In the order of the paper's columns.
METHODS = (
    "LinearTS", "NeuralLinear", "LiM2", "NeuralLinearMM", "NeuralLinearNaive", "NeuralUCB", "NeuralTS",
    "NeuralLinearNTK",
)  # fmt: skip
RUNS = 10  # behind every published number


@dataclass(frozen=True, eq=False)
class Dataset:
    """A row of the paper's tables."""

    title: str
    problem: str
    features: str
    arms: int
    raw: dict[str, tuple[float, float]]  # mean and standard deviation of the cumulative reward, by method
    normalized: dict[str, float]  # score by method


def _row(
    title: str,
    problem: str,
    features: str,
    arms: int,
    raw: tuple[tuple[float, float] | None, ...],
    *scores: float | None,
) -> Dataset:
    return Dataset(
        title,
        problem,
        features,
        arms,
        {method: pair for method, pair in zip(METHODS, raw, strict=True) if pair is not None},
        {method: score for method, score in zip(METHODS, scores, strict=True) if score is not None},
    )


# fmt: off
DATASETS = (
    _row("Mushroom", "mushroom", "117", 2,
         ((11162, 1167), (10810, 428), (9880, 1776), (4602, 1408), (4843, 1228), (-32, 3), (-34, 18), (9785, 1012)),
         1.000, 0.985, 0.945, 0.719, 0.730, 0.521, 0.521, 0.941),
    _row("Financial", "financial", "21", 8,
         ((3752, 8), (3560, 12), (3762, 18), (2802, 21), (2726, 23), (1116, 824), (876, 595), (3610, 18)),
         0.997, 0.946, 1.000, 0.743, 0.723, 0.292, 0.228, 0.959),
    _row("Jester", "jester", "32", 8,
         ((15944, 170), (14731, 304), (14926, 571), (11940, 1307), (11647, 1066), (13397, 7), (13397, 8), (14642, 200)),
         1.000, 0.784, 0.819, 0.287, 0.234, 0.546, 0.546, 0.768),
    _row("Adult", "adult", "88", 2,
         ((4008, 14), (4003, 12), (4043, 15), (3483, 33), (3477, 16.5), (3768, 2), (3769, 2), (3990, 17)),
         0.977, 0.974, 1.000, 0.638, 0.634, 0.822, 0.823, 0.966),
    _row("Covertype", "covertype", "54", 7,
         ((2961, 25), (2742, 40), (2719, 62), (2241, 30), (2272, 37), (1870, 11), (1877, 83), (2708, 31)),
         1.000, 0.902, 0.892, 0.679, 0.693, 0.514, 0.517, 0.887),
    _row("Census", "census", "377", 9,
         ((1801, 15), (2510, 21), (2827, 22), (2099, 39), (2114, 34), (2019, 94), (1926, 76), (2517, 42)),
         0.548, 0.860, 1.000, 0.679, 0.686, 0.644, 0.603, 0.863),
    _row("Statlog", "statlog", "9", 7,
         ((4460, 19), (4729, 6), (4820, 68), (4545, 34), (4476, 19), (4075, 3), (4348, 265), (4722, 12)),
         0.912, 0.978, 1.000, 0.933, 0.916, 0.818, 0.885, 0.976),
    _row("Epileptic", "epileptic", "178", 5,
         ((1204, 29), (1734, 46), (1501, 115), (1411, 30), (1368, 26), (1010, 2), (1011, 2), (1431, 47)),
         0.282, 1.000, 0.684, 0.562, 0.504, 0.019, 0.020, 0.589),
    _row("Smartphones", "smartphones", "561", 6,
         ((3092, 18), (4208, 23), (4313, 46), (2647, 17), (2626, 16), (2214, 1548), (3166, 1113), (4191, 32)),
         0.649, 0.970, 1.000, 0.521, 0.515, 0.396, 0.670, 0.965),
    _row("Scania Trucks", "scania", "170", 2,
         ((4710, 171), (4837, 132), (4856, 111), (4574, 220), (4650, 103), (4919, 19), (4922, 23), (4730, 179)),
         0.181, 0.672, 0.745, -0.344, -0.050, 0.988, 1.000, 0.259),
    _row("Amazon", "amazon", "7K", 5,
         (None, (3024, 25), (3052, 160), (2793, 41), (2804, 41), None, None, (3014, 37)),
         None, 0.986, 1.000, 0.873, 0.879, None, None, 0.981),
)
# fmt: on
AVERAGE = dict(zip(METHODS, (0.755, 0.914, 0.917, 0.572, 0.588, 0.556, 0.581, 0.832), strict=True))
MEDIAN = dict(zip(METHODS, (0.945, 0.970, 1.000, 0.679, 0.686, 0.534, 0.575, 0.941), strict=True))


def dataset(problem: str) -> Dataset:
    """Return the row of a problem; a variant such as smartphones-66 stands in the row of the whole.

    Examples
    --------
    >>> dataset("statlog").raw["LiM2"], dataset("smartphones-66").title
    ((4820, 68), 'Smartphones')
    """
    return next(row for row in DATASETS if row.problem == problem or problem.startswith(f"{row.problem}-"))
