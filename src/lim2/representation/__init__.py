"""Component 1, representation: a network that maps contexts to features.

``Torch`` and ``TextCNN`` need PyTorch, and import it when they are asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

from lim2.extras import needs
from lim2.representation.intercept import Intercept
from lim2.representation.mlp import MLP
from lim2.representation.optimizers import SGD, Adam, Optimizer, RMSProp
from lim2.representation.protocol import ContextReader, Observer, Representation, Step
from lim2.representation.standardized import Standardized

if TYPE_CHECKING:
    from lim2.representation.text import TextCNN as TextCNN
    from lim2.representation.torch import Torch as Torch

__all__ = [
    "MLP", "SGD", "Adam", "ContextReader", "Intercept", "Observer", "Optimizer", "RMSProp", "Representation",
    "Standardized", "Step",
]  # fmt: skip

_NEED_TORCH = {"Torch": "lim2.representation.torch", "TextCNN": "lim2.representation.text"}


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs(name, "torch"):
        return getattr(importlib.import_module(_NEED_TORCH[name]), name)
