"""Any PyTorch module as a representation: the module maps contexts to features."""

import copy
import functools
import pickle
import threading
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray
from torch import Tensor, nn

from lim2.checks import number, positive_int, real_numbers
from lim2.representation import torch_loading, torch_optimizers
from lim2.representation.optimizers import Adam
from lim2.representation.protocol import Shape, Step
from lim2.representation.torch_arrays import array_of, converted, floats_of, pickled, type_of
from lim2.representation.torch_optimizers import Factory, OptimizerSettings
from lim2.representation.torch_workspace import TorchNetwork, Workspace, new_head
from lim2.state import Array, Ints, with_row, without_row

# Contexts go through the module at most so many at a time, so that a long history needs no more memory than a buffer.
CHUNK = 1024

# Networks that a thread keeps in PyTorch: one that is trained, and one that it is compared with.
MAX_WORKSPACES = 2

# What a module raises when it is given a type or a shape that it cannot take.
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError)


@dataclass(frozen=True, repr=False)
class Torch:
    """A PyTorch module with a linear head on top, trained on the squared error of the played arm's output.

    The module maps a batch of contexts, (n, ...), to features, (n, width). It always runs in evaluation mode, because
    matching compares features before and after a step: they must depend only on the context and the parameters. So
    dropout is off, and batch norm keeps its statistics; layer norm and group norm are not affected.

    Contexts keep their type if the module accepts it: token ids as int32 or int64, images as uint8. Floats get the
    precision of the module's parameters, and so do integers that the module does not accept. The first observed context
    sets the type. Later ones are converted, or refused if the conversion would change them. On the CPU they are passed
    without a copy.

    This object holds settings only. A network is a :class:`~lim2.representation.torch_workspace.TorchNetwork`, a value.
    Every thread computes on its own copy of the module.

    Parameters
    ----------
    module
        The module, which is copied and never modified. Training starts from its parameters, so they may be pretrained;
        parameters that require no gradient stay fixed. Or a function without arguments that makes the module: it is
        called when an agent is made, with PyTorch's generator seeded from the agent's seed.
    width
        Number of features that the module returns.
    optimizer
        An optimizer of lim2, a class of ``torch.optim``, or a function from parameters to such an optimizer, e.g.
        ``functools.partial(torch.optim.AdamW, lr=1e-3)``. None: ``Adam(1e-3)`` with gradient norm clipped to 5.
    device
        Device of the network, e.g. ``"cuda"``.
    dtype
        Type of a context's values, e.g. ``numpy.uint8``. None: as described above.
    n_tokens
        Size of the vocabulary: contexts are token ids from 0 to n_tokens - 1, and others are refused. None: the
        module's attribute ``n_tokens``, if it has one; otherwise each id is tried on the module first.
    init_range
        Initial weights of the head are uniform in (-init_range, init_range), its biases are 0.

    Examples
    --------
    >>> import lim2
    >>> from lim2.representation import Torch
    >>> _ = torch.manual_seed(0)
    >>> conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 20), nn.ReLU())
    >>> agent = lim2.LiM2(n_arms=2, n_features=(1, 8, 8), representation=Torch(conv, width=20), seed=0)
    >>> image = np.zeros((1, 8, 8), dtype=np.float32)
    >>> agent.update(image, agent.act(image), reward=1.0)
    >>> contexts = agent.state.memory.contexts
    >>> contexts.dtype, contexts.shape[1:]
    (dtype('float32'), (1, 8, 8))
    """

    module: nn.Module | Callable[[], nn.Module]
    width: int = 50
    optimizer: OptimizerSettings | Factory | None = None
    _: KW_ONLY
    device: str | torch.device = "cpu"
    dtype: DTypeLike | None = None
    n_tokens: int | None = None
    init_range: float = 0.3

    def __post_init__(self) -> None:
        if isinstance(self.module, nn.Module):
            object.__setattr__(self, "module", copy.deepcopy(self.module))
        if not isinstance(self.template, nn.Module):
            raise TypeError(f"module must be a torch.nn.Module, or a function that makes one; got {self.template!r}")
        positive_int("width", self.width)
        number("init_range", self.init_range, least=0.0)
        n_tokens = getattr(self.template, "n_tokens", None)
        if self.n_tokens is None:
            object.__setattr__(self, "n_tokens", n_tokens)
        else:
            positive_int("n_tokens", self.n_tokens, most=2**40 if n_tokens is None else n_tokens)
        _ = torch.device(self.device), None if self.dtype is None else np.dtype(self.dtype)

    @functools.cached_property
    def template(self) -> nn.Module:
        """The module, or one made by the function: a template for the names and shapes of its parameters."""
        return self.module if isinstance(self.module, nn.Module) else seeded(self.module, seed=0)

    @functools.cached_property
    def rule(self) -> OptimizerSettings | Factory:
        """The optimizer setting."""
        return Adam() if self.optimizer is None else self.optimizer

    @functools.cached_property
    def precision(self) -> torch.dtype:
        """Type of the parameters of the module and the head."""
        floats = [p.dtype for p in self.template.parameters() if p.is_floating_point()]
        return floats[0] if floats else torch.get_default_dtype()

    @functools.cached_property
    def context_shape(self) -> Shape | None:
        """Shape of a context, if the module has an attribute ``context_shape``."""
        shape = getattr(self.template, "context_shape", None)
        return None if shape is None else tuple(shape)

    def init(self, shape: Shape, n_arms: int, rng: np.random.Generator) -> TorchNetwork:
        """Return a network with the module's parameters and a random head."""
        instance = self.module if isinstance(self.module, nn.Module) else seeded(self.module, int(rng.integers(2**63)))
        module = copy.deepcopy(instance).to(self.device).eval()
        dtype = self._type_taken(module, tuple(shape))
        head = new_head(self.width, n_arms, self.precision, torch.device(self.device))
        with torch.no_grad():
            head.weight.copy_(self._drawn(rng, n_arms))
            head.bias.zero_()
        space = Workspace(module, head, self.rule)
        tensors = {name: array_of(tensor) for name, tensor in space.named.items()}
        f = TorchNetwork(tensors, {}, np.empty((0, *shape), dtype), self.dtype is not None, n_arms)
        f = space.read_out(f)
        self._spaces[:] = [*self._spaces[1 - MAX_WORKSPACES :], space]
        return f

    def _drawn(self, rng: np.random.Generator, rows: int) -> Tensor:
        """Draw weights of the head."""
        drawn = rng.uniform(-self.init_range, self.init_range, (rows, self.width))
        return torch.from_numpy(drawn).to(self.precision)

    # The module's workspaces

    @functools.cached_property
    def _of_thread(self) -> threading.local:
        return threading.local()

    @property
    def _spaces(self) -> list[Workspace]:
        """Workspaces of this thread; the most recently used is last."""
        spaces: list[Workspace] = self._of_thread.__dict__.setdefault("spaces", [])
        return spaces

    def _loaded(self, f: TorchNetwork, training: bool = False) -> Workspace:
        """Return a workspace of this thread that holds a network."""
        spaces = self._spaces
        place = next((place for place, space in enumerate(spaces) if space.tensors is f.tensors), None)
        if place is not None:
            space = spaces.pop(place)
        else:
            space = spaces.pop(0) if len(spaces) >= MAX_WORKSPACES else self.workspace(f)
            if space.head.out_features != f.n_arms:
                space = self.workspace(f)
        space.load(f, training)
        spaces.append(space)  # not if loading has failed
        return space

    def workspace(self, f: TorchNetwork) -> Workspace:
        """Return a new workspace for networks with the shapes of this one; it holds none yet."""
        module = copy.deepcopy(self.template).to(self.device).eval()
        if any(isinstance(p, nn.parameter.UninitializedParameter) for p in module.parameters()):
            with torch.random.fork_rng(devices=()):  # a first pass makes lazy parameters
                self.refusal(module, f.contexts.shape[1:], f.contexts.dtype)
        head = new_head(self.width, f.n_arms, self.precision, torch.device(self.device))
        return Workspace(module, head, self.rule)

    # Contexts

    def read(self, f: TorchNetwork, values: ArrayLike, what: str) -> NDArray[Any]:
        """Return contexts in the type in which they are stored and passed to the module."""
        array = real_numbers(values, what)
        array = converted(array, f.contexts.dtype if f.typed else self._type_for(f, array.dtype, what), what)
        if array.dtype.kind in "iu" and array.size:
            self._check_tokens(f, array, what)
        return array

    def observe(self, f: TorchNetwork, context: NDArray[Any]) -> TorchNetwork:
        """Set the type of all contexts from the first one."""
        return f if f.typed else f._replace(contexts=np.empty(f.contexts.shape, context.dtype), typed=True)

    @functools.cached_property
    def _read_as(self) -> dict[tuple[Shape, str], np.dtype[Any]]:
        """Cache of the types in which contexts are read, by shape and type."""
        return {}

    def _type_for(self, f: TorchNetwork, dtype: np.dtype[Any], what: str) -> np.dtype[Any]:
        """Return the type in which the module accepts contexts of a given type, found by trial."""
        shape = f.contexts.shape[1:]
        kind = self._read_as.get((shape, dtype.str))
        if kind is None:
            floats, module = self._float_type, self._loaded(f).module
            candidates = [floats] if dtype.kind == "f" else [dtype, np.dtype(np.int64), floats]
            refusals = [self.refusal(module, shape, candidate) for candidate in candidates]
            if None not in refusals:
                raise ValueError(f"{what} must hold values that the module accepts, got {dtype}: {refusals[0]}")
            kind = self._read_as[shape, dtype.str] = candidates[refusals.index(None)]
        return kind

    def _type_taken(self, module: nn.Module, shape: Shape) -> np.dtype[Any]:
        """Return a type of contexts that the module accepts; raise a ValueError if it accepts none of this shape."""
        refusal = None
        types = (self._float_type, np.dtype(np.int64)) if self.dtype is None else (np.dtype(self.dtype),)
        for dtype in types:
            refusal = self.refusal(module, shape, dtype)
            if refusal is None:
                return dtype
        raise ValueError(
            f"the module does not accept a batch of contexts of shape {shape} ({types[-1]}): {refusal}"
        ) from refusal

    def refusal(self, module: nn.Module, shape: Shape, dtype: np.dtype[Any]) -> Exception | None:
        """Return the error that a module raises for contexts of a shape and type; None if it accepts them."""
        try:
            with torch.no_grad():
                features = module(self._tensor(np.zeros((2, *shape), dtype=dtype)))
        except REFUSALS as error:
            return error
        self._check_features(features, 2)
        return None

    def _check_features(self, features: Tensor, n: int) -> None:
        if tuple(features.shape) != (n, self.width):
            raise ValueError(
                f"the module must return features of shape ({n}, {self.width}) for {n} contexts, because "
                f"width={self.width}, but returned shape {tuple(features.shape)}"
            )

    def _check_tokens(self, f: TorchNetwork, array: NDArray[Any], what: str) -> None:
        shape = f.contexts.shape[1:]
        if self.n_tokens is not None:
            lowest, highest = int(array.min()), int(array.max())
            if lowest < 0 or highest >= self.n_tokens:
                wrong = lowest if lowest < 0 else highest
                raise ValueError(f"{what} must hold token ids from 0 to {self.n_tokens - 1}, got {wrong}")
        elif array.shape[-len(shape) :] == shape and _looks_up(self.template):
            try:
                with torch.no_grad():
                    self._loaded(f).module(self._tensor(array.reshape(-1, *shape)))
            except REFUSALS as error:
                raise ValueError(
                    f"the module does not accept {what} with values {array.min()} to {array.max()}: {error}"
                ) from error

    @property
    def _float_type(self) -> np.dtype[Any]:
        """Type of the module's parameters; float32 for types that NumPy does not have."""
        return type_of(self.precision)

    def _tensor(self, contexts: NDArray[Any]) -> Tensor:
        if not (contexts.flags.writeable and contexts.flags.c_contiguous):  # PyTorch knows no read-only memory
            contexts = contexts.copy()
        tensor = torch.from_numpy(contexts)
        return tensor.to(self.device, self.precision if tensor.is_floating_point() else None)

    # Features and training

    def features(self, f: TorchNetwork, contexts: NDArray[Any]) -> Array:
        """Return the features (n, width) of contexts (n, ...)."""
        module, rows = self._loaded(f).module, self._tensor(contexts)
        with torch.no_grad():
            parts = [self._checked(module(part), len(part)) for part in torch.split(rows, CHUNK)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _checked(self, features: Tensor, n: int) -> Array:
        self._check_features(features, n)
        out = floats_of(features)
        if not np.isfinite(out).all():
            raise FloatingPointError(
                "the module returned features that are not finite: its parameters have diverged, or it cannot take "
                "these contexts. Lower the learning rate, or scale the contexts."
            )
        return out

    def last_layer(self, f: TorchNetwork) -> tuple[Array, Array]:
        """Return the weights (n_arms, width) and the biases (n_arms,) of the head."""
        weights, bias = (f.tensors[name].astype(np.float64, copy=False) for name in ("head.weight", "head.bias"))
        return weights, bias

    def train(
        self, f: TorchNetwork, contexts: NDArray[Any], arms: Ints, rewards: Array
    ) -> tuple[Array, TorchNetwork, Step]:
        """Take one step on the mean squared error of a batch; return old features, new network and diagnostics."""
        space = self._loaded(f, training=True)
        features = space.module(self._tensor(contexts))
        before = self._checked(features, len(contexts))
        played = torch.tensor(arms, device=self.device)[:, None]
        target = torch.tensor(rewards, dtype=self.precision, device=self.device)
        loss = (space.head(features).gather(1, played)[:, 0] - target).square().mean()
        g, norm = space.descend(self.observe(f, contexts), loss)
        return before, g, Step(float(loss.detach()), norm)

    def skipped(self, f: TorchNetwork) -> int:
        """Return the number of steps skipped because their gradient was not finite."""
        return f.skipped

    # Arms that change

    def add_arm(self, f: TorchNetwork, like: int | None, rng: np.random.Generator) -> TorchNetwork:
        """Return a network with one more output: newly drawn, or a copy of another arm's, with its statistics."""
        drawn, start = array_of(self._drawn(rng, 1))[0], torch_optimizers.start_of(self.rule)

        def grown(rows: NDArray[Any], first: Any) -> NDArray[Any]:
            return with_row(rows, first if like is None else rows[like])

        firsts = {"head.weight": drawn, "head.bias": 0.0}
        return _with_head(f, f.n_arms + 1, lambda rows, name: grown(rows, firsts.get(name, start)))

    def remove_arm(self, f: TorchNetwork, arm: int) -> TorchNetwork:
        """Return a network without an arm's output and its optimizer statistics."""
        return _with_head(f, f.n_arms - 1, lambda rows, _: without_row(rows, arm))

    # Files

    def kinds(self, path: str) -> Mapping[str, Any]:
        """Return the type of a network."""
        return {path: TorchNetwork}

    def sizes(self, shape: Shape, n_arms: int) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the number of features."""
        return {"g": self.width, "none": 0}

    def check(self, f: TorchNetwork) -> None:
        """Raise a ValueError unless a loaded network fits the module and the optimizer in names, shapes and types.

        Values must be finite.
        """
        torch_loading.check(self, f)

    def description(self) -> dict[str, Any]:
        """Return a JSON description for :meth:`from_description`; {} if the settings cannot be described.

        A custom module or a PyTorch optimizer cannot be described. The initial values of a module that was given, not
        made by a function, are not included.
        """
        return torch_loading.description(self)

    @classmethod
    def from_description(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "Torch":
        """Return a Torch from its description, for a network with these arrays; raise a ValueError if they do not fit.

        Parameters
        ----------
        arrays
            The arrays of a network, e.g. ``tensors/module.kernels``, or of a state with such a network. No more memory
            is allocated than they occupy.
        """
        return cls(**torch_loading.settings(description, arrays))

    def __deepcopy__(self, memo: dict[int, Any]) -> "Torch":
        return replace(self)  # which copies the module

    def __getstate__(self) -> dict[str, Any]:
        return {"pickled": pickled({field.name: getattr(self, field.name) for field in fields(self)})}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(pickle.loads(state["pickled"]))

    def __repr__(self) -> str:
        parts = [
            type(self.template).__name__,
            f"width={self.width}",
            f"optimizer={torch_optimizers.describe(self.rule)}",
        ]
        if torch.device(self.device).type != "cpu":
            parts.append(f"device={str(self.device)!r}")
        if self.dtype is not None:
            parts.append(f"dtype={np.dtype(self.dtype).name!r}")
        if self.init_range != 0.3:
            parts.append(f"init_range={self.init_range!r}")
        return f"Torch({', '.join(parts)})"


def _with_head(f: TorchNetwork, n_arms: int, change: Callable[[NDArray[Any], str], NDArray[Any]]) -> TorchNetwork:
    """Return a network with a changed head; ``change`` takes rows and the name of their array."""
    tensors, statistics = dict(f.tensors), dict(f.statistics)
    for name in ("head.weight", "head.bias"):
        shape = tensors[name].shape
        for key, array in f.statistics.items():
            if key.startswith(f"{name}/") and array.shape == shape:
                statistics[key] = change(array, key)
        tensors[name] = change(tensors[name], name)
    return f._replace(tensors=tensors, statistics=statistics, n_arms=n_arms)


def seeded(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Call a function that makes a module, with PyTorch's generator temporarily set to a seed."""
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)
        return make()


def _looks_up(module: nn.Module) -> bool:
    return any(isinstance(part, nn.Embedding | nn.EmbeddingBag) for part in module.modules())
