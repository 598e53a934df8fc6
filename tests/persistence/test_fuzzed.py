"""Files that somebody altered and gave a right checksum: they are refused, or what loads works.

With LIM2_FUZZ=1 there are 31,708 alterations, which takes a quarter of an hour; else a twentieth of them.
"""

import os
import warnings
import zlib

import numpy as np
import pytest
from persistence.alterations import altered, parts_of
from persistence.saved_agents import SAMPLES, TEXTS, contexts_of, make

import lim2

ALL = (*SAMPLES, *TEXTS)
WHOLE = bool(os.environ.get("LIM2_FUZZ"))
CASES = 31_708 if WHOLE else 31_708 // 40
ROUNDS = 50


def cases_of(name: str) -> range:
    """Return the numbers of a sample's cases; all samples together have as many as there are."""
    first = ALL.index(name) * CASES // len(ALL)
    return range((ALL.index(name) + 1) * CASES // len(ALL) - first)


def plays(agent: lim2.Agent) -> None:
    """Let an agent play some rounds: what it believes stays finite, and nothing raises but training that diverges.

    NeuralUCB and NeuralTS have no clipping: their training may diverge, and an update then says so and changes nothing.
    """
    rewards = np.random.default_rng(1).random(ROUNDS)
    for context, reward in zip(contexts_of(agent, ROUNDS, 0), rewards, strict=True):
        try:
            agent.update(context, agent.act(context), float(reward))
        except FloatingPointError as error:
            assert agent.name in ("NeuralUCB", "NeuralTS") and "nothing was changed" in str(error), error
    assert agent.name == "Uniform" or np.isfinite(agent.means(context)).all()


@pytest.mark.parametrize("name", ALL)
def test_altered_files_are_refused_or_play(name: str) -> None:
    parts, failed = parts_of(make(name).to_bytes()), []
    played = 0
    for case in cases_of(name):
        how, content = altered(parts, np.random.default_rng([case, zlib.crc32(name.encode())]))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # of overflow, in numbers that nobody meant
            try:
                plays(lim2.from_bytes(content))
                played += 1
            except lim2.LoadError:
                continue
            except Exception as error:  # noqa: BLE001  # all of them are shown
                failed.append(f"{case}: {how}: {error!r}")
    assert not failed, "\n".join(failed)
    assert 0 < played < len(cases_of(name))
