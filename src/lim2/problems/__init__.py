"""Datasets and synthetic environments: one file each, one interface."""

from lim2.problems.problem import Problem
from lim2.problems.registry import load, register, unregister
from lim2.problems.registry import names as list  # noqa: A004  # the public name; nothing in this file needs the type

__all__ = ["Problem", "list", "load", "register", "unregister"]
