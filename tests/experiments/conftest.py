"""The fixtures of these tests."""

from experiments.helpers import outside as outside
