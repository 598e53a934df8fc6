"""Arguments for every kernel, and calls that compare or only run: `python cases.py MODULE ROUNDS` runs a fuzz."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 5e-324)

Arguments = list[Any]


def descend(rng: np.random.Generator) -> Arguments:
    n_arms, n_features, hidden, count = rng.integers(1, 5), rng.integers(0, 11), rng.integers(0, 19), rng.integers(0, 9)
    layers = (rng.normal(size=shape) * 0.5 for shape in ((n_arms, n_features, hidden), hidden, hidden, 1))
    contexts, arms = rng.normal(size=(count, n_features)), rng.integers(n_arms, size=count)
    steps, keep = int(rng.integers(0, 40)), float(rng.choice([1.0, 0.99, 0.3]))
    return [*layers, contexts, arms, rng.normal(size=count), steps, 0.02, keep, float(rng.choice([0.0, 0.5]))]


CASES: dict[str, Callable[[np.random.Generator], Arguments]] = {"descend": descend}


def spoiled(arguments: Arguments, rng: np.random.Generator) -> Arguments:
    """Return arguments with special numbers in some arrays, and sometimes one of another shape, order or kind."""
    out = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    arrays = [i for i, argument in enumerate(out) if isinstance(argument, np.ndarray)]
    for i in arrays:
        if out[i].dtype == np.float64 and out[i].size and rng.random() < 0.4:
            out[i].flat[rng.integers(out[i].size)] = rng.choice(SPECIAL)
    if rng.random() < 0.5:
        i = int(rng.choice(arrays))
        changes: list[Callable[[Any], Any]] = [
            lambda a: a[..., :-1], lambda a: np.append(a, a[..., :1], axis=-1), lambda a: a[None], np.asfortranarray,
            lambda a: a.astype(np.float32), lambda a: np.repeat(a, 2, axis=-1)[..., ::2], lambda a: a.ravel()[:0],
            lambda a: a.tolist(), lambda a: None, lambda a: a + 1, lambda a: -a,
        ]  # fmt: skip
        out[i] = changes[int(rng.integers(len(changes)))](out[i])
    return out


def load(path: Path) -> ModuleType:
    """Import a compiled module from a file."""
    spec = importlib.util.spec_from_file_location(path.name.partition(".")[0], path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Call every kernel with arguments that are right, special or wrong: each returns or refuses."""
    module, rng, ends = load(Path(sys.argv[1])), np.random.default_rng(0), {True: 0, False: 0}
    for _ in range(int(sys.argv[2])):
        for name, case in CASES.items():
            try:
                getattr(module, name)(*spoiled(case(rng), rng))
                ends[True] += 1
            except (ValueError, TypeError):
                ends[False] += 1
    print(min(ends.values()) > 0)


if __name__ == "__main__":
    main()
