"""Small files in the form of each dataset, made up, so that parsers are tested without the real ones."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lim2.problems.datasets.amazon import AMAZON
from lim2.problems.datasets.financial import FINANCIAL
from lim2.problems.datasets.jester import DENSE
from lim2.problems.datasets.uci import DATASETS
from lim2.problems.table import Column, Layout

ROWS = 40


def _field(column: Column, row: int, rng: np.random.Generator) -> str:
    if column.values is not None:
        return column.values[row % len(column.values)]
    if column.kind == "int":
        low = max(column.low, -50)
        return str(int(low) + (row % (int(min(column.high, low + 100)) - int(low) + 1)))
    if column.kind == "float":
        return repr(float(rng.uniform(max(column.low, -1), min(column.high, 1))))
    return f"word{row % 7}"


def text(layout: Layout, rows: int = ROWS) -> str:
    """Rows that a layout allows; every value of a closed set occurs if there are rows enough."""
    rng = np.random.default_rng(0)
    out = io.StringIO()
    writer = csv.writer(out, delimiter=layout.separator, lineterminator="\n")
    if layout.header:
        writer.writerow(layout.names)
    for row in range(rows):
        writer.writerow([_field(column, row, rng) for column in layout.columns])
    return out.getvalue()


def _statlog(folder: Path) -> None:
    (folder / "shuttle.trn").write_text(text(DATASETS["statlog"].layout))
    (folder / "shuttle.tst").write_text(text(DATASETS["statlog"].layout, 20))


def _financial(folder: Path) -> None:
    (folder / "raw_stock_contexts").write_text(",".join(FINANCIAL.layout.names) + "\n" + text(FINANCIAL.layout))


def _jester(folder: Path) -> None:
    ratings = np.random.default_rng(0).uniform(-10, 10, (ROWS, 40)).round(2)
    np.save(folder / DENSE, ratings)


def _adult(folder: Path) -> None:
    for file, test in (("adult.data", False), ("adult.test", True)):
        rows = text(DATASETS["adult"].layout).replace(",", ", ")
        if test:
            rows = rows.replace("50K\n", "50K.\n")
        (folder / file).write_text(("|1x3 Cross validator\n" if test else "") + rows + "\n")


def _smartphones(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for part, rows in (("train", 24), ("test", 12)):
        place = folder / "UCI HAR Dataset" / part
        place.mkdir(parents=True)
        lines = [" " + "  ".join(f"{x:.7e}" for x in row) for row in rng.uniform(-1, 1, (rows, 561))]
        (place / f"X_{part}.txt").write_text("\n".join(lines) + "\n")
        (place / f"y_{part}.txt").write_text("\n".join(str(1 + i % 6) for i in range(rows)) + "\n")


def _amazon(folder: Path) -> None:
    rows = [["", "Brand", "", str(1 + i % 5), f"It's GREAT, really! phone {i}\nsecond line", ""] for i in range(ROWS)]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([AMAZON.layout.names, *rows])
    (folder / "Amazon_Unlocked_Mobile.csv").write_text(out.getvalue())


def _plain(file: str, layout: Layout) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / file).write_text(text(layout))

    return write


WRITERS: dict[str, Callable[[Path], None]] = {
    "adult": _adult,
    "amazon": _amazon,
    "census": _plain("USCensus1990.data.txt", DATASETS["census"].layout),
    "covertype": _plain("covtype.data", DATASETS["covertype"].layout),
    "epileptic": _plain("data.csv", DATASETS["epileptic"].layout),
    "financial": _financial,
    "jester": _jester,
    "mushroom": _plain("agaricus-lepiota.data", DATASETS["mushroom"].layout),
    "scania": _plain("aps_failure_training_set.csv", DATASETS["scania"].layout),
    "smartphones": _smartphones,
    "smartphones-66": _plain("har_mean_std_66features.csv", DATASETS["smartphones-66"].layout),
    "statlog": _statlog,
}
