"""Rewards that come late, twice, or never, and a crash: `python examples/late_rewards.py`.

A child process makes decisions and is killed. A second process resumes from its log. At the end, a new bandit replays
the whole log and has learned the same, bit for bit. Needs `pip install lim2`.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import lim2

BANNERS = ["spring", "shoes", "gift card"]


class Clock:
    """A simulated clock, so that the example does not have to wait."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the current time in seconds."""
        return self.now


def serve(folder: Path, start: float, seed: int, visitors: int) -> float:
    """Decide for visitors who arrive a minute apart, learn from their rewards, and return the time at the end."""
    clock, rng = Clock(start), random.Random(seed)
    log = lim2.DecisionLog(folder / "log.db", expire_after=3600, default_reward=0.0, clock=clock)
    saved = folder / "bandit.lim2"
    bandit = lim2.load(saved) if saved.exists() else lim2.Bandit(arms=BANNERS, epsilon=0.15, seed=0)
    bandit.attach(log)  # learns the rewards in the log that the file does not include
    waiting: list[tuple[float, str]] = []
    for number in range(visitors):
        person = {"country": rng.choice(["AT", "DE"]), "hour": rng.randrange(24)}
        decision = bandit.decide(person)
        if rng.random() < (0.6 if (decision.arm == "shoes") == (person["country"] == "DE") else 0.1):
            waiting.append((clock.now + rng.uniform(10, 1800), decision.id))  # a click, up to half an hour later
        clock.now += 60
        for moment, which in sorted(waiting):
            if moment <= clock.now:
                bandit.reward(which, 1.0)
                bandit.reward(which, 1.0)  # the message arrives twice: returns "duplicate"
                waiting.remove((moment, which))
        if number % 100 == 99:
            bandit.save(saved)
    state = log.state
    print(f"  {state.rewards} clicks, {state.defaults} visitors without a click, {state.pending} pending", flush=True)
    if os.environ.get("CRASH"):
        os.kill(os.getpid(), signal.SIGKILL)
    log.close()
    return clock.now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visitors", type=int, default=250, help="visitors per process")
    visitors = parser.parse_args().visitors
    with tempfile.TemporaryDirectory() as name:
        folder, start = Path(name), 1_800_000_000.0
        print("first process, killed with SIGKILL:")
        crash = f"import late_rewards, pathlib; late_rewards.serve(pathlib.Path({name!r}), {start}, 1, {visitors})"
        where = {**os.environ, "CRASH": "1", "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
        done = subprocess.run([sys.executable, "-c", crash], env=where, check=False)
        print(f"  ended with status {done.returncode}")

        print("second process, resumes from the log:")
        end = serve(folder, start + visitors * 60, 2, visitors)

        log = lim2.DecisionLog(folder / "log.db", clock=Clock(end + 3600))
        bandit = lim2.load(folder / "bandit.lim2")
        bandit.attach(log)
        fresh = lim2.Bandit(arms=BANNERS, epsilon=0.15, seed=0)
        log.replay(fresh)
        person = {"country": "DE", "hour": 9}
        same = fresh.propensities(person).tolist() == bandit.propensities(person).tolist()
        print(f"{bandit.rounds} rewards learned from {log.position} events; a replay gives the same bandit: {same}")
        log.close()


if __name__ == "__main__":
    main()
