"""The agents play what they played when the kept results were made: the same arms, and the same means and variances.

The plays were recorded with the BLAS kernels of Haswell. Other processors use other kernels, which round differently,
and training amplifies that: two steps per round turn 1e-14 into 3e-7 within 200 rounds. So means and variances are
equal to 1e-8 in the first 100 rounds, and to 1e-6 after that.

With LIM2_GOLDEN=1 all 1,000 rounds are played; else the first 200 where no arms come or go. After so many rounds only
the same kernels give the same arms: set OPENBLAS_CORETYPE=Haswell as well.
"""

import os
from typing import Any

import numpy as np
import pytest

from golden.plays import EVERY, FILE, ROUNDS, Play, played, plays

EARLY = 100 // EVERY  # rows of means and variances from the first 100 rounds
TOLERANCES = ((slice(None, EARLY), 1e-8), (slice(EARLY, None), 1e-6))
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
        for rows, within in TOLERANCES:
            np.testing.assert_allclose(now[part][rows], before[rows], rtol=within, atol=within, err_msg=part)


def test_nothing_is_kept_that_is_not_played(kept: Any) -> None:
    assert {name.rsplit(" / ", 1)[0] for name in kept} == {play.name for play in plays()}
