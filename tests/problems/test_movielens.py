from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lim2.problems
from lim2.problems import DataError, ItemProblem, MissingDataError

GENRES = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
    "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip
USERS = 4
FILMS = 30


def rating(user: int, film: int) -> int:
    return 1 + (7 * user + 3 * film) % 5


def write(folder: Path) -> None:
    (folder / "u.data").write_text(
        "".join(
            f"{user}\t{film}\t{rating(user, film)}\t881250949\n"
            for user in range(1, USERS + 1)
            for film in range(1, FILMS + 1)
            if film <= 10 * user - 5  # 5, 15, 25 and 30 films
        )
    )
    jobs = ("writer", "student", "writer", "none")
    lines = [f"{n}|{20 + n}|{'MF'[n % 2]}|{job}|85711\n" for n, job in enumerate(jobs, 1)]
    (folder / "u.user").write_text("".join(lines))
    films = []
    for film in range(1, FILMS + 1):
        flags = "|".join("1" if i in (film % 19, 3) else "0" for i in range(19))
        date = "" if film == 2 else f"01-Jan-{1960 + film}"
        films.append(f'{film}|"Délicatessen" | {film}'.replace(" | ", " ") + f"|{date}||http://x/{film}|{flags}\n")
    (folder / "u.item").write_bytes("".join(films).encode("latin-1"))


def small(folder: Path, rounds: Any = "all", seed: int = 0, **settings: Any) -> ItemProblem:
    write(folder)
    return lim2.problems.load("movielens", rounds, seed, data=folder, verify=False, **settings)


def test_a_round_is_a_user_and_films_that_were_rated(tmp_path: Path) -> None:
    problem = small(tmp_path)
    assert problem.rounds == 0 + 1 + 2 + 3  # hands of ten
    assert (problem.n_item_features, set(problem.n_candidates.tolist())) == (20, {10})
    assert problem.feature_names == (
        "age", "gender=F", "gender=M", "occupation=none", "occupation=student", "occupation=writer",
    )  # fmt: skip
    assert problem.item_feature_names == ("year", *GENRES)
    dealt = set()
    for t in range(problem.rounds):
        user, films = problem.raw(t)
        number = user["age"] - 20
        assert problem.contexts[t, 0] == user["age"]
        dealt |= {(number, name) for name in films}
        liked = [float(rating(number, int(name)) >= 4) for name in films]
        assert problem.rewards[problem.rows(t)].tolist() == liked
        for row, item in zip(problem.items(t), films.values(), strict=True):
            assert [GENRES[i] for i in np.flatnonzero(row[1:])] == item["genres"]
            assert item["year"] in (None, row[0])
    assert len(dealt) == 60, "a rating was played twice"


def test_ratings_as_rewards_and_other_hands(tmp_path: Path) -> None:
    problem = small(tmp_path, films=3, reward="rating")
    assert problem.rounds == 1 + 5 + 8 + 10
    assert set(problem.rewards) == {1.0, 2.0, 3.0, 4.0, 5.0}
    for settings in ({"films": 0}, {"reward": "stars"}):
        with pytest.raises(ValueError, match="films must be at least 1 and reward"):
            small(tmp_path, **settings)
    with pytest.raises(ValueError, match="no user has rated 31 films"):
        small(tmp_path, films=31)


def test_the_seed_decides(tmp_path: Path) -> None:
    first, again, other = (small(tmp_path, 5, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.candidates, again.candidates)
    assert not np.array_equal(first.candidates, other.candidates)
    assert any("is not a known file" in note for note in first.notes)
    assert small(tmp_path, 9, 1, replace=True).rounds == 9


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("u.data", ("1\t1\t", "1\t99\t"), "u.item: film 99 has ratings, but is not in this file"),
        ("u.data", ("\t881250949\n", "\n"), "u.data, line 1"),
        ("u.user", ("2|22", "3|22"), "u.user, column user: a user occurs twice"),
        ("u.user", ("|M|", "|X|"), "u.user, line 2, column gender: 'X' is not one of F, M"),
        ("u.item", ("|http://x/7|", "|"), "u.item, line 7: expected 24 fields"),
    ],
)
def test_damaged_files(file: str, change: tuple[str, str], message: str, tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / file
    path.write_bytes(path.read_bytes().decode("latin-1").replace(*change).encode("latin-1"))
    with pytest.raises(DataError, match=message):
        lim2.problems.load("movielens", "all", 0, data=tmp_path, verify=False)


def test_a_part_of_the_ratings_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(DataError, match="documented are 100000"):
        lim2.problems.load("movielens", "all", 0, data=tmp_path)
    (tmp_path / "u.item").unlink()
    with pytest.raises(MissingDataError, match=r"movielens needs u\.item"):
        lim2.problems.load("movielens", "all", 0, data=tmp_path)
