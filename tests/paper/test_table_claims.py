"""Claims about table 1, on rewards that are made up."""

from typing import Any

from paper.fabricated import tables

from lim2.paper.published import METHODS
from lim2.paper.run import EXPERIMENTS

STATLOG = dict.fromkeys(METHODS, 50.0) | {"LiM2": 98.0, "NeuralUCB": 100.0}
AMAZON = {"LiM2": 100.0, "NeuralLinear": 90.0}


def section(rewards: dict[str, dict[str, float]]) -> Any:
    """Return the section on the table: two runs of each method, and of the random policy, which earns nothing."""
    cells = {
        (problem, agent): 2 * [{"reward": reward}]
        for problem, line in rewards.items()
        for agent, reward in ({**line, "Uniform": 0.0}).items()
    }
    return EXPERIMENTS["table"].section(tables(cells))


def highest(rewards: dict[str, dict[str, float]]) -> tuple[bool | None, str]:
    [claim] = [claim for claim in section(rewards).claims if "highest average" in claim.text]
    return claim.holds, claim.evidence


def test_a_dataset_that_some_methods_cannot_play_raises_nobodys_average() -> None:
    holds, evidence = highest({"statlog": STATLOG, "amazon": AMAZON})
    assert holds is False
    assert "the highest averages are NeuralUCB 1.000 and LiM2 0.980" in evidence
    assert evidence.endswith("over all of its datasets LiM2's average is 0.990")
    assert highest({"statlog": STATLOG | {"LiM2": 100.0, "NeuralUCB": 50.0}, "amazon": AMAZON})[0] is True


def test_the_table_has_the_average_over_the_datasets_that_all_methods_play() -> None:
    column = 1 + METHODS.index("LiM2")
    both = section({"statlog": STATLOG, "amazon": AMAZON}).sheets[0]
    rows = {row[0].text: row[column].text for row in both.rows}
    assert (rows["Average"], rows["Average without Amazon"]) == ("0.990", "0.980")
    assert not any("without" in row[0].text for row in section({"statlog": STATLOG}).sheets[0].rows)
