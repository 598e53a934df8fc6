"""Off-policy evaluation from a log of decisions with known propensities."""

from lim2.evaluation.estimators import Estimate
from lim2.evaluation.evaluate import Evaluation, OverlapWarning, evaluate
from lim2.log.table import Table

__all__ = ["Estimate", "Evaluation", "OverlapWarning", "Table", "evaluate"]
