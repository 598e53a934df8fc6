"""Choose settings of an agent with Optuna: `python examples/tune_with_optuna.py --trials 20 --out tuning`.

The search plays one set of problems; the best settings are then compared with the defaults on other problems and other
seeds, because the best score of many trials is optimistic. The same command continues an interrupted search. Needs
`pip install 'lim2[bench]' optuna`.
"""

import argparse
from pathlib import Path
from typing import Any

import optuna

from lim2.experiments import Results, bench

AGENT = "LinearTS"
TUNING: dict[str, Any] = {"problems": ["wheel", "linear"], "seed": 1000, "runs": 2}
EVALUATION: dict[str, Any] = {"problems": ["nonlinear", "sparse-linear"], "seed": 0, "runs": 5}


def suggested(trial: optuna.Trial) -> dict[str, Any]:
    return {
        "prior_precision": trial.suggest_float("prior_precision", 0.01, 10.0, log=True),
        "intercept": trial.suggest_categorical("intercept", [False, True]),
        "initial_pulls": trial.suggest_int("initial_pulls", 1, 8, log=True),
    }


def score(results: Results, agent: str) -> float:
    """Return a mean over problems: 0 for the random policy, 1 for the best arm in every round."""
    shares = [row["regret_share"] for row in results.rows if row["agent"] == agent]
    return 1.0 - sum(shares) / len(shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("tuning"))
    asked = parser.parse_args()
    quiet: dict[str, Any] = {"rounds": asked.rounds, "quiet": True, "report": False}

    def tried(trial: optuna.Trial) -> float:
        agents = {"tried": (AGENT, suggested(trial))}
        return score(bench(agents=agents, out=asked.out / f"trial-{trial.number}", **TUNING, **quiet), "tried")

    asked.out.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name=AGENT,
        storage=f"sqlite:///{asked.out / 'trials.sqlite'}",
        direction="maximize",
        load_if_exists=True,
    )
    study.sampler = optuna.samplers.TPESampler(seed=len(study.trials))  # another one than that of earlier calls
    study.optimize(tried, n_trials=max(0, asked.trials - len(study.trials)))
    agents = {"defaults": (AGENT, {}), "tuned": (AGENT, study.best_params)}
    found = bench(agents=agents, out=asked.out / "evaluation", **EVALUATION, rounds=asked.rounds)
    print(f"Best of {len(study.trials)} trials: {study.best_value:.3f} with {study.best_params}")
    print(
        f"On problems that the search has not seen: {score(found, 'tuned'):.3f}, "
        f"defaults {score(found, 'defaults'):.3f}. Paired tests: {found.report}"
    )


if __name__ == "__main__":
    main()
