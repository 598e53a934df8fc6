"""Four surveys of choices: electricity contracts, cars, and ways to travel in Canada and in Switzerland."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lim2.problems.cache import Parser, parsed
from lim2.problems.choices import choice_problem, wide_to_long
from lim2.problems.facts import Facts, Rows
from lim2.problems.files import Folder, find
from lim2.problems.item_problem import ItemProblem
from lim2.problems.labelled import check_columns
from lim2.problems.own import MARKS, read_table
from lim2.problems.registry import register
from lim2.problems.table import compact

if TYPE_CHECKING:
    import polars as pl

Rounds = int | Literal["all"]


@dataclass(frozen=True)
class Survey:
    """Roles of the columns of a table in long format.

    Parameters
    ----------
    situation, alternative, chosen
        The same as for `lim2.problems.from_choices`.
    context, item, categorical
        Likewise.
    """

    situation: str
    alternative: str
    chosen: str
    context: Sequence[str]
    item: Sequence[str]
    categorical: Sequence[str] = ()

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        return list(dict.fromkeys([self.situation, self.alternative, self.chosen, *self.context, *self.item]))


ELECTRICITY = Survey("chid", "alt", "choice", (), ("pf", "cl", "loc", "wk", "tod", "seas"))
MODE_CANADA = Survey("case", "alt", "choice", ("dist", "income", "urban"), ("alt", "cost", "ivt", "ovt", "freq"))
CAR = Survey(
    "situation", "alternative", "chosen", ("college", "hsg2", "coml5"),
    ("type", "fuel", "price", "range", "acc", "speed", "pollution", "size", "space", "cost", "station"),
)  # fmt: skip
SWISSMETRO = Survey(
    "situation", "alternative", "chosen",
    ("SURVEY", "PURPOSE", "FIRST", "TICKET", "WHO", "LUGGAGE", "AGE", "MALE", "INCOME", "GA"),
    ("alternative", "TT", "CO", "HE", "SEATS"),
    categorical=("PURPOSE", "TICKET", "WHO"),
)  # fmt: skip
TRAVEL: Mapping[str, int] = {"TRAIN": 1, "SM": 2, "CAR": 3}


def _facts(title: str, file: str, sizes: tuple[int, int, int], rows: int, rounds: int, text: str, **more: Any) -> Facts:
    d, items, most = sizes
    return Facts(
        title=title,
        files=(file,),
        n_features=d,
        n_arms=most,
        n_item_features=items,
        paper_features="",
        published=Rows(rows),
        n_rounds=rounds,
        preprocessing=text,
        **more,
    )


def parse_electricity(paths: list[Path]) -> pl.DataFrame:
    """Return the table, which is in long format."""
    return _long(paths[0], ELECTRICITY)


def parse_mode_canada(paths: list[Path]) -> pl.DataFrame:
    """Return the table, which is in long format."""
    return _long(paths[0], MODE_CANADA)


def parse_car(paths: list[Path]) -> pl.DataFrame:
    """Return the table in long format: one row per car of each survey sheet."""
    frame = read_table(paths[0], ",", MARKS)
    wanted = [f"{column}{number}" for column in CAR.item for number in range(1, 7)]
    check_columns(paths[0], frame, ["choice", *CAR.context, *wanted])
    alternatives = {str(number): f"choice{number}" for number in range(1, 7)}
    long = wide_to_long(frame, chosen="choice", alternatives=alternatives, item=CAR.item)
    return compact(long.select(CAR.columns))


def parse_swissmetro(paths: list[Path]) -> pl.DataFrame:
    """Return the table in long format: one row per way to travel that was available.

    What a way to travel does not have (a car has no headway) is 0.
    """
    import polars as pl

    frame = read_table(paths[0], "\t" if ".dat" in paths[0].suffixes else ",", MARKS)
    flags = [f"{way}_AV" for way in TRAVEL]
    check_columns(paths[0], frame, ["CHOICE", *SWISSMETRO.context, *flags, *(f"{way}_TT" for way in TRAVEL)])
    long = wide_to_long(
        frame,
        chosen="CHOICE",
        alternatives=TRAVEL,
        item=("TT", "CO", "HE", "SEATS"),
        pattern="{alternative}_{item}",
        available="AV",
    )
    return compact(long.with_columns(pl.col("CO", "HE", "SEATS").fill_null(0)).select(SWISSMETRO.columns))


def _long(path: Path, survey: Survey) -> pl.DataFrame:
    frame = read_table(path, ",", MARKS)
    check_columns(path, frame, survey.columns)
    return compact(frame.select(survey.columns))


def _problem(
    name: str,
    facts: Facts,
    parse: Parser,
    survey: Survey,
    rounds: Rounds,
    seed: int,
    *,
    replace: bool,
    data: Folder,
    verify: bool,
) -> ItemProblem:
    there = [files for files in (facts.files, *facts.alternatives) if all(find(file, data) for file in files)]
    files = there[0] if there else None
    table = parsed(name, facts, parse, data=data, verify=verify, files=files)
    return choice_problem(
        name,
        table.take(),
        table.paths[0],
        situation=survey.situation,
        alternative=survey.alternative,
        chosen=survey.chosen,
        context=survey.context,
        item=survey.item,
        categorical=survey.categorical,
        rounds=rounds,
        seed=seed,
        replace=replace,
        notes=table.notes,
    )


ELECTRICITY_FACTS = _facts(
    "Electricity",
    "electricity.csv",
    sizes=(1, 6, 4),
    rows=17_232,
    rounds=4_308,
    text="long format; the contracts' numbers mean nothing and are left out. Nothing is known of the households: the "
    "context is a constant",
)


@register(
    "electricity",
    summary="Which of four electricity contracts a household chose.",
    facts=ELECTRICITY_FACTS,
    parse=parse_electricity,
)
def electricity(
    rounds: Rounds, seed: int, replace: bool = False, data: Folder = None, verify: bool = True
) -> ItemProblem:
    """Draw the choices of electricity contracts.

    Parameters
    ----------
    rounds
        Number of choice situations to draw.
    seed
        The same seed gives the same arrays.
    replace
        Whether a situation may come again.
    data
        The folder with the file; None for `LIM2_DATA`, then the user's cache.
    verify
        Whether a file that is not a known one is an error.
    """
    return _problem(
        "electricity",
        ELECTRICITY_FACTS,
        parse_electricity,
        ELECTRICITY,
        rounds,
        seed,
        replace=replace,
        data=data,
        verify=verify,
    )


CAR_FACTS = _facts(
    "Car",
    "car.csv",
    sizes=(3, 19, 6),
    rows=27_924,
    rounds=4_654,
    text="wide format, made long; type and fuel of a car one-hot",
)


@register("car", summary="Which of six cars a household chose.", facts=CAR_FACTS, parse=parse_car)
def car(rounds: Rounds, seed: int, replace: bool = False, data: Folder = None, verify: bool = True) -> ItemProblem:
    """Draw the choices of cars.

    Parameters
    ----------
    rounds
        Number of choice situations to draw.
    seed
        The same seed gives the same arrays.
    replace
        Whether a situation may come again.
    data
        The folder with the file; None for `LIM2_DATA`, then the user's cache.
    verify
        Whether a file that is not a known one is an error.
    """
    return _problem("car", CAR_FACTS, parse_car, CAR, rounds, seed, replace=replace, data=data, verify=verify)


MODE_CANADA_FACTS = _facts(
    "ModeCanada",
    "ModeCanada.csv",
    sizes=(3, 8, 4),
    rows=15_520,
    rounds=4_324,
    text="long format; 2 to 4 alternatives: train, air, bus, car (one-hot)",
)


@register(
    "mode-canada",
    summary="How travellers between Montreal and Toronto went.",
    facts=MODE_CANADA_FACTS,
    parse=parse_mode_canada,
)
def mode_canada(
    rounds: Rounds, seed: int, replace: bool = False, data: Folder = None, verify: bool = True
) -> ItemProblem:
    """Draw the choices of ways to travel in Canada.

    Parameters
    ----------
    rounds
        Number of choice situations to draw.
    seed
        The same seed gives the same arrays.
    replace
        Whether a situation may come again.
    data
        The folder with the file; None for `LIM2_DATA`, then the user's cache.
    verify
        Whether a file that is not a known one is an error.
    """
    return _problem(
        "mode-canada",
        MODE_CANADA_FACTS,
        parse_mode_canada,
        MODE_CANADA,
        rounds,
        seed,
        replace=replace,
        data=data,
        verify=verify,
    )


SWISSMETRO_FACTS = _facts(
    "Swissmetro",
    "swissmetro.csv",
    sizes=(29, 7, 3),
    rows=30_501,
    rounds=10_719,
    text="wide format, made long; 2 or 3 alternatives, those that were available; purpose, ticket and payer one-hot; "
    "origin and destination are left out; a car's headway and seats are 0; 9 situations without a choice are left out",
    alternatives=(("swissmetro.dat",),),
)


@register(
    "swissmetro",
    summary="How travellers in Switzerland would go: by train, Swissmetro or car.",
    facts=SWISSMETRO_FACTS,
    parse=parse_swissmetro,
)
def swissmetro(
    rounds: Rounds, seed: int, replace: bool = False, data: Folder = None, verify: bool = True
) -> ItemProblem:
    """Draw the choices of ways to travel in Switzerland.

    Parameters
    ----------
    rounds
        Number of choice situations to draw.
    seed
        The same seed gives the same arrays.
    replace
        Whether a situation may come again.
    data
        The folder with the file; None for `LIM2_DATA`, then the user's cache.
    verify
        Whether a file that is not a known one is an error.
    """
    return _problem(
        "swissmetro",
        SWISSMETRO_FACTS,
        parse_swissmetro,
        SWISSMETRO,
        rounds,
        seed,
        replace=replace,
        data=data,
        verify=verify,
    )
