"""Forever, in bounded memory: 15,000 rounds in a process of their own."""

import json
import math
import subprocess
import sys
from typing import Any

import pytest

SCRIPT = """
import json, pickle, sys
import numpy as np
import lim2

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

name, settings = json.loads(sys.argv[1])
agent = lim2.AGENTS[name](3, 16, seed=0, **settings)
rng = np.random.default_rng(0)
sizes, latest = [], []
for t in range(15_000):
    context = rng.normal(size=16)
    arm = agent.act(context)
    agent.update(context, arm, float(np.sin(context[arm])))
    if t % 5_000 >= 4_950:  # between two refits a buffer may hold more than after them: the most counts
        latest.append((agent.nbytes, len(pickle.dumps(agent))))
    if t + 1 in (5_000, 15_000):
        sizes.append((*map(max, zip(*latest[-50:])), resident()))
print(json.dumps(sizes))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the process's memory from /proc")
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("LiM2", {"hidden": (6,), "buffer": 20, "batch": 8}),
        ("NeuralLinearNTK", {"hidden": (6,), "buffer": 20, "batch": 8}),
        ("AdaptiveTS", {"hidden": (6,), "buffer": 200, "change_threshold": math.inf}),
        ("LinearTS", {}),
        ("AdaptiveTS", {"hidden": (), "buffer": 200}),
    ],
)
def test_fifteen_thousand_rounds(name: str, settings: dict[str, Any]) -> None:
    call = [sys.executable, "-c", SCRIPT, json.dumps([name, settings])]
    early, late = json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
    assert late[0] == early[0]
    assert late[1] <= early[1] + 200  # counters may need another byte
    assert late[2] <= early[2] + 2_000_000  # what the allocator holds varies; 10,000 tuples with features are more
