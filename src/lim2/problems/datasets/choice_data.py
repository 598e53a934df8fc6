"""Four surveys of choices: electricity contracts, cars, and ways to travel in Canada and in Switzerland."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lim2.problems.cache import parsed
from lim2.problems.choices import choice_problem, wide_to_long
from lim2.problems.facts import FACTS, Facts
from lim2.problems.files import Folder, find
from lim2.problems.item_problem import ItemProblem
from lim2.problems.labelled import check_columns
from lim2.problems.registry import register
from lim2.problems.table import compact
from lim2.problems.user_data import MARKS, read_table

if TYPE_CHECKING:
    import polars as pl


def parse_long(path: Path, survey: Survey) -> pl.DataFrame:
    """Return a table that is in long format."""
    frame = read_table(path, ",", MARKS)
    check_columns(path, frame, survey.columns)
    return frame


def parse_car(path: Path, survey: Survey) -> pl.DataFrame:
    """Return the table in long format: one row per car of each survey sheet."""
    frame = read_table(path, ",", MARKS)
    wanted = [f"{column}{number}" for column in survey.item for number in range(1, 7)]
    check_columns(path, frame, ["choice", *survey.context, *wanted])
    alternatives = {str(number): f"choice{number}" for number in range(1, 7)}
    return wide_to_long(frame, chosen="choice", alternatives=alternatives, item=survey.item)


def parse_swissmetro(path: Path, survey: Survey) -> pl.DataFrame:
    """Return the table in long format: one row per way to travel that was available.

    What a way to travel does not have (a car has no headway) is 0.
    """
    import polars as pl

    frame = read_table(path, "\t" if ".dat" in path.suffixes else ",", MARKS)
    travel = {"TRAIN": 1, "SM": 2, "CAR": 3}
    wanted = [f"{way}_{column}" for column in ("AV", "TT") for way in travel]
    check_columns(path, frame, ["CHOICE", *survey.context, *wanted])
    long = wide_to_long(
        frame,
        chosen="CHOICE",
        alternatives=travel,
        item=("TT", "CO", "HE", "SEATS"),
        pattern="{alternative}_{item}",
        available="AV",
    )
    return long.with_columns(pl.col("CO", "HE", "SEATS").fill_null(0))


@dataclass(frozen=True)
class Survey:
    """A survey: roles of its columns, as for `lim2.problems.from_choices`, and how its file becomes a long table."""

    name: str
    summary: str
    facts: Facts
    situation: str
    alternative: str
    chosen: str
    context: Sequence[str]
    item: Sequence[str]
    categorical: Sequence[str] = ()
    parse: Callable[[Path, Survey], pl.DataFrame] = parse_long

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        return list(dict.fromkeys([self.situation, self.alternative, self.chosen, *self.context, *self.item]))

    def read(self, paths: Sequence[Path]) -> pl.DataFrame:
        """Return the table in long format, unchecked."""
        return compact(self.parse(paths[0], self).select(self.columns))

    def load(
        self,
        rounds: int | Literal["all"],
        seed: int,
        replace: bool = False,
        data: Folder = None,
        verify: bool = True,
    ) -> ItemProblem:
        """Draw choice situations."""
        sets = (self.facts.files, *self.facts.alternatives)
        files = next((files for files in sets if all(find(file, data) for file in files)), None)
        table = parsed(self.name, self.facts, self.read, data=data, verify=verify, files=files)
        return choice_problem(
            self.name,
            table.take(),
            table.paths[0],
            situation=self.situation,
            alternative=self.alternative,
            chosen=self.chosen,
            context=self.context,
            item=self.item,
            categorical=self.categorical,
            rounds=rounds,
            seed=seed,
            replace=replace,
            notes=table.notes,
        )


SURVEYS = (
    Survey(
        "electricity",
        "Which of four electricity contracts a household chose.",
        FACTS["electricity"],
        "chid", "alt", "choice", (), ("pf", "cl", "loc", "wk", "tod", "seas"),
    ),
    Survey(
        "car",
        "Which of six cars a household chose.",
        FACTS["car"],
        "situation", "alternative", "chosen", ("college", "hsg2", "coml5"),
        ("type", "fuel", "price", "range", "acc", "speed", "pollution", "size", "space", "cost", "station"),
        parse=parse_car,
    ),
    Survey(
        "mode-canada",
        "How travellers between Montreal and Toronto went.",
        FACTS["mode-canada"],
        "case", "alt", "choice", ("dist", "income", "urban"), ("alt", "cost", "ivt", "ovt", "freq"),
    ),
    Survey(
        "swissmetro",
        "How travellers in Switzerland would go: by train, Swissmetro or car.",
        FACTS["swissmetro"],
        "situation", "alternative", "chosen",
        ("SURVEY", "PURPOSE", "FIRST", "TICKET", "WHO", "LUGGAGE", "AGE", "MALE", "INCOME", "GA"),
        ("alternative", "TT", "CO", "HE", "SEATS"),
        categorical=("PURPOSE", "TICKET", "WHO"),
        parse=parse_swissmetro,
    ),
)  # fmt: skip
for _survey in SURVEYS:
    register(_survey.name, summary=_survey.summary, facts=_survey.facts, parse=_survey.read, module=__name__)(
        _survey.load
    )
