"""Choice data in long and in wide format, on small files."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import lim2.problems
from lim2.problems import DataError, ItemProblem, from_choices, wide_to_long

TRIPS = """trip,mode,taken,cost,minutes,income,purpose
7,bus,no,2.5,60,30,work
7,car,yes,6,30,30,work
3,bus,yes,3,50,,fun
3,car,no,7,25,,fun
3,air,no,90,20,,fun
9,bus,no,1,10,20,work
9,car,no,2,10,20,work
5,bus,yes,1,10,20,work
"""
COLUMNS: dict[str, Any] = {
    "situation": "trip",
    "alternative": "mode",
    "chosen": "taken",
    "context": ["income", "purpose"],
    "item": ["mode", "cost", "minutes"],
}


def trips(folder: Path, text: str = TRIPS, **changes: Any) -> ItemProblem:
    path = folder / "trips.csv"
    path.write_text(text)
    return from_choices(path, **(COLUMNS | changes))


def test_a_situation_is_a_round(tmp_path: Path) -> None:
    problem = trips(tmp_path)
    assert problem.name == "trips.csv"
    assert problem.n_candidates.tolist() == [2, 3]
    assert [problem.names(t) for t in range(2)] == [("bus", "car"), ("bus", "car", "air")]
    assert problem.rewards.tolist() == [0.0, 1.0, 1.0, 0.0, 0.0]
    assert problem.feature_names == ("income", "purpose=fun", "purpose=work")
    assert problem.item_feature_names == ("mode=air", "mode=bus", "mode=car", "cost", "minutes")
    assert problem.items(0).tolist() == [[0.0, 1.0, 0.0, 2.5, 60.0], [0.0, 0.0, 1.0, 6.0, 30.0]]
    assert problem.contexts[0].tolist() == [30.0, 0.0, 1.0]
    assert problem.contexts[1, 0] == 24.0  # the mean of the five incomes that are there
    assert problem.raw(1)[0] == {"income": None, "purpose": "fun"}
    assert problem.raw(0)[1]["car"] == {"mode": "car", "cost": 6.0, "minutes": 30}
    assert problem.notes == (
        "1 choice situations in which nothing was chosen were left out",
        "1 choice situations with one alternative only were left out",
        "column income: 3 missing values, taken as the mean",
    )


def test_rows_of_a_situation_need_not_be_together(tmp_path: Path) -> None:
    head, *rows = TRIPS.splitlines()
    shuffled = "\n".join([head, *(rows[i] for i in (0, 4, 5, 1, 6, 2, 7, 3))])
    problem, again = trips(tmp_path), trips(tmp_path, shuffled)
    for t in range(2):
        assert problem.raw(t)[0] == again.raw(t)[0]
        assert problem.raw(t)[1] == again.raw(t)[1]
    assert again.names(1) == ("air", "bus", "car")
    assert again.rewards.tolist() == [0.0, 1.0, 0.0, 1.0, 0.0]


def test_frames_give_the_same_as_files(tmp_path: Path) -> None:
    problem = trips(tmp_path)
    frame = pl.read_csv(tmp_path / "trips.csv")
    frames: list[Any] = [frame]
    if find_spec("pandas") is not None:
        frames.append(import_module("pandas").DataFrame(frame.to_dict(as_series=False)))
    for table in frames:
        again = from_choices(table, name="trips.csv", **COLUMNS)
        np.testing.assert_array_equal(again.candidates, problem.candidates)
        np.testing.assert_array_equal(again.contexts, problem.contexts)
        assert (again.notes, again.name) == (problem.notes, problem.name)
    with pytest.raises(TypeError, match="table must be a path, or a Polars or pandas frame, not list"):
        from_choices([], **COLUMNS)


def test_a_seed_draws_situations_whole(tmp_path: Path) -> None:
    rows = [f"{t},{mode},{int(mode == 'b')},{t}.5,{t}" for t in range(50) for mode in "abc"]
    text = "\n".join(["trip,mode,taken,cost,income", *rows])
    one = trips(tmp_path, text, context=["income"], item=["cost"], rounds=20, seed=1)
    other = trips(tmp_path, text, context=["income"], item=["cost"], rounds=20, seed=2)
    drawn = one.contexts[:, 0].tolist()
    assert len(set(drawn)) == 20
    assert drawn != other.contexts[:, 0].tolist()
    for context, items, rewards in one:
        assert items[:, 0].tolist() == [context[0] + 0.5] * 3
        assert rewards.tolist() == [0.0, 1.0, 0.0]
    with pytest.raises(ValueError, match="has 50 rows, but 51 rounds were asked for"):
        trips(tmp_path, text, context=["income"], item=["cost"], rounds=51, seed=1)
    with pytest.raises(ValueError, match="has 50 choice situations, but 51 rounds"):
        trips(tmp_path, text, context=["income"], item=["cost"], rounds=51)


def test_without_a_context_it_is_constant(tmp_path: Path) -> None:
    problem = trips(tmp_path, context=[])
    assert problem.contexts.tolist() == [[1.0], [1.0]]
    assert problem.raw(0)[0] == {}


def test_numbers_that_are_names(tmp_path: Path) -> None:
    problem = trips(tmp_path, categorical=["minutes"], item=["minutes"])
    assert problem.item_feature_names[0].startswith("minutes=")
    assert problem.raw(0)[1]["bus"] == {"minutes": "60"}


@pytest.mark.parametrize(
    ("change", "columns", "message"),
    [
        (("7,bus,no", "7,bus,perhaps"), {}, "line 2, column taken: 'perhaps' does not say whether"),
        (("7,bus,no", "7,bus,yes"), {}, "column taken: choice situation 7: several alternatives were chosen"),
        (("7,bus,no", "7,car,no"), {}, "column mode: choice situation 7: an alternative occurs twice"),
        (("60,30,work", "60,31,work"), {}, "column income: choice situation 7: the values differ"),
        (("7,bus,no", ",bus,no"), {}, "line 2, column trip: a missing value"),
        (("5,bus", "5,"), {}, "line 9, column mode: a missing value"),
        (("90,20", "inf,20"), {}, "line 6, column cost: an infinite value"),
        (("", ""), {"item": ["colour"]}, "line 1, column colour: there is no such column; the file has trip"),
        (("yes", "no"), {}, "no choice situation has several alternatives"),
    ],
)
def test_what_is_wrong_is_said(change: tuple[str, str], columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        trips(tmp_path, TRIPS.replace(*change), **columns)


def test_items_need_features(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="item names no column"):
        trips(tmp_path, item=[])
    with pytest.raises(FileNotFoundError, match="there is no file"):
        from_choices(tmp_path / "nothing.csv", **COLUMNS)


def test_wide_tables_become_long() -> None:
    wide = pl.DataFrame(
        {
            "age": [30, 40],
            "pick": [2, 1],
            "bus_cost": [1.0, 2.0],
            "car_cost": [3.0, 4.0],
            "car_seats": [4, 5],
            "bus_here": [1, 1],
            "car_here": [1, 0],
        }
    )
    long = wide_to_long(
        wide,
        chosen="pick",
        alternatives={"bus": 1, "car": 2},
        item=["cost", "seats"],
        pattern="{alternative}_{item}",
        available="here",
    )
    assert long.rows() == [
        (30, 0, "bus", False, 1.0, None),
        (30, 0, "car", True, 3.0, 4),
        (40, 1, "bus", True, 2.0, None),
    ]
    with pytest.raises(ValueError, match="no alternative has a column for 'colour': there is no 'colourbus'"):
        wide_to_long(wide, chosen="pick", alternatives={"bus": 1}, item=["colour"])


# The registered surveys, on files of their form


def write_surveys(folder: Path) -> None:
    (folder / "electricity.csv").write_text(
        '"choice","id","alt","pf","cl","loc","wk","tod","seas","chid"\n'
        + "".join(f"{str(alt == 2).upper()},1,{alt},{alt},5,0,1,0,0,{t}\n" for t in range(3) for alt in range(1, 5))
    )
    (folder / "ModeCanada.csv").write_text(
        ",case,alt,choice,dist,cost,ivt,ovt,freq,income,urban,noalt\n"
        + "1,1,train,0,83,28.25,50,66,4,45,0,2\n2,1,car,1,83,15.77,61,0,0,45,0,2\n"
        + "".join(
            f"{n},2,{alt},{int(n == 4)},90,2,3,4,5,45,1,4\n" for n, alt in enumerate(("train", "air", "bus", "car"), 3)
        )
    )
    parts = ("type", "fuel", "price", "range", "acc", "speed", "pollution", "size", "space", "cost", "station")
    head = ",".join(
        ["rownames", "choice", "college", "hsg2", "coml5", *(f"{p}{i}" for p in parts for i in range(1, 7))]
    )
    cars = [["van", "regcar"][i % 2] for i in range(6)] + ["gasoline"] * 6 + [str(n) for n in range(54)]
    (folder / "car.csv").write_text(f"{head}\n1,choice3,0,1,0,{','.join(cars)}\n2,choice1,1,1,0,{','.join(cars)}\n")
    (folder / "swissmetro.csv").write_text(
        "GROUP,SURVEY,SP,ID,PURPOSE,FIRST,TICKET,WHO,LUGGAGE,AGE,MALE,INCOME,GA,ORIGIN,DEST,TRAIN_AV,CAR_AV,SM_AV,"
        "TRAIN_TT,TRAIN_CO,TRAIN_HE,SM_TT,SM_CO,SM_HE,SM_SEATS,CAR_TT,CAR_CO,CHOICE\n"
        "2,0,1,1,1,0,1,1,0,3,0,2,0,2,1,1,1,1,112,48,120,63,52,20,1,117,65,2\n"
        "2,0,1,1,4,0,2,1,0,3,0,2,0,2,1,1,0,1,103,48,30,60,49,10,0,0,0,1\n"
        "2,0,1,1,4,0,2,1,0,3,0,2,0,2,1,1,1,1,103,48,30,60,49,10,0,117,84,0\n"
    )


def survey(name: str, folder: Path) -> ItemProblem:
    write_surveys(folder)
    problem: Any = lim2.problems.load(name, "all", 0, data=folder, verify=False)
    assert isinstance(problem, ItemProblem)
    return problem


def test_electricity(tmp_path: Path) -> None:
    problem = survey("electricity", tmp_path)
    assert (problem.rounds, problem.n_features, problem.n_item_features) == (3, 1, 6)
    assert problem.best_items.tolist() == [1, 1, 1]
    assert problem.items(0)[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_mode_canada(tmp_path: Path) -> None:
    problem = survey("mode-canada", tmp_path)
    assert sorted(problem.n_candidates.tolist()) == [2, 4]
    assert (problem.n_features, problem.n_item_features) == (3, 8)
    taken = {problem.names(t)[problem.best_items[t]] for t in range(2)}
    assert taken == {"car", "air"}


def test_car(tmp_path: Path) -> None:
    problem = survey("car", tmp_path)
    assert problem.n_candidates.tolist() == [6, 6]
    assert sorted(problem.best_items.tolist()) == [0, 2]
    assert problem.item_feature_names[:4] == ("type=regcar", "type=van", "fuel=gasoline", "price")
    assert problem.items(0)[:, 3].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert problem.items(0)[:, -1].tolist() == [48.0, 49.0, 50.0, 51.0, 52.0, 53.0]


@pytest.mark.parametrize("file", ["swissmetro.csv", "swissmetro.dat"])
def test_swissmetro(file: str, tmp_path: Path) -> None:
    problem = survey("swissmetro", tmp_path)
    if file.endswith(".dat"):  # Biogeme's own file
        path = tmp_path / "swissmetro.csv"
        (tmp_path / file).write_text(path.read_text().replace(",", "\t"))
        path.unlink()
        again = lim2.problems.load("swissmetro", "all", 0, data=tmp_path, verify=False)
        np.testing.assert_array_equal(again.candidates, problem.candidates)
        problem = again
    three, two = sorted(range(2), key=lambda t: -problem.n_candidates[t])
    assert problem.names(three) == ("TRAIN", "SM", "CAR")
    assert problem.names(two) == ("TRAIN", "SM")
    assert problem.raw(three)[1]["CAR"] == {"alternative": "CAR", "TT": 117, "CO": 65, "HE": 0, "SEATS": 0}
    assert problem.raw(three)[1]["SM"]["SEATS"] == 1
    assert problem.raw(three)[0]["PURPOSE"] == "1"
    assert [int(problem.best_items[t]) for t in (three, two)] == [1, 0]
    assert "1 choice situations in which nothing was chosen were left out" in problem.notes


def test_a_truncated_survey_is_refused(tmp_path: Path) -> None:
    write_surveys(tmp_path)
    with pytest.raises(DataError, match="the file ends after 12 rows, documented are 17232"):
        lim2.problems.load("electricity", "all", 0, data=tmp_path)
    (tmp_path / "electricity.csv").write_text("choice,alt\nTRUE,1\n")
    with pytest.raises(DataError, match="column chid: there is no such column"):
        lim2.problems.load("electricity", "all", 0, data=tmp_path)
