"""One file per algorithm: State, init, score, learn. Each reads like its pseudo-code."""

from lim2.algorithms.adaptive_ts import AdaptiveTS
from lim2.algorithms.base import Algorithm
from lim2.algorithms.lim2 import LiM2
from lim2.algorithms.linear_ts import LinearTS
from lim2.algorithms.neural_linear import NeuralLinear
from lim2.algorithms.neural_linear_mm import NeuralLinearMM
from lim2.algorithms.neural_linear_naive import NeuralLinearNaive
from lim2.algorithms.neural_linear_ntk import NeuralLinearNTK
from lim2.algorithms.neural_ts import NeuralTS
from lim2.algorithms.neural_ucb import NeuralUCB
from lim2.algorithms.thompson_sampling import ThompsonSampling
from lim2.algorithms.uniform import Uniform

# In the order of the paper's tables; what is not the paper's comes last.
ALGORITHMS: dict[str, type[Algorithm]] = {
    kind.__name__: kind
    for kind in (
        LinearTS,
        NeuralLinear,
        LiM2,
        NeuralLinearMM,
        NeuralLinearNaive,
        NeuralUCB,
        NeuralTS,
        NeuralLinearNTK,
        AdaptiveTS,
        ThompsonSampling,
        Uniform,
    )
}

__all__ = [
    "ALGORITHMS", "AdaptiveTS", "Algorithm", "LiM2", "LinearTS", "NeuralLinear", "NeuralLinearMM", "NeuralLinearNTK",
    "NeuralLinearNaive", "NeuralTS", "NeuralUCB", "ThompsonSampling", "Uniform",
]  # fmt: skip
