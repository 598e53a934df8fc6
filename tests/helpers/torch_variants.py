"""The common suite's agents with a torch representation; none where PyTorch is not installed."""

from importlib.util import find_spec
from typing import Any

WIDTH = 50


def torch_variants(n_features: int) -> dict[str, tuple[str, dict[str, Any]]]:
    if find_spec("torch") is None:
        return {}
    import torch
    from torch import nn

    from lim2.representation import RMSProp, Torch

    torch.manual_seed(0)
    layer = nn.Linear(n_features, WIDTH)
    nn.init.uniform_(layer.weight, -0.3, 0.3)
    module = nn.Sequential(layer, nn.ReLU()).double()
    bounded: dict[str, Any] = {"representation": Torch(module, WIDTH, RMSProp(0.1)), "buffer": 15}
    return {
        "LiM2 with torch": ("LiM2", {**bounded, "batch": 8}),
        "AdaptiveTS with torch": ("AdaptiveTS", {**bounded, "initial_pulls": 2}),
    }
