"""The text network against plain convolutions."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812
from torch import Tensor  # noqa: E402

from lim2.representation import TextCNN  # noqa: E402


def small(**settings: object) -> TextCNN:
    return TextCNN(30, 12, **{"embedding": 6, "filters": 7, "width": 5, "seed": 0, **settings}).double()  # type: ignore[arg-type]


def tokens_of(n: int = 20, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1, 30, (n, 12), generator=generator)
    lengths = torch.randint(0, 13, (n, 1), generator=generator)
    padded: Tensor = torch.where(torch.arange(12) < lengths, tokens, 0)  # some of them are all padding
    return padded


def plainly(net: TextCNN, tokens: Tensor) -> Tensor:
    """The network as it is written down: embed, convolve every position, rectify, take the maximum."""
    embedded = net.embedding(tokens).transpose(1, 2)
    pooled, start = [], 0
    for width, bias in zip(net.widths, torch.split(net.biases, net.filters), strict=True):
        kernel = net.kernels[:, start : start + width * net.filters].reshape(-1, width, net.filters)
        pooled.append(F.relu(F.conv1d(embedded, kernel.permute(2, 0, 1), bias)).amax(2))
        start += width * net.filters
    features: Tensor = net.norm(net.linear(torch.cat(pooled, 1)))
    return features


def test_features_and_gradients_are_those_of_plain_convolutions() -> None:
    net, tokens = small(), tokens_of()
    target = torch.randn(20, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    results = []
    for forward in (net, lambda t: plainly(net, t)):
        net.zero_grad()
        features = forward(tokens)
        (features * target).sum().backward()
        results.append([features.detach(), *(p.grad.clone() for p in net.parameters() if p.grad is not None)])
    assert len(results[0]) == 1 + len(list(net.parameters()))
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-10, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(net(tokens), plainly(net, tokens), rtol=1e-10, atol=1e-12)


def test_the_paper_s_sizes() -> None:
    net = TextCNN(1000)
    sizes = {name: tuple(p.shape) for name, p in net.named_parameters()}
    assert sizes == {
        "embedding.weight": (1000, 128),
        "kernels": (128, (3 + 4 + 5) * 128),
        "biases": (3 * 128,),
        "linear.weight": (50, 3 * 128),
        "linear.bias": (50,),
        "norm.weight": (50,),
        "norm.bias": (50,),
    }
    features = net(torch.randint(1000, (4, 60)))
    torch.testing.assert_close(features.mean(1), torch.zeros(4), atol=1e-5, rtol=0.0)  # layer norm comes last
    torch.testing.assert_close(features.square().mean(1), torch.ones(4), atol=1e-3, rtol=0.0)


def test_the_seed_decides_on_the_start() -> None:
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    one, same, other = small(seed=1), small(seed=1), small(seed=2)
    assert torch.equal(one.kernels, same.kernels)
    assert torch.equal(one.embedding.weight, same.embedding.weight)
    assert not torch.equal(one.kernels, other.kernels)
    assert torch.equal(torch.rand(1), expected), "PyTorch's own generator is left alone"


@pytest.mark.parametrize("widths", [(), (0,), (3, 13)])
def test_bad_widths_are_refused(widths: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="widths"):
        small(widths=widths)


@pytest.mark.parametrize(
    "sizes", [{"embedding": 0}, {"filters": -1}, {"width": 0}, {"filters": 2.5}, {"widths": (2.5,)}], ids=repr
)
def test_bad_sizes_are_refused(sizes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(sizes))):
        small(**sizes)
    with pytest.raises(ValueError, match="n_tokens"):
        TextCNN(0)
    with pytest.raises(ValueError, match="length"):
        TextCNN(30, 2**40)
