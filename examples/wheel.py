"""LiM2 against three other agents on the wheel bandit: `make demo`.

A context is a point in the unit disc. The first arm always pays a little more than the others, except outside an inner
circle: there one of the other four pays fifty, each in its own quadrant. A linear model can tell neither the circle nor
the quadrants; a network that forgets finds them again and again.
"""

import time
from collections.abc import Callable
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

import lim2
from lim2 import problems

AGENTS = ("LiM2", "LinearTS", "NeuralLinear-Naive", "Uniform")
ROUNDS, RADIUS, SEED = 4000, 0.8, 0


def play(
    agent: lim2.Agent, problem: problems.Problem, report: Callable[[int, float], None]
) -> tuple[float, float, float]:
    """Return the cumulative reward, the expected regret, and the microseconds of a round."""
    reward = regret = seconds = 0.0
    for t, context in enumerate(problem.contexts):
        start = time.perf_counter()
        arm = agent.act(context)
        agent.update(context, arm, problem.rewards[t, arm])
        seconds += time.perf_counter() - start
        reward += problem.rewards[t, arm]
        regret += problem.best_rewards[t] - problem.expected_rewards[t, arm]
        if t % 50 == 49:
            report(t + 1, reward)
    return reward, regret, 1e6 * seconds / len(problem.contexts)


def show(progress: Progress, task: TaskID, done: int, reward: float) -> None:
    progress.update(task, completed=done, reward=reward)


def main() -> None:
    console = Console()
    problem = problems.load("wheel", rounds=ROUNDS, seed=SEED, delta=RADIUS)
    possible = float(problem.best_rewards.sum())
    console.print(
        f"[bold]The wheel bandit[/bold]: {ROUNDS:,} rounds, {problem.n_arms} arms; "
        f"outside radius {RADIUS} one arm pays 50, elsewhere all pay about 1.\n"
    )
    columns = (
        TextColumn("{task.description:18}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("reward {task.fields[reward]:7,.0f}"),
        TimeRemainingColumn(),
    )
    results = {}
    with Progress(*columns, console=console) as progress:
        for name in AGENTS:
            task = progress.add_task(name, total=ROUNDS, reward=0.0)
            agent = lim2.AGENTS[name](problem.n_arms, problem.n_features, seed=SEED)
            results[name] = play(agent, problem, partial(show, progress, task))
    table = Table("agent", title=f"After {ROUNDS:,} rounds", title_justify="left")
    for column in ("reward", "of the possible", "regret", "µs a round"):
        table.add_column(column, justify="right")
    best = max(reward for reward, _, _ in results.values())
    for name, (reward, regret, microseconds) in results.items():
        cells = (f"{reward:,.0f}", f"{reward / possible:.0%}", f"{regret:,.0f}", f"{microseconds:,.0f}")
        table.add_row(name, *cells, style="bold green" if reward == best else "")
    console.print(table)


if __name__ == "__main__":
    main()
