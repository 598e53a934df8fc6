"""`python -m benchmarks.old_and_new [REVISION]`: this tree against an earlier one, block by block in turn.

The earlier tree is a git worktree in a temporary folder. Each tree plays in a process of its own; blocks alternate, and
what is compared is CPU time, as medians of the ratios of neighbouring blocks. With one number per row: old / new, so
above 1 is faster now.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

BASE = "094865a"  # before the core was rebuilt as values
ROOT = Path(__file__).parent.parent
BLOCKS = 15

# What is timed: a name, the agent, its settings, arms and features, what is called, and how often in a block.
CASES: list[tuple[str, str, dict[str, Any], tuple[int, int], str, int]] = [
    ("LiM2, Statlog's shape: act + update", "LiM2", {}, (7, 9), "round", 100),
    ("LiM2, Covertype's shape: act + update", "LiM2", {}, (7, 54), "round", 100),
    ("LinearTS, Statlog's shape: act + update", "LinearTS", {}, (7, 9), "round", 1000),
    ("LinearTS, Covertype's shape: act + update", "LinearTS", {}, (7, 54), "round", 1000),
    ("NeuralLinearMM, Statlog's shape: act + update", "NeuralLinearMM", {}, (7, 9), "round", 100),
    ("LiM2: snapshot", "LiM2", {}, (7, 9), "snapshot", 1000),
    ("LiM2: act_many of one row", "LiM2", {}, (7, 9), "act_many", 500),
    ("LiM2: act", "LiM2", {}, (7, 9), "act", 500),
    ("LiM2: decide", "LiM2", {}, (7, 9), "decide", 200),
    ("LinearTS, 10 arms: propensities", "LinearTS", {}, (10, 9), "propensities", 200),
    ("LinearTS, 10 arms: propensities of 200 rows", "LinearTS", {}, (10, 9), "rows", 1),
    ("LiM2, 1,000 arms: train step of the network", "LiM2", {}, (1000, 9), "train", 2),
]

WORKER = r"""
import json, sys, time
import numpy as np
import lim2

def world(n_arms, n_features, rows=4000):
    rng = np.random.default_rng(0)
    shares = 0.5 ** np.arange(1, n_arms + 1) + 0.02
    labels = rng.choice(n_arms, size=rows, p=shares / shares.sum())
    centres = rng.normal(size=(n_arms, n_features))
    return centres[labels] + 0.7 * rng.normal(size=(rows, n_features)), labels

def trainer(n_arms, n_features):
    from lim2.representation import MLP
    rng, n = np.random.default_rng(1), 16 * n_arms
    contexts, rewards = rng.normal(size=(n, n_features)), rng.normal(size=n)
    arms = np.sort(rng.integers(n_arms, size=n))
    net = MLP()
    if hasattr(net, "bind"):
        net.bind(n_features, n_arms, rng)
        return lambda: net.train_step(contexts, arms, rewards)
    f = net.init((n_features,), n_arms, rng)
    return lambda: net.train(f, contexts, arms, rewards)

def made(agent, settings, shape, what):
    if what == "train":
        return trainer(*shape)
    contexts, labels = world(*shape)
    player = getattr(lim2, agent)(*shape, seed=0, **settings)
    t = 0
    def play():
        nonlocal t
        context = contexts[t % len(contexts)]
        arm = player.act(context)
        player.update(context, arm, float(arm == labels[t % len(contexts)]))
        t += 1
    for _ in range(1200):
        play()
    calls = {
        "round": play,
        "snapshot": player.snapshot,
        "act": lambda: player.act(contexts[0]),
        "act_many": lambda: player.act_many(contexts[:1]),
        "decide": lambda: player.decide(contexts[0]),
        "propensities": lambda: player.propensities(contexts[0]),
        "rows": lambda: player.propensities(contexts[:200]),
    }
    return calls[what]

call = None
for line in sys.stdin:
    order = json.loads(line)
    if "case" in order:
        call = made(*order["case"])
        print(json.dumps("ready"), flush=True)
    else:
        start = time.process_time()
        for _ in range(order["times"]):
            call()
        print(json.dumps((time.process_time() - start) / order["times"]), flush=True)
"""


class Tree:
    """A process that plays with the package of one tree."""

    def __init__(self, source: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, **order: Any) -> Any:
        """Send an order, and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def compared(old: Tree, new: Tree, case: tuple[str, str, dict[str, Any], tuple[int, int], str, int]) -> dict[str, Any]:
    """Time one case in both trees, block by block in turn."""
    label, agent, settings, shape, what, times = case
    for tree in (old, new):
        tree.ask(case=(agent, settings, shape, what))
    blocks = np.array([[tree.ask(times=times) for tree in (old, new)] for _ in range(BLOCKS)])
    before, after = 1e6 * np.median(blocks, axis=0)
    ratio = float(np.median(blocks[:, 0] / blocks[:, 1]))
    return {"what": label, "old us": round(before, 2), "new us": round(after, 2), "old / new": round(ratio, 2)}


def rows(revision: str = BASE, cases: list[Any] | None = None) -> list[dict[str, Any]]:
    """Return one row per case: microseconds before and after, and their ratio."""
    out = []
    with tempfile.TemporaryDirectory() as folder:
        worktree = Path(folder) / "old"
        subprocess.run(
            ["git", "worktree", "add", "--detach", worktree, revision], cwd=ROOT, check=True, capture_output=True
        )
        old, new = Tree(worktree / "src"), Tree(ROOT / "src")
        try:
            for case in CASES if cases is None else cases:
                out.append(compared(old, new, case))
                print("  ".join(f"{key}: {value}" for key, value in out[-1].items()), flush=True)
        finally:
            for tree in (old, new):
                tree.stop()
            subprocess.run(["git", "worktree", "remove", "--force", str(worktree)], cwd=ROOT, check=True)
    return out


if __name__ == "__main__":
    rows(sys.argv[1] if len(sys.argv) > 1 else BASE)
