"""Agents with a PyTorch network in files: what is rebuilt, what must be given again, and what is refused."""

import copy
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")
from helpers.torch_modules import N_ARMS, N_FEATURES, WIDTH, Masked, OneLayer, batch_of, torch_of, values  # noqa: E402
from torch import nn  # noqa: E402

import lim2  # noqa: E402
from lim2 import state as trees  # noqa: E402
from lim2.persistence.container import LoadError, pack, unpack  # noqa: E402
from lim2.representation import SGD, Adam, RMSProp, TextCNN, Torch  # noqa: E402


def text(**settings: Any) -> TextCNN:
    return TextCNN(20, 6, **{"embedding": 4, "widths": (2, 3), "filters": 3, "width": 5, "seed": 0, **settings})


def text_agent(module: Any = None, **settings: Any) -> lim2.Agent:
    net = Torch(text() if module is None else module, 5, **settings)
    return lim2.LiM2(2, representation=net, buffer=6, batch=4, seed=0)


def learn(agent: lim2.Agent, rounds: int = 8, seed: int = 0) -> lim2.Agent:
    for t, tokens in enumerate(np.random.default_rng(seed).integers(0, 20, size=(rounds, 6))):
        agent.update(tokens, t % 2, float(t % 3))
    return agent


# Whole files


@pytest.mark.parametrize("rounds", [0, 8])
@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": Adam(0.01, keep=(0.8, 0.99))},
        {"optimizer": RMSProp(0.01, clip=None), "dtype": np.int32},
        {"optimizer": SGD(1, decay=0.5), "n_tokens": 20, "init_range": 0.1},
        {"module": partial(text, seed=None)},
    ],
    ids=["Adam", "RMSProp", "SGD", "a function"],
)
def test_a_text_network_is_rebuilt(rounds: int, settings: dict[str, Any]) -> None:
    agent = learn(text_agent(**settings), rounds)
    loaded = lim2.from_bytes(agent.to_bytes())
    assert loaded.to_bytes() == agent.to_bytes()
    assert learn(loaded, seed=1).to_bytes() == learn(agent, seed=1).to_bytes()
    if "module" in settings:  # the seed still decides on what a fresh agent starts from
        assert values(loaded.clone().state.network) == values(agent.clone().state.network)


@pytest.mark.parametrize("precision", [torch.float64, torch.bfloat16])
def test_precision_and_fixed_parameters_come_back(precision: Any) -> None:
    module = text().to(precision)
    module.embedding.weight.requires_grad_(False)
    agent = learn(text_agent(module))
    loaded: Any = lim2.from_bytes(agent.to_bytes())
    template = loaded.algorithm.representation.template
    assert template.kernels.dtype == precision
    assert not template.embedding.weight.requires_grad
    assert learn(loaded, seed=1).to_bytes() == learn(agent, seed=1).to_bytes()


def module(width: int = 4) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, width), nn.ReLU())


def test_a_module_of_ones_own_is_given_again() -> None:
    agent = lim2.LiM2(2, 3, representation=Torch(module(), 4), buffer=6, batch=4, seed=0)
    agent.update(np.ones((9, 3), np.float32), [0, 1, 0] * 3, [1.0] * 9)
    content = agent.to_bytes()
    with pytest.raises(LoadError, match=r"Torch\(Sequential.*representation="):
        lim2.from_bytes(content)
    for other in (
        Torch(module(5), 5),
        Torch(module(), 4, Adam(0.5)),
        Torch(nn.Linear(3, 4), 4),
        Torch(nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU()), 4),
    ):
        with pytest.raises(LoadError):
            lim2.from_bytes(content, representation=other)
    loaded = lim2.from_bytes(content, representation=Torch(module(), 4))
    assert loaded.to_bytes() == content
    for learner in (agent, loaded):
        learner.update(np.zeros(3, np.float32), 1, 0.5)
    assert loaded.to_bytes() == agent.to_bytes()


def test_an_optimizer_of_pytorch_comes_back_with_its_statistics() -> None:
    def made() -> Torch:
        return Torch(module(), 4, partial(torch.optim.SGD, lr=0.01, momentum=0.9))

    agent = lim2.NeuralLinearMM(2, 3, representation=made(), buffer=6, batch=4, seed=0)
    agent.update(np.ones((9, 3), np.float32), [0, 1, 0] * 3, [1.0] * 9)
    loaded = lim2.from_bytes(agent.to_bytes(), representation=made())
    for learner in (agent, loaded):
        learner.update(np.zeros(3, np.float32), 1, 0.5)
    assert loaded.to_bytes() == agent.to_bytes()
    assert any("momentum" in name for name in unpack(agent.to_bytes())[1])


def test_a_text_network_larger_than_the_file_is_not_made() -> None:
    header, arrays = unpack(text_agent().to_bytes())
    for name in ("n_tokens", "embedding", "filters", "width", "length"):
        changed = copy.deepcopy(header)
        changed["settings"]["representation"]["module"][name] = 10**12
        with pytest.raises(LoadError):
            lim2.from_bytes(pack(changed, arrays))


