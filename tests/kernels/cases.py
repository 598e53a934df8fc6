"""Arguments for every kernel, and calls that compare or only run: `python cases.py MODULE ROUNDS` runs a fuzz."""

import copy
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


def posterior(rng: np.random.Generator) -> tuple[Arguments, int, int]:
    n_arms, n = int(rng.integers(1, 6)), int(rng.integers(1, 23))
    root = rng.normal(size=(n_arms, n, n)) / np.sqrt(n)
    return [rng.normal(size=(n_arms, n)), root], n_arms, n


def score(rng: np.random.Generator) -> Arguments:
    beliefs, n_arms, n = posterior(rng)
    return [*beliefs, 1.0 + rng.random(n_arms), 1.0 + rng.random(n_arms), rng.normal(size=n)]


def predicted(rng: np.random.Generator) -> Arguments:
    beliefs, n_arms, n = posterior(rng)
    return [*beliefs, int(rng.integers(n_arms)), rng.normal(size=n), float(rng.normal())]


def sample(rng: np.random.Generator) -> Arguments:
    n_arms, rows, batches = int(rng.integers(1, 6)), int(rng.integers(1, 30)), int(rng.integers(1, 4))
    order = rng.permutation(rows)
    held = int(rng.integers(1, rows + 1))
    uniforms = rng.random(batches * int(rng.integers(1, 20)))
    return [uniforms, batches, held, order if rng.random() < 0.5 else None, rng.integers(n_arms, size=rows), n_arms]


def draw(rng: np.random.Generator) -> Arguments:
    n_arms = int(rng.integers(1, 20))
    freedom = np.full(n_arms, np.inf) if rng.random() < 0.2 else rng.integers(1, 5, n_arms) + rng.random()
    source = np.random.default_rng(int(rng.integers(100)))
    return [source, rng.normal(size=n_arms), rng.random(n_arms), freedom, float(rng.random()), 0.3]


def features(rng: np.random.Generator) -> Arguments:
    rows, inputs, units = (int(n) for n in rng.integers((0, 0, 0), (12, 12, 21)))
    parameters = rng.normal(size=inputs * units + units + int(rng.integers(5)))
    return [parameters, units, rng.normal(size=inputs), rng.random(inputs), 1.5, rng.normal(size=(rows, inputs))]


def train(rng: np.random.Generator) -> Arguments:
    rows, inputs, units, n_arms = (int(n) for n in rng.integers((1, 1, 1, 1), (20, 12, 21, 5)))
    count = inputs * units + units + n_arms * (units + 1)
    arms = np.sort(rng.integers(n_arms, size=rows))
    return [
        rng.normal(size=count), rng.random((1, count)), units, n_arms, rng.normal(size=(rows, inputs)), arms,
        rng.normal(size=rows), 0.1, float(rng.choice([0.5, np.inf])), 0.9, 1e-10,
    ]  # fmt: skip


CASES: dict[str, Callable[[np.random.Generator], Arguments]] = {
    "descend": descend, "draw": draw, "features": features, "predicted": predicted, "sample": sample, "score": score,
    "train": train,
}  # fmt: skip


def call(module: ModuleType, name: str, arguments: Arguments) -> Any:
    """Call a compiled kernel; a generator of random numbers is copied, and given by its capsule."""
    if arguments and isinstance(arguments[0], np.random.Generator):
        source = copy.deepcopy(arguments[0]).bit_generator
        return getattr(module, name)(source.capsule, *arguments[1:])
    return getattr(module, name)(*arguments)


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
        with np.errstate(all="ignore"):
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
                call(module, name, spoiled(case(rng), rng))
                ends[True] += 1
            except (ValueError, TypeError):
                ends[False] += 1
    print(min(ends.values()) > 0)


if __name__ == "__main__":
    main()
