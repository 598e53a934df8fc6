"""MovieLens 100K: recommend one of ten films that a user has rated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from lim2.problems.cache import parsed
from lim2.problems.classification import encoded
from lim2.problems.draw import draw_rows, standardized, stream
from lim2.problems.errors import DataError
from lim2.problems.facts import FACTS
from lim2.problems.files import Folder, opened, plain
from lim2.problems.item_problem import ItemProblem
from lim2.problems.registry import register
from lim2.problems.table import Column, Layout, coded, compact, occurring, read

if TYPE_CHECKING:
    import polars as pl

GENRES = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
    "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip
RATINGS = Layout(
    (Column("user", "int", 1), Column("film", "int", 1), Column("rating", "int", 1, 5), Column("at", "int", 0)),
    separator="\t",
)
USERS = Layout(
    (
        Column("user", "int", 1),
        Column("age", "int", 0, 150),
        Column("gender", "text", values=("F", "M")),
        Column("occupation", "text"),
        Column("zip", "text"),
    ),
    separator="|",
)
FILM_FIELDS = 5 + len(GENRES)  # number, title, date of release, date of the video, page; then a flag per genre


def parse(paths: Sequence[Path]) -> pl.DataFrame:
    """Return the ratings, each with what is known of its user and its film."""
    import polars as pl

    with plain(paths[0]) as data, plain(paths[2]) as user:
        ratings = read(data, RATINGS, shown=paths[0]).drop("at")
        users = read(user, USERS, shown=paths[2]).drop("zip")
    films = pl.DataFrame(list(_films(paths[1])), schema=["film", "year", *GENRES], orient="row")
    for key, frame, path in (("user", users, paths[2]), ("film", films, paths[1])):
        if frame[key].n_unique() < frame.height:
            raise DataError(path, f"a {key} occurs twice; the file is damaged", column=key)
        unknown = ratings.join(frame, on=key, how="anti")
        if unknown.height:
            raise DataError(path, f"{key} {unknown[key][0]} has ratings, but is not in this file; is it whole?")
        ratings = ratings.join(frame, on=key, how="left", maintain_order="left")
    for column in ("gender", "occupation"):
        ratings = coded(ratings, column, occurring(users, column))
    return compact(ratings)


def _films(path: Path) -> Iterator[list[int | None]]:
    """Go through the films: number, year, genres. Titles are Latin-1, and may hold quotation marks."""
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            fields = line.decode("latin-1").rstrip("\r\n").split("|")
            if fields == [""]:
                continue
            flags = fields[5:]
            if len(fields) != FILM_FIELDS or not fields[0].isdigit() or not set(flags) <= {"0", "1"}:
                raise DataError(
                    path,
                    f"expected {FILM_FIELDS} fields separated by |, a number first, 0 or 1 in the last {len(GENRES)}; "
                    "the file is truncated or damaged here",
                    line=number,
                )
            year = re.search(r"\d{4}$", fields[2])
            yield [int(fields[0]), int(year[0]) if year else None, *map(int, flags)]


@register(
    "movielens", summary="Recommend one of ten films that a user has rated.", facts=FACTS["movielens"], parse=parse
)
def movielens(
    rounds: int | Literal["all"],
    seed: int,
    films: int = 10,
    reward: Literal["liked", "rating"] = "liked",
    replace: bool = False,
    data: Folder = None,
    verify: bool = True,
) -> ItemProblem:
    """Draw MovieLens 100K.

    The ratings of each user are shuffled and dealt in hands of `films`; a round is a hand. So every rating is played at
    most once, and an agent is never asked twice for what it has seen. Users who rated fewer films are left out. The
    reward is `"liked"`, 1 for a rating of 4 or 5, else 0, or the `"rating"` from 1 to 5.
    """
    if films < 1 or reward not in ("liked", "rating"):
        raise ValueError(f"films must be at least 1 and reward 'liked' or 'rating', not {films} and {reward!r}")
    table = parsed("movielens", FACTS["movielens"], parse, data=data, verify=verify)
    frame = table.take()
    hands = _hands(frame["user"].to_numpy().astype(np.int64), films, seed)
    drawn = hands[draw_rows(len(hands), rounds, seed, replace=replace, name="movielens")]
    played = frame[drawn.ravel()]
    contexts, feature_names = encoded(frame.select("age", "gender", "occupation")[drawn[:, 0]])
    years = standardized(frame.select("year").to_numpy(), None)[drawn.ravel()]
    ratings = played["rating"].to_numpy().astype(np.float64)
    items, item_feature_names = encoded(played.select(GENRES))
    raw_users, raw_films = _dictionaries(frame)
    film_numbers = played["film"].to_list()
    missing = played["year"].null_count()
    notes = (f"{missing} candidates without a year of release were given the mean",) if missing else ()
    return ItemProblem(
        "movielens",
        contexts,
        np.hstack([years, items]),
        np.arange(len(drawn) + 1) * films,
        (ratings >= 4).astype(np.float64) if reward == "liked" else ratings,
        seed=seed,
        item_names=tuple(map(str, film_numbers)),
        feature_names=feature_names,
        item_feature_names=("year", *item_feature_names),
        raw_contexts=tuple(raw_users[user] for user in frame["user"][drawn[:, 0]].to_list()),
        raw_items=tuple(raw_films[film] for film in film_numbers),
        settings={"films": films, "reward": reward, "replace": replace},
        notes=(*table.notes, *notes),
    )


def _hands(users: NDArray[np.int64], size: int, seed: int) -> NDArray[np.int64]:
    """Return the rows of each user's ratings, shuffled and dealt in hands, (hands, size)."""
    shuffled = stream(seed, "films").permutation(len(users))
    rows = shuffled[np.argsort(users[shuffled], kind="stable")]
    _, starts, counts = np.unique(users[rows], return_index=True, return_counts=True)
    if (counts < size).all():
        raise ValueError(f"no user has rated {size} films; ask for fewer films a round")
    return np.concatenate(
        [
            rows[start : start + count // size * size].reshape(-1, size)
            for start, count in zip(starts.tolist(), counts.tolist(), strict=True)
        ]
    )


def _dictionaries(frame: pl.DataFrame) -> tuple[dict[int, dict[str, Any]], dict[int, dict[str, Any]]]:
    """Return the users and the films as dictionaries, by their numbers."""
    users = frame.select("user", "age", "gender", "occupation").unique("user")
    films = frame.select("film", "year", *GENRES).unique("film")
    return (
        {row.pop("user"): row for row in users.to_dicts()},
        {
            row["film"]: {"year": row["year"], "genres": [genre for genre in GENRES if row[genre]]}
            for row in films.to_dicts()
        },
    )
