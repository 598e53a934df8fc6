"""The agents play what they played when the kept results were made: the same arms, means equal to 1e-8.

With LIM2_GOLDEN=1 all 1,000 rounds are played; else the first 200 where no arms come or go.
"""

import os
from typing import Any

import numpy as np
import pytest

from golden.plays import FILE, ROUNDS, Play, played, plays

TOLERANCE = 1e-8
WHOLE = bool(os.environ.get("LIM2_GOLDEN"))


@pytest.fixture(scope="module")
def kept() -> Any:
    with np.load(FILE) as file:
        return dict(file)


@pytest.mark.parametrize("play", list(plays()), ids=lambda play: play.name)
def test_the_agent_plays_as_it_did(play: Play, kept: Any) -> None:
    if play.real and not os.environ.get("LIM2_DATA"):
        pytest.skip("the dataset is absent: set LIM2_DATA")
    rounds = ROUNDS if WHOLE or play.changes_arms else ROUNDS // 5
    now = played(play, rounds)
    np.testing.assert_array_equal(now["arms"], kept[f"{play.name} / arms"][:rounds])
    for part in ("means", "variances"):
        before = kept[f"{play.name} / {part}"][: len(now[part])]
        assert len(before) == len(now[part])
        np.testing.assert_allclose(now[part], before, rtol=TOLERANCE, atol=TOLERANCE, err_msg=part)


def test_nothing_is_kept_that_is_not_played(kept: Any) -> None:
    assert {name.rsplit(" / ", 1)[0] for name in kept} == {play.name for play in plays()}
