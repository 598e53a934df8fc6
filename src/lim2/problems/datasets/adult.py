"""Adult: whether a person earns more than 50,000 dollars a year."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lim2.problems.cache import Table, parsed
from lim2.problems.classification import classification
from lim2.problems.draw import Standardize
from lim2.problems.facts import LABEL, Facts, Rows
from lim2.problems.files import Folder, plain
from lim2.problems.problem import Problem
from lim2.problems.registry import register
from lim2.problems.table import Column, Layout, coded, compact, occurring, read

if TYPE_CHECKING:
    import polars as pl

ARMS = ("<=50K", ">50K")
# Every categorical column has values that no other has, so a reordered file is noticed.
CATEGORIES = {
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    "education": "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th "
    "Masters 1st-4th 10th Doctorate 5th-6th Preschool",
    "marital-status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
    "Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty "
    "Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv "
    "Protective-serv Armed-Forces",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native-country": "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) "
    "India Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico "
    "Portugal Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala "
    "Nicaragua Scotland Thailand Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
}
_ORDER = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
    "capital-gain capital-loss hours-per-week native-country income"
)
ORDER = _ORDER.split()
FACTS = Facts(
    title="Adult",
    files=("adult.data", "adult.test"),
    n_features=90,
    n_arms=2,
    paper_features="88",
    published=Rows(48_842, (37_155, 11_687)),
    preprocessing="both files; 3,620 rows with a missing value are dropped, which leaves 45,222 "
    "(34,014 / 11,208); "
    "one-hot over the values that occur in those; the label is the income, and the occupation is left out",
    difference="the paper's 88 is what these columns give when only the values within 5,000 drawn rows "
    "are encoded "
    "(87 to 89, by the draw); with `occupation=True` it is 104",
)


def layout(*, test: bool) -> Layout:
    """Return the layout of adult.data, or of adult.test, whose labels end in a dot below a line of its own.

    Parameters
    ----------
    test
        Whether it is adult.test.
    """
    labels = tuple(f"{arm}." for arm in ARMS) if test else ARMS
    columns = []
    for name in ORDER:
        if name == "income":
            columns.append(Column(name, "text", values=labels))
        elif name in CATEGORIES:
            columns.append(Column(name, "text", values=tuple(CATEGORIES[name].split()), missing="?"))
        else:
            columns.append(Column(name, "int", 0))
    return Layout(tuple(columns), skip=int(test), spaces=True)


def parse(paths: list[Path]) -> pl.DataFrame:
    """Return the table of both files.

    Parameters
    ----------
    paths
        adult.data and adult.test.
    """
    import polars as pl

    frames = []
    for path, test in zip(paths, (False, True), strict=True):
        with plain(path) as copy:
            frames.append(read(copy, layout(test=test), shown=path))
    frame = pl.concat(frames)
    for name in CATEGORIES:
        frame = coded(frame, name, occurring(frame, name))
    label = pl.col("income").str.starts_with(">").cast(pl.UInt8).alias(LABEL)
    return compact(frame.with_columns(label).drop("income"))


@register("adult", summary="Does a person earn more than 50,000 dollars a year?", facts=FACTS, parse=parse)
def adult(
    rounds: int | Literal["all"],
    seed: int,
    occupation: bool = False,
    incomplete: Literal["drop", "keep"] = "drop",
    standardize: Standardize = "sample",
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Adult.

    Parameters
    ----------
    rounds
        Number of rows to draw.
    seed
        The same seed gives the same arrays.
    occupation
        Whether the occupation is among the features. Without it the number of features is the paper's.
    incomplete
        Treatment of rows with a missing value: `"drop"` them, or `"keep"` them with zeros in that attribute.
    standardize
        `"sample"` (as in the paper), `"online"` or None.
    replace
        Whether a row may come again.
    data
        The folder with the file; None for `LIM2_DATA`, then the user's cache.
    verify
        Whether a file that is not a known one is an error.
    """
    import polars as pl

    if incomplete not in ("drop", "keep"):
        raise ValueError(f"incomplete must be 'drop' or 'keep', not {incomplete!r}")
    table = parsed("adult", FACTS, parse, data=data, verify=verify)
    frame, notes = table.take(), table.notes
    if incomplete == "drop":
        frame = frame.drop_nulls()
        notes = (*notes, f"{table.height - frame.height} rows with a missing value were dropped")
        # A value that only occurred in dropped rows gets no column.
        for name in CATEGORIES:
            frame = coded(frame, name, occurring(frame, name))
    if not occupation:
        frame = frame.drop("occupation")
    frame = frame.select(pl.exclude(LABEL), LABEL)
    return classification(
        "adult",
        Table.of(frame, table.paths, notes),
        ARMS,
        rounds,
        seed,
        standardize=standardize,
        replace=replace,
        settings={"occupation": occupation, "incomplete": incomplete},
    )
