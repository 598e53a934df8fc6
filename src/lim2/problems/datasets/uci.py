"""Datasets of the UCI repository whose rows have a class.

Of every loader, `data` is the folder with the files, and `verify=False` takes files that are not the published ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from lim2.problems.cache import Table
from lim2.problems.classification import encoded
from lim2.problems.dataset import Dataset, Rounds, parse_classes
from lim2.problems.draw import Standardize, draw_rows, standardized, stream
from lim2.problems.errors import DataError
from lim2.problems.facts import FACTS, LABEL
from lim2.problems.files import Folder, opened, plain
from lim2.problems.problem import Problem
from lim2.problems.table import Column, Layout, coded, occurring

if TYPE_CHECKING:
    import polars as pl


def _adult_columns() -> list[Column]:
    # Every categorical column has values that no other has, so a reordered file is noticed.
    categories = {
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
    order = (
        "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
        "capital-gain capital-loss hours-per-week native-country"
    )
    return [
        Column(name, "text", values=tuple(categories[name].split()), missing="?", role="category")
        if name in categories
        else Column(name, "int", 0)
        for name in order.split()
    ]


def _parse_adult(paths: Sequence[Path], layout: Layout) -> pl.DataFrame:
    # The labels of adult.test end in a dot, below a line that is no row.
    *columns, label = layout.columns
    dotted = dataclasses.replace(label, values=tuple(f"{value}." for value in label.values or ()))
    test = dataclasses.replace(layout, columns=(*columns, dotted), skip=1)
    return parse_classes(zip(paths, (layout, test), strict=True))


def _parse_epileptic(paths: Sequence[Path], layout: Layout) -> pl.DataFrame:
    # The first column has no name, or the one that some copies give it.
    with opened(paths[0]) as file:
        if file.readline().lstrip(b'"').startswith(b"Unnamed"):
            identifier, *columns = layout.columns
            layout = dataclasses.replace(layout, columns=(dataclasses.replace(identifier, name="Unnamed"), *columns))
    return parse_classes([(paths[0], layout)])


def _scania_features() -> list[str]:
    letters = "abcdefghijklmnopqrstuvxyz"  # Swedish: no w
    histograms = ("ag", "ay", "az", "ba", "cn", "cs", "ee")
    misnamed = {"am_000": "am_0", "ec_000": "ec_00"}
    pairs = [first + second for first in "abcde" for second in letters]
    pairs = pairs[: pairs.index("eg") + 1]
    names = [f"{pair}_{i:03d}" for pair in pairs for i in range(10 if pair in histograms else 1)]
    return [misnamed.get(name, name) for name in names]


def _parse_scania(paths: Sequence[Path], layout: Layout) -> pl.DataFrame:
    # As published, or without the lines before its header.
    with plain(paths[0]) as path:
        skip = _scania_preamble(path, paths[0])
    return parse_classes([(paths[0], dataclasses.replace(layout, skip=skip))])


def _scania_preamble(path: Path, shown: Path) -> int:
    with path.open() as file:
        for number, line in enumerate(file):
            if line.startswith(("class,", '"class",')):
                return number
            if number == 100:
                break
    if path.stat().st_size == 0:
        return 0
    raise DataError(
        shown, "no header that starts with 'class,' in the first 100 lines; download the file again", line=1
    )


def _parse_smartphones(paths: Sequence[Path], layout: Layout) -> pl.DataFrame:
    """Return the table of X_train.txt, y_train.txt, X_test.txt and y_test.txt."""
    import polars as pl

    *features, activity = layout.columns
    contexts = [_numbers(path, len(features)) for path in paths[0::2]]
    labels = [_numbers(path, 1)[:, 0] for path in paths[1::2]]
    for x, y, path in zip(contexts, labels, paths[1::2], strict=True):
        bad = np.flatnonzero(~np.isin(y, np.arange(activity.low, activity.high + 1)))
        if len(bad):
            raise DataError(
                path,
                f"{y[bad[0]]:g} is not one of {activity.low:g} .. {activity.high:g}",
                line=int(bad[0]) + 1,
                column=activity.name,
            )
        if len(x) != len(y):
            raise DataError(
                path,
                f"{len(y)} labels for {len(x)} rows of features; one of the two files is truncated",
                line=min(len(x), len(y)) + 1,
            )
    frame = pl.DataFrame(np.concatenate(contexts), schema=[column.name for column in features])
    return frame.with_columns(pl.Series(LABEL, np.concatenate(labels) - activity.low).cast(pl.UInt8))


def _numbers(path: Path, columns: int) -> NDArray[np.float64]:
    """Return a file of numbers with any number of spaces between them, which polars does not read."""
    with opened(path) as file:
        lines = file.read().decode("ascii", errors="replace").splitlines()
    if not lines:
        raise DataError(path, f"the file is empty; expected {columns} numbers a line", line=1)
    table = np.empty((len(lines), columns))
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if len(fields) != columns:
            raise DataError(path, f"{len(fields)} fields, expected {columns}; the file is damaged", line=number)
        try:
            table[number - 1] = fields
        except ValueError as error:
            raise DataError(path, f"{error}; expected numbers", line=number) from error
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        raise DataError(path, "not a finite number", line=int(bad[0, 0]) + 1, column=int(bad[0, 1]) + 1)
    return table


def _means_and_deviations() -> list[str]:
    axes = (
        "tBodyAcc tGravityAcc tBodyAccJerk tBodyGyro tBodyGyroJerk",
        "fBodyAcc fBodyAccJerk fBodyGyro",
    )
    magnitudes = (
        "tBodyAccMag tGravityAccMag tBodyAccJerkMag tBodyGyroMag tBodyGyroJerkMag",
        "fBodyAccMag fBodyBodyAccJerkMag fBodyBodyGyroMag fBodyBodyGyroJerkMag",
    )
    signals = [
        name
        for signal, magnitude in zip(axes, magnitudes, strict=True)
        for name in [f"{s}{axis}" for s in signal.split() for axis in "XYZ"] + magnitude.split()
    ]
    return [f"{moment}_{signal}" for moment in ("mean", "std") for signal in signals]


CENSUS = (
    "dAge dAncstry1 dAncstry2 iAvail iCitizen iClass dDepart iDisabl1 iDisabl2 iEnglish iFeb55 iFertil "
    "dHispanic dHour89 dHours iImmigr dIncome1 dIncome2 dIncome3 dIncome4 dIncome5 dIncome6 dIncome7 "
    "dIncome8 dIndustry iKorean iLang1 iLooking iMarital iMay75880 iMeans iMilitary iMobility iMobillim "
    "dOccup iOthrserv iPerscare dPOB dPoverty dPwgt1 iRagechld dRearning iRelat1 iRelat2 iRemplpar "
    "iRiders iRlabor iRownchld dRpincome iRPOB iRrelchld iRspouse iRvetserv iSchool iSept80 iSex iSubfam1 "
    "iSubfam2 iTmpabsnt dTravtime iVietnam dWeek89 iWork89 iWorklwk iWWII iYearsch iYearwrk dYrsserv"
)
COVERTYPE = (
    "Elevation Aspect Slope Horizontal_Distance_To_Hydrology Vertical_Distance_To_Hydrology "
    "Horizontal_Distance_To_Roadways Hillshade_9am Hillshade_Noon Hillshade_3pm Horizontal_Distance_To_Fire_Points"
)
# The values that the file's documentation allows, attribute by attribute.
MUSHROOM = {
    "cap-shape": "bcxfks",
    "cap-surface": "fgys",
    "cap-color": "nbcgrpuewy",
    "bruises": "tf",
    "odor": "alcyfmnps",
    "gill-attachment": "adfn",
    "gill-spacing": "cwd",
    "gill-size": "bn",
    "gill-color": "knbhgropuewy",
    "stalk-shape": "et",
    "stalk-root": "bcuezr?",
    "stalk-surface-above-ring": "fyks",
    "stalk-surface-below-ring": "fyks",
    "stalk-color-above-ring": "nbcgopewy",
    "stalk-color-below-ring": "nbcgopewy",
    "veil-type": "pu",
    "veil-color": "nowy",
    "ring-number": "not",
    "ring-type": "ceflnpsz",
    "spore-print-color": "knbhrouwy",
    "population": "acnsvy",
    "habitat": "glmpuwd",
}
ACTIVITIES = ("WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING")
# What Scania's challenge charges: 10 for checking a truck in vain, 500 for missing a faulty one. Rows are classes.
COSTS = np.array([[0.0, -10.0], [-500.0, 0.0]])

DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            "adult",
            "Does a person earn more than 50,000 dollars a year?",
            arms=("<=50K", ">50K"),
            layout=Layout(
                (*_adult_columns(), Column("income", "text", values=("<=50K", ">50K"), role="label")), spaces=True
            ),
            facts=FACTS["adult"],
            parse=_parse_adult,
        ),
        Dataset(
            "census",
            "A person's occupation from 67 answers to the US census of 1990.",
            arms=tuple(f"dOccup {i}" for i in range(9)),
            layout=Layout(
                (
                    Column("caseid", "int", 0, role="unused"),
                    *(
                        Column(name, "int", 0, 8, role="label")
                        if name == "dOccup"
                        else Column(name, "int", 0, 999, role="category")
                        for name in CENSUS.split()
                    ),
                ),
                header=True,
            ),
            facts=FACTS["census"],
        ),
        Dataset(
            "covertype",
            "Which trees grow on a patch of forest, from maps.",
            arms=(
                "Spruce/Fir",
                "Lodgepole Pine",
                "Ponderosa Pine",
                "Cottonwood/Willow",
                "Aspen",
                "Douglas-fir",
                "Krummholz",
            ),
            layout=Layout(
                (
                    *(Column(name, "int", -1_000, 10_000) for name in COVERTYPE.split()),
                    *(Column(f"Wilderness_Area{i}", "int", 0, 1) for i in range(1, 5)),
                    *(Column(f"Soil_Type{i}", "int", 0, 1) for i in range(1, 41)),
                    Column("Cover_Type", "int", 1, 7, role="label"),
                )
            ),
            facts=FACTS["covertype"],
        ),
        Dataset(
            "epileptic",
            "What a brain was doing during one second of an EEG.",
            arms=("seizure", "tumour area", "healthy area", "eyes closed", "eyes open"),
            layout=Layout(
                (
                    Column("", "text", role="unused"),
                    *(Column(f"X{i}", "int", -10_000, 10_000) for i in range(1, 179)),
                    Column("y", "int", 1, 5, role="label"),
                ),
                header=True,
            ),
            facts=FACTS["epileptic"],
            parse=_parse_epileptic,
        ),
        Dataset(
            "mushroom",
            "Eat it or not; a poisonous one may or may not harm.",
            arms=("leave", "eat"),
            layout=Layout(
                (
                    Column("class", "text", values=("e", "p"), role="label"),
                    *(Column(name, "text", values=tuple(v), role="category") for name, v in MUSHROOM.items()),
                )
            ),
            facts=FACTS["mushroom"],
        ),
        Dataset(
            "scania",
            "Is a truck's failure that of the air pressure system?",
            arms=("neg", "pos"),
            layout=Layout(
                (
                    Column("class", "text", values=("neg", "pos"), role="label"),
                    *(Column(name, "float", missing="na") for name in _scania_features()),
                ),
                header=True,
            ),
            facts=FACTS["scania"],
            parse=_parse_scania,
        ),
        Dataset(
            "smartphones",
            "What a person is doing, from a phone's motion sensors.",
            arms=ACTIVITIES,
            layout=Layout(
                (
                    *(Column(f"feature {i}") for i in range(1, 562)),
                    Column("activity", "int", 1, len(ACTIVITIES), role="label"),
                )
            ),
            facts=FACTS["smartphones"],
            parse=_parse_smartphones,
        ),
        Dataset(
            "smartphones-66",
            "Smartphones with 66 of its 561 features.",
            arms=ACTIVITIES,
            layout=Layout(
                (
                    Column("subject", "int", 1, 30, role="unused"),
                    Column("activity", "text", values=ACTIVITIES, role="label"),
                    *(Column(name, "float", -1, 1) for name in _means_and_deviations()),
                ),
                header=True,
            ),
            facts=FACTS["smartphones-66"],
        ),
        Dataset(
            "statlog",
            "The state of a space shuttle's radiator from nine sensors.",
            arms=("Rad Flow", "Fpv Close", "Fpv Open", "High", "Bypass", "Bpv Close", "Bpv Open"),
            layout=Layout(
                (
                    *(Column(f"sensor {i}", "int") for i in range(1, 10)),
                    Column("class", "int", 1, 7, role="label"),
                ),
                separator=" ",
            ),
            facts=FACTS["statlog"],
        ),
    )
}
for _name in ("census", "covertype", "epileptic", "smartphones", "smartphones-66"):
    DATASETS[_name].register(DATASETS[_name].load, module=__name__)


@DATASETS["adult"].register
def adult(
    rounds: Rounds,
    seed: int,
    occupation: bool = False,
    incomplete: Literal["drop", "keep"] = "drop",
    standardize: Standardize = "sample",
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Adult.

    Without the `occupation` the number of features is the paper's. A row with a missing value is left out, or kept
    with zeros in that attribute (`incomplete="keep"`).
    """
    if incomplete not in ("drop", "keep"):
        raise ValueError(f"incomplete must be 'drop' or 'keep', not {incomplete!r}")
    table = DATASETS["adult"].table(data, verify)
    frame, notes = table.take(), table.notes
    if incomplete == "drop":
        frame = frame.drop_nulls()
        notes = (*notes, f"{table.height - frame.height} rows with a missing value were dropped")
        # A value that only occurred in dropped rows gets no column.
        for column in DATASETS["adult"].layout.columns:
            if column.role == "category":
                frame = coded(frame, column.name, occurring(frame, column.name))
    if not occupation:
        frame = frame.drop("occupation")
    return DATASETS["adult"].draw(
        Table.of(frame, table.paths, notes),
        rounds,
        seed,
        standardize=standardize,
        replace=replace,
        occupation=occupation,
        incomplete=incomplete,
    )


