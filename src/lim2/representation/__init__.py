"""Component 1, representation: a network that maps contexts to features."""

from lim2.representation.mlp import MLP
from lim2.representation.optimizers import SGD, Adam, Optimizer, RMSProp
from lim2.representation.protocol import Representation

__all__ = ["MLP", "SGD", "Adam", "Optimizer", "RMSProp", "Representation"]
