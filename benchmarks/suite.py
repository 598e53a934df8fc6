"""The ten datasets of `suite/` as problems, to choose settings on: reward 1 for the right class, up to 4,000 rounds.

`lim2 bench --problems benchmarks.suite:letter` plays one of them. The files are in the folder `suite` of `LIM2_DATA`.
"""

import csv
import functools
import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np

from lim2.problems import Problem

NAMES = ("letter", "penbased", "ring", "phoneme", "banana", "chess", "splice", "contraceptive", "vowel", "vehicle")
ROUNDS = 4000


def columns_of(rows: list[list[str]]) -> np.ndarray[Any, Any]:
    """Return numbers as they are and words as one-hot columns, without the class, which is last."""
    columns: list[np.ndarray[Any, Any]] = []
    for values in list(zip(*rows, strict=True))[:-1]:
        try:
            columns.append(np.array(values, dtype=float)[:, None])
        except ValueError:
            words, codes = np.unique(values, return_inverse=True)
            columns.append(np.eye(len(words))[codes])
    return np.hstack(columns)


@functools.cache
def _table(name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    file = Path(os.environ.get("LIM2_DATA", ".")) / "suite" / f"{name}.dat.gz"
    if not file.exists():
        raise FileNotFoundError(f"there is no {file.name} in the folder suite of LIM2_DATA")
    with gzip.open(file, "rt") as lines:
        rows = [[value.strip() for value in row] for row in csv.reader(lines) if row]
    _, labels = np.unique([row[-1] for row in rows], return_inverse=True)
    return columns_of(rows), labels


def problem(name: str, rounds: int | None = None, seed: int = 0) -> Problem:
    """Shuffle a dataset, standardise its columns over what is played, and play at most `rounds` rows."""
    values, labels = _table(name)
    order = np.random.default_rng(seed).permutation(len(labels))[: ROUNDS if rounds is None else rounds]
    contexts = values[order]
    spread = contexts.std(axis=0)
    contexts = (contexts - contexts.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    return Problem(name, contexts, np.eye(int(labels.max()) + 1)[labels[order]], seed=seed)


letter, penbased, ring, phoneme, banana, chess, splice, contraceptive, vowel, vehicle = (
    functools.partial(problem, name) for name in NAMES
)
