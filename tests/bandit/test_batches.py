"""Batches of raw contexts: encoder and agent learn a batch together, or neither does."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from bandit.shop import ARMS, CATALOGUE, FEATURES, FORMS, USERS, content, make, played
from helpers.faults import fails_at, fails_at_line
from helpers.learning import learn, replay

from lim2 import Bandit
from lim2.decision import History
from lim2.encoding import Encoder

every_form = pytest.mark.parametrize("form", FORMS)
SMALL = Encoder(numbers=8, buckets=6)


def batch_of(form: str, n: int = 8) -> dict[str, Any]:
    """Return what was chosen where, and what it earned."""
    names = list({"arms": ARMS, "items": CATALOGUE, "features": FEATURES}[form])
    arms = [names[t % len(names)] for t in range(n)]
    out = {"contexts": [USERS[t % len(USERS)] for t in range(n)], "arms": arms, "rewards": np.arange(n) / n}
    return {**out, "items": [CATALOGUE[arm] for arm in arms]} if form == "items" else out


@every_form
@pytest.mark.parametrize("algorithm", ["LinearTS", "AdaptiveTS"])
def test_one_at_a_time_is_a_loop(form: str, algorithm: str) -> None:
    many, one, given = make(form, algorithm=algorithm), make(form, algorithm=algorithm), batch_of(form)
    assert replay(many, **given) == 8
    for t in range(8):
        item = given["items"][t] if form == "items" else None
        learn(one, given["contexts"][t], given["arms"][t], float(given["rewards"][t]), item=item)
    assert content(many) == content(one)


@every_form
def test_a_batch_is_encoded_by_what_is_known_after_it(form: str) -> None:
    """So the beliefs are those of an agent that learns the vectors of the encoder after all of them."""
    bandit, given = make(form), batch_of(form)
    other = bandit.copy()
    replay(bandit, **given, batch=8)
    assert bandit.rounds == bandit.core.state.encoders[0].updates == 8
    assert bandit.batches
    parts = [given["contexts"]]
    if form != "arms":
        features = CATALOGUE if form == "items" else bandit.features
        parts.append([features[arm] for arm in given["arms"]])
    encoders = zip(bandit.rows.encoders, bandit.core.state.encoders, parts, strict=True)
    rows = np.hstack([[encoder.encode(known, raw) for raw in raws] for encoder, known, raws in encoders])
    inner: Any = other.agent if form == "arms" else other.agent.agent  # type: ignore[union-attr]
    inner.update(rows, given["arms"] if form == "arms" else [0] * 8, given["rewards"], batch=8)
    theirs: Any = bandit.agent if form == "arms" else bandit.agent.agent  # type: ignore[union-attr]
    assert theirs.state.posterior.mu.tobytes() == inner.state.posterior.mu.tobytes()


def test_positions_are_part_of_what_is_learned() -> None:
    first, later, given = make("items"), make("items"), batch_of("items")
    learn_logged(first, given)
    learn_logged(later, given, positions=[1, 2] * 4)
    assert content(first) != content(later)


BAD: dict[str, dict[str, Any]] = {
    "arms": {"arms": ["spring"]},
    "an arm": {"arms": ["spring"] * 7 + ["none"]},
    "rewards": {"rewards": [1.0]},
    "a reward": {"rewards": [1.0] * 7 + [np.nan]},
    "a context": {"contexts": [*USERS, *USERS[:3], {"age": float("inf")}]},
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("batch", [1, 4, "auto"])
def test_bad_input_changes_nothing(bad: str, batch: Any) -> None:
    bandit = played("arms", 5)
    before = content(bandit)
    with pytest.raises(ValueError, match=r"must|arm|age"):
        replay(bandit, **{**batch_of("arms"), **BAD[bad]}, batch=batch)
    assert content(bandit) == before


@every_form
@pytest.mark.parametrize("algorithm", ["LinearTS", "AdaptiveTS"])
def test_a_batch_that_fails_anywhere_changes_nothing(form: str, algorithm: str) -> None:
    bandit = played(form, 7, encoder=SMALL, algorithm=algorithm)
    expected, before, call, given = bandit.copy(), content(bandit), 1, batch_of(form)
    while fails_at(call, partial(replay, bandit, **given, batch=4)):
        assert content(bandit) == before, f"call {call} failed, and something had changed"
        call += 1 if call < 12 else 83
    assert call > 12
    replay(expected, **given, batch=4)
    assert content(bandit) == content(expected)


@every_form
def test_an_interrupt_at_any_line_is_before_or_after(form: str) -> None:
    start, given = played(form, 4, encoder=SMALL), batch_of(form, 3)
    done = start.copy()
    learn_logged(done, given)
    before, after, seen, line, failed = content(start), content(done), set(), 1, True
    while failed:
        bandit = start.copy()
        failed = fails_at_line(line, partial(learn_logged, bandit, given))
        assert content(bandit) in (before, after), f"line {line} was interrupted, and something was learned in part"
        assert bandit.metadata.get("log_position") == (3 if content(bandit) == after else None)
        seen.add(content(bandit))
        line += 3
    assert seen == {before, after}


def test_refused_where_the_algorithm_does_not_bear_it() -> None:
    bandit = Bandit(arms=ARMS, algorithm="LiM2", seed=0)
    assert not bandit.batches
    with pytest.raises(ValueError, match=r"LiM2 does not learn in batches: .*35% of its reward.*got batch=4"):
        replay(bandit, **batch_of("arms"), batch=4)
    assert replay(bandit, **batch_of("arms"), batch="auto") == bandit.rounds == 8


def learn_logged(bandit: Bandit, given: dict[str, Any], positions: Any = None) -> None:
    """Let a bandit learn one batch, as a log does."""
    history = History(given["arms"], given["rewards"], None, None, given["contexts"], given.get("items"), positions)
    bandit.learn_logged(history, {"log_position": 3})
