"""The paper's text network: a shallow convolutional network over words."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from lim2.checks import positive_int

# Tokens in the longest text that it takes
LONGEST = 2**20

PRECISIONS = ("float64", "float32", "float16", "bfloat16")


class TextCNN(nn.Module):
    """Text network: word embeddings, convolutions of several widths, maximum over time, a linear layer, layer norm.

    It is the network of the paper's experiment on reviews, after Kim, *Convolutional neural networks for sentence
    classification*, EMNLP 2014. It maps token ids, (n, length), to features, (n, width).

    A convolution over embeddings is computed per token, not per position: the products of every *distinct* token of the
    batch with the filters are formed once, and each window adds up the products of its tokens. Texts repeat words and
    padding, so this is several times less arithmetic with the same result up to rounding.

    Parameters
    ----------
    n_tokens
        Size of the vocabulary: ids are 0 to n_tokens - 1.
    length
        Number of tokens in a text. The caller pads shorter texts with a separate id.
    embedding
        Size of the word embeddings, which are initialised randomly.
    filters
        Number of filters per width.
    seed
        Seed of the initial parameters. None: use PyTorch's global generator.

    Examples
    --------
    >>> net = TextCNN(n_tokens=1000, seed=0)
    >>> net(torch.zeros((2, 60), dtype=torch.int64)).shape
    torch.Size([2, 50])
    >>> import lim2
    >>> from lim2.representation import Torch
    >>> agent = lim2.LiM2(n_arms=5, representation=Torch(net), seed=0)
    >>> agent.context_shape
    (60,)
    """

    def __init__(
        self,
        n_tokens: int,
        length: int = 60,
        *,
        embedding: int = 128,
        widths: Sequence[int] = (3, 4, 5),
        filters: int = 128,
        width: int = 50,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.widths = tuple(positive_int("widths", w) for w in widths)
        if not self.widths or max(self.widths) > positive_int("length", length, most=LONGEST):
            raise ValueError(f"widths must be at least 1 and at most the length {length}, got {widths!r}")
        for name, size in (("n_tokens", n_tokens), ("embedding", embedding), ("filters", filters), ("width", width)):
            positive_int(name, size)
        self.n_tokens, self.length, self.filters = int(n_tokens), int(length), int(filters)
        self.context_shape = (self.length,)
        self._columns = [w * self.filters for w in self.widths]
        self.embedding = nn.utils.skip_init(nn.Embedding, n_tokens, embedding)  # type: ignore[no-untyped-call]
        # One block of filters for each place in each window, side by side: (embedding, sum of widths x filters)
        self.kernels = nn.Parameter(torch.empty(embedding, sum(self._columns)))
        self.biases = nn.Parameter(torch.empty(len(self.widths) * filters))
        self.linear = nn.utils.skip_init(nn.Linear, len(self.biases), width)  # type: ignore[no-untyped-call]
        self.norm = nn.LayerNorm(width)
        self._draw(seed)

    @torch.no_grad()
    def _draw(self, seed: int | None) -> None:
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        self.embedding.weight.uniform_(-1.0, 1.0, generator=generator)
        self.kernels.normal_(0.0, 0.1, generator=generator)
        self.biases.fill_(0.1)
        bound = (6.0 / (self.linear.in_features + self.linear.out_features)) ** 0.5
        self.linear.weight.uniform_(-bound, bound, generator=generator)
        self.linear.bias.fill_(0.1)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the features of token ids."""
        distinct, places = torch.unique(tokens, return_inverse=True)
        products = self.embedding(distinct) @ self.kernels  # of each distinct token with each filter's each place
        pooled = [
            _largest(part.reshape(-1, self.filters), places.view(tokens.shape), width)
            for part, width in zip(products.split(self._columns, 1), self.widths, strict=True)
        ]
        # The rectifier is monotone and the bias the same everywhere: both may come after the maximum.
        features: Tensor = self.norm(self.linear(F.relu(torch.cat(pooled, 1) + self.biases)))
        return features

    def description(self) -> dict[str, Any]:
        """Return a JSON description for :meth:`from_description`, without the values of the parameters."""
        return {
            "object": "TextCNN",
            "n_tokens": self.n_tokens,
            "length": self.length,
            "embedding": len(self.kernels),
            "widths": list(self.widths),
            "filters": self.filters,
            "width": self.linear.out_features,
            "dtype": str(self.kernels.dtype).removeprefix("torch."),
            "fixed": [name for name, parameter in self.named_parameters() if not parameter.requires_grad],
        }

    @staticmethod
    def described_shapes(described: Any) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the parameters of a described network; raise a ValueError if the description is invalid.

        It allocates nothing.
        """
        names = ("n_tokens", "length", "embedding", "widths", "filters", "width")
        if not isinstance(described, Mapping) or set(described) != {"object", "dtype", "fixed", *names}:
            raise ValueError(f"a TextCNN must be described by object, dtype, fixed, {', '.join(names)}")
        widths, fixed, dtype = described["widths"], described["fixed"], described["dtype"]
        sizes = [described[name] for name in names if name != "widths"]
        if described["object"] != "TextCNN" or not isinstance(widths, list) or not widths:
            raise ValueError(f"a TextCNN must have a list of widths, got {described['object']!r} with {widths!r}")
        if not all(type(size) is int and size >= 1 for size in (*sizes, *widths)):
            raise ValueError(f"the sizes of a TextCNN must be whole numbers from 1, got {sizes} and widths {widths}")
        n_tokens, length, embedding, filters, width = sizes
        if not max(widths) <= length <= LONGEST:
            raise ValueError(f"the length of a TextCNN must be from {max(widths)} to {LONGEST}, got {length}")
        shapes = {
            "embedding.weight": (n_tokens, embedding),
            "kernels": (embedding, sum(widths) * filters),
            "biases": (len(widths) * filters,),
            "linear.weight": (width, len(widths) * filters),
            "linear.bias": (width,),
            "norm.weight": (width,),
            "norm.bias": (width,),
        }
        if not isinstance(dtype, str) or dtype not in PRECISIONS:
            raise ValueError(f"the dtype of a TextCNN must be one of {', '.join(PRECISIONS)}, got {dtype!r}")
        if not isinstance(fixed, list) or not all(isinstance(name, str) and name in shapes for name in fixed):
            raise ValueError(f"the fixed parameters of a TextCNN must be of {', '.join(shapes)}, got {fixed!r}")
        return shapes

    @classmethod
    def from_description(cls, described: Mapping[str, Any]) -> "TextCNN":
        """Return a network from its description, with new values; raise a ValueError if the description is invalid."""
        cls.described_shapes(described)
        names = ("n_tokens", "length", "embedding", "widths", "filters", "width")
        module = cls(**{name: described[name] for name in names}).to(getattr(torch, described["dtype"]))
        for parameter in described["fixed"]:
            module.get_parameter(parameter).requires_grad_(False)
        return module

    def extra_repr(self) -> str:
        """Return the settings that PyTorch shows in the repr."""
        return f"n_tokens={self.n_tokens}, length={self.length}, widths={self.widths}, filters={self.filters}"


def _largest(products: Tensor, places: Tensor, width: int) -> Tensor:
    """Return the maximum over all windows of the sum of their tokens' products, (n, filters).

    ``products`` has a row for each (token, place in the window), ``places`` the number of each token, (n, length).
    """
    n, filters = len(places), products.shape[1]
    rows = places.unfold(1, width, 1) * width + torch.arange(width, device=places.device)  # (n, windows, width)
    sums = F.embedding_bag(rows.reshape(-1, width), products.detach(), mode="sum").view(n, -1, filters)
    if not (torch.is_grad_enabled() and products.requires_grad):
        return sums.amax(1)
    # Only the window with the maximum has a gradient: computing it again, alone, spares all others the way back.
    best = sums.max(1).indices
    chosen = rows[torch.arange(n, device=rows.device)[:, None], best]  # (n, filters, width)
    return products[chosen, torch.arange(filters, device=rows.device)[:, None]].sum(2)
