"""Census: a person's occupation from 67 answers to the US census of 1990."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lim2.problems.cache import parsed
from lim2.problems.classification import classification
from lim2.problems.draw import Standardize
from lim2.problems.facts import LABEL, Facts, Rows
from lim2.problems.files import Folder, plain
from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.table import Column, Layout, coded, compact, occurring, read

if TYPE_CHECKING:
    import polars as pl

ARMS = tuple(f"dOccup {i}" for i in range(9))
_ANSWERS = (
    "dAge dAncstry1 dAncstry2 iAvail iCitizen iClass dDepart iDisabl1 iDisabl2 iEnglish iFeb55 iFertil "
    "dHispanic dHour89 dHours iImmigr dIncome1 dIncome2 dIncome3 dIncome4 dIncome5 dIncome6 dIncome7 "
    "dIncome8 dIndustry iKorean iLang1 iLooking iMarital iMay75880 iMeans iMilitary iMobility iMobillim "
    "dOccup iOthrserv iPerscare dPOB dPoverty dPwgt1 iRagechld dRearning iRelat1 iRelat2 iRemplpar "
    "iRiders iRlabor iRownchld dRpincome iRPOB iRrelchld iRspouse iRvetserv iSchool iSept80 iSex iSubfam1 "
    "iSubfam2 iTmpabsnt dTravtime iVietnam dWeek89 iWork89 iWorklwk iWWII iYearsch iYearwrk dYrsserv"
)
ANSWERS = _ANSWERS.split()
LAYOUT = Layout(
    (
        Column("caseid", "int", 0),
        *(Column(name, "int", 0, 8 if name == "dOccup" else 999) for name in ANSWERS),
    ),
    header=True,
)
FACTS = Facts(
    title="Census",
    files=("USCensus1990.data.txt",),
    n_features=385,
    n_arms=9,
    paper_features="377",
    features_vary=True,
    published=Rows(2_458_285),
    copies=(Rows(15_317, (6_247, 2_112, 2_737, 1_277, 323, 1_029, 1_525, 38, 29)),),
    preprocessing="caseid is dropped, the label is dOccup; one-hot over the values that occur in the file",
    difference="the paper's 377 is the number of values within its drawn rows; the first 15,317 rows "
    "of the file have 385, all of it may have more",
)


def parse(paths: list[Path]) -> pl.DataFrame:
    """Return the table of the file.

    Parameters
    ----------
    paths
        USCensus1990.data.txt.
    """
    with plain(paths[0]) as path:
        frame = read(path, LAYOUT, shown=paths[0]).drop("caseid")
    for name in ANSWERS:
        if name != "dOccup":
            frame = coded(frame, name, occurring(frame, name))
    return compact(frame.rename({"dOccup": LABEL}))


@register(
    "census",
    summary="A person's occupation from 67 answers to the US census of 1990.",
    facts=FACTS,
    parse=parse,
)
def census(
    rounds: int | Literal["all"],
    seed: int,
    standardize: Standardize = "sample",
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Census.

    Parameters
    ----------
    rounds
        Number of rows to draw.
    seed
        The same seed gives the same arrays.
    standardize
        `"sample"` (as in the paper), `"online"` or None.
    replace
        Whether a row may come again.
    data
        The folder with the file; None for `LIM2_DATA`, then the user's cache.
    verify
        Whether a file that is not a known one is an error.
    """
    table = parsed("census", FACTS, parse, data=data, verify=verify)
    return classification("census", table, ARMS, rounds, seed, standardize=standardize, replace=replace)
