"""`python -m benchmarks.kernels`: each compiled kernel against what NumPy takes, and whether decisions differ.

Both compute the same from the same arguments, of AdaptiveTS in Statlog's shape and of NeuralUCB, in calls that
alternate. Then agents play the same rounds in processes of their own, one with each kind of kernels.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from lim2 import _kernels
from lim2._kernels import reference
from lim2.moments import Scaling
from lim2.representation import MLP, RMSProp, blocks
from lim2.representation import view as views
from lim2.representation.mlp import Network

CALLS = 300
ROUNDS = 10_000
ARMS, FEATURES, HIDDEN, BATCH = 7, 9, 64, 128

PLAY = f"""
import numpy as np, lim2, sys
from benchmarks.round_time import world
for shape in (({ARMS}, {FEATURES}), (7, 54)):
    contexts, labels = world(*shape, {ROUNDS})
    agent = lim2.AdaptiveTS(*shape, seed=0)
    for context, label in zip(contexts, labels.tolist()):
        arm = agent.act(context)
        agent.update(context, arm, float(arm == label))
        print(arm)
"""


def calls(module: Any) -> dict[str, Callable[[], Any]]:
    """Return calls of every kernel of a module; those that NumPy has only as parts of general code, by that code."""
    rng = np.random.default_rng(0)
    g = HIDDEN + FEATURES + 1
    net, contexts = MLP(HIDDEN, RMSProp(0.02)), rng.normal(size=(BATCH, FEATURES))
    f: Network = net.init((FEATURES,), ARMS, rng)
    beliefs = rng.normal(size=(ARMS, g)), rng.normal(size=(ARMS, g, g)) / g, np.full(ARMS, 50.0), np.full(ARMS, 9.0)
    z, scale, freedom = rng.normal(size=g), np.full(ARMS, 0.1), np.full(ARMS, 100.0)
    arms, rewards, uniforms = np.sort(rng.integers(ARMS, size=BATCH)), rng.random(BATCH), rng.random(BATCH)
    by = Scaling(np.zeros(FEATURES), np.ones(FEATURES), np.ones(FEATURES), 50.0)
    view = views.View(f, by, None)
    many, held = rng.integers(ARMS, size=1000), rng.permutation(1000)
    block = blocks.init(ARMS, FEATURES, 100, rng)
    samples = rng.normal(size=(500, FEATURES)), rng.integers(ARMS, size=500), rng.random(500)
    source: Any = rng if module is reference else rng.bit_generator.capsule
    return {
        "features": lambda: views.features(net, view, contexts[:1], FEATURES),
        "score": lambda: module.score(*beliefs, z),
        "predicted": lambda: module.predicted(*beliefs[:2], 1, z, 1.0),
        "sample": lambda: module.sample(uniforms, 1, 1000, held, many, ARMS),
        "train": lambda: views.train(net, f, contexts, arms, rewards),
        "draw": lambda: module.draw(source, freedom, scale, freedom, 0.4, 0.1),
        "descend": lambda: module.descend(*block, *samples, 500, 0.01, 1.0, 0.0),
    }


def compared(name: str) -> dict[str, tuple[float, float]]:
    """Return the CPU time in microseconds of every kernel, compiled and in NumPy."""
    module = import_module(f"lim2._kernels.{name}")
    both = calls(module), calls(reference)
    out = {}
    for kernel in both[0]:
        taken: tuple[list[int], list[int]] = ([], [])
        for _ in range(CALLS):
            for place, work in enumerate(both):
                _kernels.features, _kernels.train = (module.features, module.train) if place == 0 else (None, None)
                start = time.process_time_ns()
                work[kernel]()
                taken[place].append(time.process_time_ns() - start)
        out[kernel] = float(np.median(taken[0])) / 1e3, float(np.median(taken[1])) / 1e3
    return out


def decisions(kernels: str) -> list[str]:
    """Return the decisions of AdaptiveTS with one kind of kernels."""
    environment = {**os.environ, "LIM2_KERNELS": kernels, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", PLAY], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.split()


def main() -> None:
    """Print times, ratios and the number of decisions that differ."""
    names = [
        name for name in ("avx2", "baseline") if name != "avx2" or import_module("lim2._kernels.baseline").has_avx2()
    ]
    for name in names:
        for kernel, (compiled, plain) in compared(name).items():
            print(f"{name:9} {kernel:10} {compiled:9.1f} us, NumPy {plain:9.1f} us, x {plain / compiled:.1f}")
    plays = {name: decisions(name) for name in ("numpy", *names)}
    for name in names:
        differ = sum(a != b for a, b in zip(plays[name], plays["numpy"], strict=True))
        print(f"{name:9} {differ} of {len(plays[name]):,} decisions differ")


if __name__ == "__main__":
    main()