@DATASETS["mushroom"].register
def mushroom(
    rounds: Rounds,
    seed: int,
    safe: float = 5.0,
    lucky: float = 5.0,
    harm: float = -35.0,
    harm_probability: float = 0.5,
    standardize: Standardize = None,
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Mushroom. Arm 0 leaves the mushroom, arm 1 eats it.

    Eating an edible one pays `safe`; a poisonous one pays `lucky`, or `harm` with the probability `harm_probability`.
    """
    table = DATASETS["mushroom"].table(data, verify)
    rows = draw_rows(table.height, rounds, seed, replace=replace, name="mushroom")
    drawn = table.take(rows)
    poisonous = drawn[LABEL].to_numpy() == 1
    harmed = stream(seed, "harm").random(len(rows)) < harm_probability
    contexts, feature_names = encoded(drawn.drop(LABEL))
    rewards, expected = np.zeros((2, len(rows), 2))
    rewards[:, 1] = np.where(poisonous, np.where(harmed, harm, lucky), safe)
    expected[:, 1] = np.where(poisonous, harm_probability * harm + (1 - harm_probability) * lucky, safe)
    return Problem(
        "mushroom",
        standardized(contexts, standardize),
        rewards,
        expected,
        seed=seed,
        arm_names=DATASETS["mushroom"].arms,
        feature_names=feature_names,
        settings={
            "safe": safe,
            "lucky": lucky,
            "harm": harm,
            "harm_probability": harm_probability,
            "standardize": standardize,
            "replace": replace,
        },
        notes=table.notes,
    )


@DATASETS["scania"].register
def scania(
    rounds: Rounds,
    seed: int,
    rewards: Literal["right", "costs"] = "right",
    missing: Literal["mean", "zero"] = "mean",
    standardize: Standardize = "sample",
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Scania Trucks.

    The reward is 1 for the right class, or the challenge's (`"costs"`). A missing value is the `"mean"` of its column,
    over the same rows as are used to standardise, or `"zero"`.
    """
    import polars as pl

    if rewards not in ("right", "costs") or missing not in ("mean", "zero"):
        raise ValueError(
            f"rewards must be 'right' or 'costs' and missing 'mean' or 'zero', not {rewards!r} and {missing!r}"
        )
    table = DATASETS["scania"].table(data, verify)
    if missing == "zero":
        table = dataclasses.replace(table, codes=table.codes.with_columns(pl.col(pl.Float64).fill_null(0.0)))
    return DATASETS["scania"].draw(
        table,
        rounds,
        seed,
        standardize=standardize,
        replace=replace,
        payoffs=COSTS if rewards == "costs" else None,
        rewards=rewards,
        missing=missing,
    )


@DATASETS["statlog"].register
def statlog(
    rounds: Rounds,
    seed: int,
    split: Literal["train", "test"] = "train",
    standardize: Standardize = "sample",
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> Problem:
    """Draw Statlog: shuttle.trn, as in the paper, or shuttle.tst (`split="test"`)."""
    files = FACTS["statlog"].splits
    if split not in files:
        raise ValueError(f"split must be 'train' or 'test', not {split!r}")
    table = DATASETS["statlog"].table(data, verify, files=(files[split],))
    return DATASETS["statlog"].draw(table, rounds, seed, standardize=standardize, replace=replace, split=split)
