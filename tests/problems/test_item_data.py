"""The real files with items: sizes, what a random choice earns, the same arrays everywhere.

They are looked for in `LIM2_ITEM_DATA`, then in `LIM2_DATA`; `python -m benchmarks.item_data DIR` puts them there.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lim2.problems
from lim2.problems import ItemProblem
from lim2.problems.check import check
from lim2.problems.files import find as find_file
from lim2.problems.registry import find

# name: what a random choice earns in 3,000 rounds of seed 0, and the first digits of the SHA-256 of all arrays
KNOWN = {
    "electricity": (0.25, "9ea56d4b2ffb"),
    "car": (1 / 6, "9976520b6fb9"),
    "mode-canada": (0.2866, "024fe044da69"),
    "swissmetro": (0.3598, "9820e43f3ddd"),
    "movielens": (0.5502, "33076fdd06a1"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Links to the real files, so that whatever is kept beside them is kept elsewhere."""
    named = os.environ.get("LIM2_ITEM_DATA") or os.environ.get("LIM2_DATA")
    if not named or find_file("u.data", named) is None or find_file("electricity.csv", named) is None:
        pytest.skip("neither LIM2_ITEM_DATA nor LIM2_DATA names a folder with the datasets with items")
    for path in Path(named).resolve().iterdir():
        if path.is_file():
            (tmp_path / path.name).symlink_to(path)
    return tmp_path


@pytest.mark.parametrize("name", KNOWN)
def test_the_real_files(name: str, folder: Path) -> None:
    facts = find(name).facts
    assert facts is not None
    for finding in check(find(name), folder):
        assert not finding.error
    random, expected = KNOWN[name]
    problem: Any = lim2.problems.load(name, 3000, 0, data=folder)
    assert isinstance(problem, ItemProblem)
    assert (problem.n_features, problem.n_item_features) == (facts.n_features, facts.n_item_features)
    assert problem.n_candidates.max() == facts.n_arms
    assert problem.uniform_reward == pytest.approx(random, abs=5e-5)
    arrays = (problem.contexts, problem.candidates, problem.rewards)
    digest = hashlib.sha256(b"".join(array.astype("<f8").tobytes() for array in arrays)).hexdigest()
    assert digest[:12] == expected
    everything: Any = lim2.problems.load(name, "all", 0, data=folder)
    assert everything.rounds == facts.most_rounds
    assert np.isfinite(everything.candidates).all()
    assert np.isfinite(everything.contexts).all()
