"""Bandit problems: datasets and synthetic environments with one interface."""

from lim2.problems.choices import from_choices, wide_to_long
from lim2.problems.errors import DataError, FetchError, MissingDataError
from lim2.problems.item_problem import ItemProblem, from_items
from lim2.problems.openml import from_openml
from lim2.problems.problem import Problem
from lim2.problems.registry import load, register, unregister
from lim2.problems.registry import names as list  # noqa: A004  # the public name; no type is meant here
from lim2.problems.user_data import from_arrays, from_csv, from_rewards

__all__ = [
    "DataError",
    "FetchError",
    "ItemProblem",
    "MissingDataError",
    "Problem",
    "from_arrays",
    "from_choices",
    "from_csv",
    "from_items",
    "from_openml",
    "from_rewards",
    "list",
    "load",
    "register",
    "unregister",
    "wide_to_long",
]
