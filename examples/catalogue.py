"""A catalogue that changes: `python examples/catalogue.py`.

In every round, twenty articles of a few hundred are eligible. Articles are added and removed over time, and each has
features. The bandit applies what it learns about one article to similar articles. Needs `pip install lim2`.
"""

import argparse

import numpy as np

import lim2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    rounds = parser.parse_args().rounds

    problem = lim2.problems.load("catalogue", rounds=rounds, seed=0)
    bandit, earned, new = lim2.Bandit(seed=0), np.zeros(rounds), 0
    seen: set[object] = set()
    for t in range(rounds):
        user, items = problem.raw(t)  # a dictionary, and a dictionary of dictionaries
        new += len(items.keys() - seen)
        seen |= items.keys()
        decision = bandit.decide(user, items=items)
        row = problem.rows(t).start + list(items).index(decision.arm)
        bandit.update(decision, problem.rewards[row])
        earned[t] = problem.expected_rewards[row]

    best, random = problem.best_rewards.mean(), problem.uniform_reward
    print(f"{new} articles in total, {len(items)} per round; the last choice: {decision.arm}")
    for part in np.array_split(earned, 4):
        print(f"{(part.mean() - random) / (best - random):.2f} of the way from a random article to the best one")

    slate = bandit.rank(user, items=items, k=3)
    print("a slate of three:", ", ".join(map(str, slate.arms)))
    bandit.update(slate, {1: 0.0, 2: 1.0})  # the second was clicked, the third was not seen


if __name__ == "__main__":
    main()