# Descriptions


def described(**settings: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    net = Torch(text(), 5, **settings)
    f = net.train(net.init((6,), 2, np.random.default_rng(0)), *tokens_of())[1]
    return net.description(), {path: leaf for path, leaf in trees.leaves(f) if isinstance(leaf, np.ndarray)}


def tokens_of() -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.float64]]:
    return np.random.default_rng(0).integers(20, size=(4, 6)), np.array([0, 0, 1, 1]), np.ones(4)


def test_nothing_describes_a_module_or_an_optimizer_of_others() -> None:
    assert torch_of().description() == {}
    assert Torch(text(), 5, torch.optim.Adam).description() == {}

    class Mine(TextCNN):
        pass

    assert Torch(Mine(20), 50).description() == {}


def test_a_description_names_the_shapes_that_a_network_has() -> None:
    made = text(filters=7)
    shapes = TextCNN.described_shapes(made.description())
    assert shapes == {name: tuple(parameter.shape) for name, parameter in made.named_parameters()}


def test_leaves_of_a_whole_state_will_do() -> None:
    description, arrays = described()
    inside = {f"state/network/inner/{name}": array for name, array in arrays.items()}
    assert repr(Torch.from_description(description, inside)) == repr(Torch.from_description(description, arrays))


MODULE: list[tuple[str, Any]] = [
    ("n_tokens", 10**12), ("n_tokens", 0), ("n_tokens", True), ("n_tokens", 20.0), ("length", 10**12), ("length", 2),
    ("length", None), ("embedding", 0), ("embedding", 10**9), ("widths", []), ("widths", [2]), ("widths", [0, 5]),
    ("widths", 2), ("widths", [2, 3.0]), ("widths", [10**12, 3]), ("filters", 0), ("filters", 10**9), ("filters", -3),
    ("width", 0), ("width", 6), ("dtype", "float64"), ("dtype", "int64"), ("dtype", "no_grad"), ("dtype", None),
    ("fixed", ["forward"]), ("fixed", "kernels"), ("fixed", [[]]), ("object", "Torch"), ("seed", 0),
]  # fmt: skip
WHOLE: list[tuple[str, Any]] = [
    ("width", 6), ("width", 10**12), ("width", "5"), ("device", "cuda:99"), ("device", "abacus"), ("device", "meta"),
    ("device", None), ("device", 0), ("dtype", "uint8"), ("dtype", "float32"), ("dtype", 3), ("dtype", []),
    ("n_tokens", 21), ("n_tokens", 0), ("n_tokens", None), ("init_range", float("nan")), ("init_range", float("inf")),
    ("init_range", -1.0), ("init_range", None), ("init_range", 10**400), ("drawn", 1), ("module", None), ("module", []),
    ("optimizer", None), ("optimizer", {"object": "LBFGS", "settings": {}}), ("object", "TextCNN"), ("more", 1),
]  # fmt: skip
OPTIMIZER: list[tuple[str, Any]] = [
    ("learning_rate", 0.0), ("learning_rate", -1.0), ("learning_rate", float("nan")), ("learning_rate", 10**400),
    ("learning_rate", "fast"), ("learning_rate", None), ("learning_rate", True), ("decay", -1.0), ("clip", 0.0),
    ("keep", [0.9]), ("keep", 0.9), ("keep", [0.9, 1.0]), ("keep", [0.9, None]), ("keep", None), ("epsilon", 0.0),
    ("momentum", 0.9),
]  # fmt: skip


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        (place, *change)
        for place, all_ in (("module", MODULE), (None, WHOLE), ("settings", OPTIMIZER))
        for change in all_
    ],
    ids=lambda part: repr(part)[:20],
)
def test_descriptions_that_do_not_fit_are_refused_before_anything_is_made(
    where: str | None, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(*_: Any, **__: Any) -> None:
        raise AssertionError("a network was made")

    description, arrays = described()
    part = {"module": description["module"], "settings": description["optimizer"]["settings"], None: description}[where]
    part[name] = value
    monkeypatch.setattr(TextCNN, "__init__", made)
    with pytest.raises(ValueError, match=r"."):
        Torch.from_description(description, arrays)


@pytest.mark.parametrize("name", ["module.biases", "module.norm.bias", "head.weight", "head.bias"])
def test_every_array_must_be_there_in_its_shape_and_type(name: str) -> None:
    description, arrays = described()
    assert isinstance(Torch.from_description(description, arrays), Torch)
    path = f"tensors/{name}"
    for wrong in (arrays[path][..., None], arrays[path][:0], arrays[path].astype(np.float64)):
        with pytest.raises(ValueError, match="should be"):
            Torch.from_description(description, {**arrays, path: wrong})
    with pytest.raises(ValueError, match=name):
        Torch.from_description(description, {k: v for k, v in arrays.items() if k != path})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_network_of_another_machine_s_gpu_is_refused() -> None:
    description, arrays = described()
    with pytest.raises(ValueError, match=r"cuda.*not available here"):
        Torch.from_description({**description, "device": "cuda"}, arrays)


# Networks


def test_a_network_comes_back_from_its_leaves() -> None:
    for net in (torch_of(), torch_of(Masked, optimizer=torch.optim.Adagrad), torch_of(dtype=np.float32)):
        f = net.init((N_FEATURES,), N_ARMS, np.random.default_rng(0))
        for g in (f, net.train(f, *batch_of())[1]):
            again = trees.rebuilt(net.kinds("f")["f"], dict(trees.leaves(g)), {})
            assert values(again) == values(g)
            net.check(again)
    with np.errstate(over="ignore"):
        trees.check(again, {"arm": N_ARMS, "context": (N_FEATURES,), **net.sizes((N_FEATURES,), N_ARMS)})


def altered(f: Any, part: str, path: str, value: Any) -> Any:
    arrays = dict(getattr(f, part))
    arrays[path] = value(arrays[path]) if callable(value) else value
    return f._replace(**{part: {k: v for k, v in arrays.items() if v is not None}})


def first(value: float) -> Any:
    def change(array: NDArray[Any]) -> NDArray[Any]:
        array = array.copy()
        array.flat[0] = value
        return array

    return change


WEIGHT, STATISTIC = ("tensors", "module.layer.weight"), ("statistics", "module.layer.weight/exp_avg_sq")
ALTERED = {
    "not a number": (*WEIGHT, first(np.nan)),
    "infinite": ("tensors", "head.bias", first(np.inf)),
    "exploded": (*WEIGHT, first(1e30)),
    "another shape": (*WEIGHT, lambda a: a[:-1]),
    "another type": (*WEIGHT, lambda a: a.astype(np.float64)),
    "missing": (*WEIGHT, None),
    "unknown": ("tensors", "module.layer.scale", np.zeros(3, np.float32)),
    "a number": (*WEIGHT, 3.0),
    "another number of arms": ("tensors", "head.bias", lambda a: a[:-1]),
    "negative squares": (*STATISTIC, first(-1.0)),
    "infinite squares": (*STATISTIC, first(np.inf)),
    "squares beyond the clip": (*STATISTIC, first(1e9)),
    "a mean beyond the clip": ("statistics", "head.bias/exp_avg", first(-1e3)),
    "too few squares": (*STATISTIC, lambda a: a[:1]),
    "a missing statistic": (*STATISTIC, None),
    "a statistic of nothing": ("statistics", "module.layer.scale/step", np.zeros((), np.float32)),
    "an unknown statistic": ("statistics", "head.bias/momentum", np.zeros(N_ARMS, np.float32)),
    "a negative count": ("statistics", "head.bias/step", np.array(-1.0, np.float32)),
}


@pytest.mark.parametrize("change", ALTERED)
def test_an_altered_network_is_refused(change: str) -> None:
    net = torch_of()
    f = net.train(net.init((N_FEATURES,), N_ARMS, np.random.default_rng(0)), *batch_of())[1]
    net.check(f)
    with pytest.raises(ValueError, match=r"."):
        net.check(altered(f, *ALTERED[change]))


def test_contexts_and_counts_that_cannot_be_are_refused() -> None:
    net = torch_of()
    f = net.init((N_FEATURES,), N_ARMS, np.random.default_rng(0))
    for contexts in (
        np.empty((0, 7)),
        np.empty((1, N_FEATURES)),
        np.empty((0, 10**12)),
        np.empty((0, N_FEATURES), "U1"),
    ):
        with pytest.raises(ValueError, match="contexts"):
            net.check(f._replace(contexts=contexts))
    with pytest.raises(ValueError, match="arms"):
        net.check(f._replace(n_arms=2**60))
    for skipped, in_a_row in ((0, 1), (500, 200)):
        with pytest.raises(ValueError, match="in a row"):
            net.check(f._replace(skipped=skipped, skipped_in_a_row=in_a_row))
    with pytest.raises(ValueError, match="contexts"):
        torch_of(dtype=np.float64).check(f)
    words = Torch(text(), 5)
    g = words.init((6,), 2, np.random.default_rng(0))
    words.check(g)
    for contexts in (np.empty((0, 6)), np.empty((0, 7), np.int64)):
        with pytest.raises(ValueError, match=r"contexts|token ids"):
            words.check(g._replace(contexts=contexts))


def test_infinities_stay_where_the_module_has_them() -> None:
    net = torch_of(Masked)
    f = net.init((N_FEATURES,), N_ARMS, np.random.default_rng(0))
    net.check(f)
    with pytest.raises(ValueError, match="mask"):
        net.check(altered(f, "tensors", "module.mask", np.array([-np.inf, np.inf], np.float32)))


def test_values_beyond_the_precision_are_refused() -> None:
    net = torch_of(lambda: OneLayer().to(torch.bfloat16))
    f = net.init((N_FEATURES,), N_ARMS, np.random.default_rng(0))
    net.check(f)
    with pytest.raises(ValueError, match="bfloat16"):
        net.check(altered(f, "tensors", "head.weight", np.full((N_ARMS, WIDTH), 0.1, np.float32)))
