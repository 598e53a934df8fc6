"""A proof is the same from kept sums and from the log, whatever is deleted, and is right in what it says."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.clock import Clock
from log import world
from log.world import make_log

import lim2
from lim2.log import Proof

ARMS = ("a", "b", "c")


def uniform(seed: int = 0) -> lim2.Bandit:
    return lim2.Bandit(arms=list(ARMS), algorithm="Uniform", seed=seed)


def fill(
    log: lim2.DecisionLog, n: int, rate: Callable[[Any], float] = lambda arm: 0.2 + 0.4 * (arm == "b"), seed: int = 0
) -> list[Any]:
    """Record decisions that are uniform, and their rewards."""
    bandit, rng = uniform(seed), np.random.default_rng(seed)
    contexts = [{"n": number % 3} for number in range(n)]
    made = log.record_many([bandit.decide(context) for context in contexts], raw=contexts)
    log.reward_many([(one.id, float(rng.random() < rate(one.arm))) for one in made])
    return made


def folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


def always(arm: str) -> Any:
    return lambda context, arms: arm


def same(one: Proof, other: Proof) -> None:
    """Check that two proofs agree to twelve digits, in all but the name of the rule and what has been deleted."""
    a, b = one.to_dict(), other.to_dict()
    for values in (a, b):
        values["curve"] = [tuple(point.values()) for point in values["curve"]]
        for name in ("rule", "text", "deleted", "warnings", "skipped"):
            del values[name]
    for name, value in a.items():
        assert value == b[name] or np.allclose(
            np.array(value, dtype=float), np.array(b[name], dtype=float), rtol=1e-12, atol=0
        ), name


def test_the_sums_are_those_of_the_definition(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        fill(log, 300)
        proof, table = log.proof("b"), log.table()
    q = np.concatenate([[0.0], np.cumsum(table.rewards)[:-1]]) / np.arange(1, len(table) + 1)
    w = np.array([table.arms[arm] == "b" for arm in table.chosen]) / table.propensity
    x = (table.rewards - q) * (1 - w)
    assert proof.gain == pytest.approx(x.mean())
    assert proof.mean_reward == pytest.approx(table.rewards.mean())
    assert proof.relative == pytest.approx(x.mean() / (table.rewards.mean() - x.mean()))
    rewarded = w * (table.rewards != 0)
    assert proof.effective_rewarded == pytest.approx(rewarded.sum() ** 2 / (rewarded**2).sum())
    assert proof.interval[0] < proof.gain < proof.interval[1]
    assert (proof.decisions, proof.uncovered, proof.missing, proof.waiting) == (300, 0, 0, 0)


def test_kept_sums_are_those_of_the_log_to_the_same_digits(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        for part in range(7):
            fill(log, 40 + 13 * part, seed=part)
            proof = log.proof("a", reward_range=(0, 2))
        same(proof, log.proof(always("a"), reward_range=(0, 2)))
        assert [point.decisions for point in proof.curve] == sorted({point.decisions for point in proof.curve})
        assert proof.curve[-1].decisions == proof.decisions == 553
    with lim2.DecisionLog(world.address(tmp_path), read_only=True) as log:
        assert log.proof("a", reward_range=(0, 2)) == proof


def test_what_is_deleted_stays_in_the_sums_and_the_proof_says_so(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        bandit, rng = lim2.Bandit(arms=list(ARMS), algorithm="Uniform", log=log, seed=0), np.random.default_rng(0)
        for number in range(200):
            decision = bandit.decide({"n": number % 3}, key=f"user {number % 10}")
            bandit.update(decision, float(rng.random() < 0.5))
            if number == 50:
                before = log.proof("a")
        everything = log.proof(always("a"))
        assert before.decisions == 51 and not everything.deleted
        assert log.erase("user 3") == 20  # most of which no proof had counted when it was last asked for
        kept = log.proof("a")
        same(kept, everything)
        assert kept.deleted and "pruned or erased" in str(kept)
        assert log.prune(10, log.position) > 0
        same(log.proof("a"), everything)
        afterwards = log.proof("b")
        assert afterwards.decisions < 20 and afterwards.skipped == log.state.pruned
        assert "was deleted up to position" in str(afterwards)


def test_decisions_count_in_their_order_up_to_the_first_that_waits(tmp_path: Path) -> None:
    clock = Clock()
    with make_log(tmp_path, clock=clock, expire_after=60, default_reward=0.0) as log:
        bandit = uniform()
        made = log.record_many([bandit.decide({}) for _ in range(10)], raw=[{}] * 10)
        log.reward_many([(one.id, 1.0) for one in made if one is not made[4]])
        proof = log.proof("a")
        assert (proof.decisions, proof.waiting, proof.mean_reward) == (4, 6, 1.0)
        assert "still waits" not in str(proof)
        log.record_many([bandit.decide({}) for _ in range(100)], raw=[{}] * 100)
        assert "106 decisions do not count yet" in str(log.proof("a"))
        log.reward(made[4].id, 0.0)
        assert log.proof("a").decisions == 10
        clock.now += 61
        log.expire()
        assert log.proof("a").decisions == 110


def test_a_decision_that_the_rule_could_not_make_says_nothing(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        made = fill(log, 100)
        greedy = [uniform().decide({}, arms=["c"]) for _ in range(50)]
        log.reward_many([(one.id, 1.0) for one in log.record_many(greedy, raw=[{}] * 50)])
        log.discard(made[-1].id)
        proof = log.proof("b")
        assert (proof.decisions, proof.uncovered, proof.missing) == (99, 50, 1)
        assert log.proof("uniform").decisions == log.proof("first").decisions == 149
        nothing = log.proof("always:zebra")
        assert (nothing.decisions, nothing.verdict, nothing.decisions_to_verdict) == (0, "not yet", None)
        assert math.isnan(nothing.gain) and "in none of 149 decisions" in str(nothing)


@pytest.mark.one_store
def test_verdicts_in_both_directions(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        fill(log, 4000)
        better, worse, equal = log.proof("a"), log.proof("b"), log.proof("uniform")
    assert (better.verdict, worse.verdict, equal.verdict) == ("proved better", "proved worse", "not yet")
    assert better.interval[0] > 0 > worse.interval[1] and better.proved_after and worse.proved_after
    assert (better.gain, worse.gain) == pytest.approx((0.133, -0.267), abs=0.04)
    assert 'against "a" (at least +' in str(better) and "proved after" in str(better)
    assert 'against "b" (at most -' in str(worse)
    assert equal.proved_after is None and equal.gain == 0  # the rule is the logged policy: every weight is 1


@pytest.mark.one_store
def test_a_verdict_holds_from_the_decision_that_it_names(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        made = fill(log, 4000)
        after = log.proof("a").proved_after
        assert after is not None
    with make_log(folder(tmp_path, "short")) as short:
        bandit, rng = uniform(), np.random.default_rng(0)
        again = short.record_many([bandit.decide({"n": n % 3}) for n in range(after)], raw=[{}] * after)
        assert [one.arm for one in again] == [one.arm for one in made[:after]]
        rewards = [float(rng.random() < 0.2 + 0.4 * (one.arm == "b")) for one in again]
        short.reward_many([(one.id, value) for one, value in zip(again[:-1], rewards[:-1], strict=True)])
        assert short.proof("a").verdict == "not yet"
        short.reward(again[-1].id, rewards[-1])
        assert (short.proof("a").verdict, short.proof("a").proved_after) == ("proved better", after)


@pytest.mark.one_store
def test_what_is_missing_for_a_verdict_is_about_right(tmp_path: Path) -> None:
    def rate(arm: Any) -> float:
        return 0.4 if arm == "b" else 0.3

    with make_log(tmp_path) as log:
        fill(log, 1500, rate)
        early = log.proof("a")
        assert early.verdict == "not yet" and early.decisions_to_verdict is not None
        fill(log, 12_000, rate, seed=1)
        late = log.proof("a")
        assert late.proved_after is not None and 0.25 < (1500 + early.decisions_to_verdict) / late.proved_after < 4
    assert f"decidable after about {int(float(f'{early.decisions_to_verdict:.2g}')):,} more" in str(early)


def test_rewards_beyond_the_range(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        bandit, rng = uniform(), np.random.default_rng(0)
        made = log.record_many([bandit.decide({}) for _ in range(3000)], raw=[{}] * 3000)
        log.reward_many([(one.id, float(rng.exponential(10) * (1 + (one.arm == "b")))) for one in made])
        unknown, capped = log.proof("a"), log.proof("a", reward_range=(0, 30))
        wide = log.proof("a", reward_range=(0, 1000))
    assert unknown.approximate and unknown.verdict == "not yet" and not unknown.curve
    assert unknown.interval[0] > 0 and "approximate" in str(unknown)  # never a verdict, whatever it says
    assert capped.verdict == "proved better" and capped.capped > 0
    assert f"{capped.capped:,} rewards beyond [0, 30] were capped" in str(capped)
    assert capped.gain < wide.gain == pytest.approx(unknown.gain, rel=0.1) and wide.capped == 0


def test_clicks_without_zeros_are_doubted(tmp_path: Path) -> None:
    clock = Clock()
    with make_log(tmp_path, clock=clock, expire_after=60) as log:
        bandit = uniform()
        made = log.record_many([bandit.decide({}) for _ in range(100)], raw=[{}] * 100)
        log.reward_many([(one.id, 1.0) for one in made[::10]])
        clock.now += 61
        log.expire()
        proof = log.proof("a")
    assert proof.missing == 90 and "90 decisions have no reward" in str(proof)
    assert "fewer than 50" in str(proof)


def test_a_rare_rule_names_the_share_that_would_decide(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with make_log(tmp_path) as log:
        bandit = lim2.Bandit(arms=["a", "b"], algorithm="LinearTS", epsilon=0.02, seed=0)
        made = []
        for number in range(3000):
            made.append(bandit.decide({}))
            if number < 300:
                bandit.update(made[-1], float(made[-1].arm == "b"))
        kept = log.record_many(made, raw=[{}] * 3000)
        log.reward_many([(one.id, float(rng.random() < (0.07 if one.arm == "b" else 0.05))) for one in kept])
        proof = log.proof("a")
    assert proof.verdict == "not yet" and proof.control_share is not None
    assert f"control group of {proof.control_share[0]:.0%}" in str(proof)
    assert proof.control_share[1] < 3000 + (proof.decisions_to_verdict or math.inf)


@pytest.mark.parametrize("against", [lambda context, arms: {"a": 0.5, "b": 0.5}, uniform(), uniform().snapshot()])
def test_functions_and_bandits_are_rules(tmp_path: Path, against: Any) -> None:
    with make_log(tmp_path) as log:
        fill(log, 50)
        proof = log.proof(against)
        assert proof.decisions == 50
        assert log.store.look(lambda tables: tables.proofs()) == []


def test_agents_and_items(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        shop, items = lim2.Bandit(seed=0, log=log, epsilon=0.5), {"x": {"price": 1}, "y": {"price": 2}}
        for _ in range(30):
            shop.update(shop.decide({"n": 1}, items), 1.0)
        assert log.proof("first").decisions > 10
        same(log.proof("x"), log.proof(lambda context, candidates: "x"))
        assert log.proof(shop.snapshot()).decisions > 10
    with make_log(folder(tmp_path, "vectors")) as log:
        agent = world.make_agent(epsilon=0.5)
        world.live(log, agent)
        assert log.proof(agent, reward_range=(-3, 3)).decisions > 10


def test_no_more_than_so_many_rules_are_kept(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        fill(log, 30)
        for high in range(1, 21):
            log.proof("a", reward_range=(0, high))
        assert len(log.store.look(lambda tables: tables.proofs())) == 16
        same(log.proof("a", reward_range=(0, 20)), log.proof(always("a"), reward_range=(0, 20)))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"against": None}, "a rule must be an arm"),
        ({"against": "a", "level": 1.0}, "level must be between 0 and 1"),
        ({"against": "a", "reward_range": (1, 0)}, "reward_range must be"),
        ({"against": "a", "reward_range": (0, math.inf)}, "reward_range must be"),
        ({"against": "a", "reward_range": 3}, "reward_range must be"),
        ({"against": lambda context, arms: "zebra"}, "must return one of the eligible arms"),
    ],
)
def test_bad_questions_change_nothing(tmp_path: Path, arguments: dict[str, Any], says: str) -> None:
    with make_log(tmp_path) as log:
        fill(log, 5)
        with pytest.raises(ValueError, match=says):
            log.proof(**arguments)
        assert log.store.look(lambda tables: tables.proofs()) == []


def test_a_copy_goes_on_with_the_proof(tmp_path: Path) -> None:
    from lim2.log.copying import copy

    with make_log(tmp_path) as log, make_log(folder(tmp_path, "copy")) as other:
        made = fill(log, 100)
        log.discard(made[3].id)
        log.proof("a")
        fill(log, 50, seed=1)
        copy(log.store, other.store)
        assert other.proof("a") == log.proof("a")
        same(other.proof("a"), other.proof(always("a")))


def test_two_logs_that_count_at_the_same_time_agree(tmp_path: Path) -> None:
    with make_log(tmp_path) as log, make_log(tmp_path) as other:
        for part in range(4):
            fill(log, 30, seed=part)
            assert log.proof("a") == other.proof("a")
        same(log.proof("a"), log.proof(always("a")))


def test_a_proof_survives_json(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        empty = log.proof("a")
        fill(log, 80)
        for proof in (empty, log.proof("a")):
            again = Proof.from_dict(proof.to_dict())
            assert str(again) == str(proof) and again.curve == proof.curve and again.interval == proof.interval


@pytest.mark.one_store
@pytest.mark.parametrize("share", [0.1, 0.0])
def test_without_a_difference_there_is_hardly_ever_a_verdict(share: float) -> None:
    """A/A: 100 logs of 5,000 decisions, looked at 20 times; `python -m benchmarks.proof` has more."""
    from lim2.log.proof import Evidence, after_rewards, question_of, weights_of

    rng, wrong, fixed = np.random.default_rng(0), 0, 0
    question = question_of("0", None, 0.95)
    rule = np.tile([1.0, 0.0, 0.0], (250, 1))
    for _ in range(100):
        evidence, ever, coloured = Evidence(), False, False
        for _ in range(20):
            own = 0.03 / 3 + 0.97 * rng.dirichlet([0.5] * 3, size=250)
            propensities = share * rule + (1 - share) * own
            arms = (rng.random((250, 1)) > propensities.cumsum(axis=1)).sum(axis=1).clip(max=2)
            rewards = (rng.random(250) < 0.05).astype(float)
            evidence = after_rewards(evidence, question, rewards, weights_of(rule, propensities, arms))
            mean = evidence.total / evidence.counted
            spread = math.sqrt(evidence.raw_squares / evidence.counted - mean**2) / math.sqrt(evidence.counted)
            ever, coloured = ever or evidence.sign != 0, coloured or abs(mean) > 1.96 * spread
        wrong, fixed = wrong + ever, fixed + coloured
    assert wrong <= 5
    assert fixed > 20  # as a fixed-sample interval would have it: the simulation can fail
