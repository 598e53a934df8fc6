"""Claims about table 1, on rewards that are made up."""

from lim2.experiments.summary import REFERENCE
from lim2.paper import table, table_claims
from lim2.paper.lines import Line
from lim2.paper.published import METHODS, dataset


def line(problem: str, rewards: dict[str, float]) -> Line:
    own = {method: {0: reward, 1: reward} for method, reward in (rewards | {REFERENCE: 0.0}).items()}
    return Line(dataset(problem), problem, 9, {}, own)


def highest(*lines: Line) -> tuple[bool | None, str]:
    claim = table_claims._highest(lines)
    return claim.holds, claim.evidence


def test_a_dataset_that_some_methods_cannot_play_raises_nobodys_average() -> None:
    statlog = line("statlog", dict.fromkeys(METHODS, 50.0) | {"LiM2": 98.0, "NeuralUCB": 100.0})
    amazon = line("amazon", {"LiM2": 100.0, "NeuralLinear": 90.0})
    holds, evidence = highest(statlog, amazon)
    assert holds is False
    assert "the highest averages are NeuralUCB 1.000 and LiM2 0.980" in evidence
    assert evidence.endswith("over all of its datasets LiM2's average is 0.990")
    best = line("statlog", dict.fromkeys(METHODS, 50.0) | {"LiM2": 100.0})
    assert highest(best, amazon)[0] is True
    assert highest(amazon)[0] is None


def test_the_table_has_the_average_over_the_datasets_that_all_methods_play() -> None:
    statlog = line("statlog", dict.fromkeys(METHODS, 50.0) | {"LiM2": 98.0, "NeuralUCB": 100.0})
    amazon = line("amazon", {"LiM2": 100.0, "NeuralLinear": 90.0})
    column = 1 + METHODS.index("LiM2")
    rows = {row[0].text: row[column].text for row in table._normalised([statlog, amazon], published=False).rows}
    assert (rows["Average"], rows["Average without Amazon"]) == ("0.990", "0.980")
    assert not any("without" in row[0].text for row in table._normalised([statlog], published=False).rows)
