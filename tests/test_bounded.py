"""For ever, in bounded memory: 50,000 rounds."""

import pickle
import resource
from typing import Any

import numpy as np
import pytest

import lim2


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("LiM2", {"hidden": (6,), "buffer": 20, "batch": 8}),
        ("NeuralLinear-NTK", {"hidden": (6,), "buffer": 20, "batch": 8}),
        ("LinearTS", {}),
    ],
)
def test_fifty_thousand_rounds(name: str, settings: dict[str, Any]) -> None:
    agent = lim2.AGENTS[name](3, 4, seed=0, **settings)
    rng = np.random.default_rng(0)
    size, state, peak = 0, 0, 0
    for t in range(50_000):
        context = rng.normal(size=4)
        arm = agent.act(context)
        agent.update(context, arm, float(np.sin(context[arm])))
        if t == 5_000:
            size, state = agent.nbytes, len(pickle.dumps(agent))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert agent.nbytes == size
    assert len(pickle.dumps(agent)) <= state + 200  # counters may need another byte
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss <= peak + 4096  # KiB; a growing state would be seen
