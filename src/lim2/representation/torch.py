"""Any PyTorch network as the representation: the module maps contexts to features, all else is done here."""

import copy
import math
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray
from torch import Tensor, nn

from lim2._arrays import real_numbers
from lim2._state import check_names, shallow
from lim2.representation import torch_optimizers
from lim2.representation.optimizers import SGD, Adam, Optimizer, RMSProp
from lim2.representation.protocol import Array, State
from lim2.representation.skips import Skips
from lim2.representation.text import TextCNN
from lim2.representation.torch_arrays import array_of, converted, floats_of, pickled
from lim2.representation.torch_optimizers import Factory

# Contexts go through the module at most so many at a time, so that a long history needs no more memory than a buffer.
CHUNK = 1024

# What a module raises when it is given a type or a shape that it cannot take.
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError)

_OPTIMIZERS = {kind.__name__: kind for kind in (RMSProp, SGD, Adam)}


class Torch:
    """A PyTorch module with a linear head on top, trained on the squared error of the played arm's output.

    The module maps a batch of contexts, (n, ...), to features, (n, width). It is used in evaluation mode throughout:
    features must depend on the context and the parameters alone, because matching compares them before and after a
    step. So dropout is off, and batch norm keeps the statistics it has; layer norm and group norm are not affected.

    Contexts are stored and handed over in the type they come in when the module takes it: token ids as int32 or int64,
    images as uint8. Floats get the precision of the module's parameters, and so do whole numbers that the module does
    not take. The first context that is computed with decides; later ones are converted, or refused where that would
    change them. On the CPU the module works on the very memory of the buffer.

    Parameters
    ----------
    module
        The network. An agent works on a copy, which starts from the module's parameters as they are, so they may be
        pretrained; parameters that require no gradient stay as they are. Or a function without arguments that makes the
        module: it is called when the agent is made, and the agent's seed decides on the initial parameters.
    width
        How many features the module returns.
    optimizer
        One of lim2's, a class of ``torch.optim``, or a function from parameters to such an optimizer, e.g.
        ``functools.partial(torch.optim.AdamW, lr=1e-3)``. Default: ``Adam(1e-3)``, gradient's norm clipped to 5.
    device
        Where the network is and computes, e.g. ``"cuda"``.
    dtype
        The type of a context's values, e.g. ``numpy.uint8``; None: as described above.
    n_tokens
        Contexts are token ids from 0 to n_tokens - 1, and others are refused. None: what the module's attribute
        ``n_tokens`` says, if it has one; without it ids are tried on the module before they are accepted.
    init
        The head's weights start uniform in (-init, init), its biases at 0.

    Attributes
    ----------
    context_shape
        The shape of a context, where the module has an attribute of that name; else None until an agent says it.
    loss, gradient_norm
        Of the latest training step: mean squared error, and norm of the gradient before clipping; NaN before the first.

    Examples
    --------
    >>> import lim2
    >>> from lim2.representation import Torch
    >>> _ = torch.manual_seed(0)
    >>> conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 20), nn.ReLU())
    >>> agent = lim2.LiM2(n_arms=2, n_features=(1, 8, 8), representation=Torch(conv, width=20), seed=0)
    >>> image = np.zeros((1, 8, 8), dtype=np.float32)
    >>> agent.update(image, agent.act(image), reward=1.0)
    >>> agent.memory.contexts.dtype, agent.memory.contexts.shape
    (dtype('float32'), (1, 1, 8, 8))
    """

    def __init__(
        self,
        module: nn.Module | Callable[[], nn.Module],
        width: int = 50,
        optimizer: Optimizer | Factory | None = None,
        *,
        device: str | torch.device = "cpu",
        dtype: DTypeLike | None = None,
        n_tokens: int | None = None,
        init: float = 0.3,
    ) -> None:
        self._make = None if isinstance(module, nn.Module) else module
        self.module = module if isinstance(module, nn.Module) else _made(module, seed=0)
        if not isinstance(self.module, nn.Module):
            raise TypeError(f"module must be a torch.nn.Module, or a function that makes one; got {self.module!r}")
        if width < 1:
            raise ValueError(f"width must be at least 1, got {width!r}")
        self._width = int(width)
        self.optimizer: Optimizer | Factory | None = Adam() if optimizer is None else optimizer
        self._named_optimizer = torch_optimizers.describe(self.optimizer)
        self._schedule = copy.deepcopy(self.optimizer) if isinstance(self.optimizer, Optimizer) else None
        self.device = torch.device(device)
        self.init = float(init)
        self.context_shape: tuple[int, ...] | None = _shape_of(self.module)
        self.n_tokens: int | None = getattr(self.module, "n_tokens", None) if n_tokens is None else int(n_tokens)
        self._dtype: np.dtype[Any] | None = None if dtype is None else np.dtype(dtype)
        self._read_as: dict[str, np.dtype[Any]] = {}  # how a type of contexts is read, until the first one is used
        self.skips = Skips()
        self.loss = self.gradient_norm = math.nan
        self._head: nn.Linear | None = None

    def bind(self, n_features: int | tuple[int, ...], n_arms: int, rng: np.random.Generator) -> None:
        """Set the sizes and draw the head; once bound, only check that the sizes agree."""
        shape = (n_features,) if isinstance(n_features, int) else tuple(n_features)
        if self._head is not None:
            if (self.context_shape, self._head.out_features) != (shape, n_arms):
                arms = self._head.out_features
                raise ValueError(
                    f"this Torch is bound to contexts of shape {self.context_shape} and {arms} arms, "
                    f"the agent has {shape} and {n_arms}: give it a fresh Torch"
                )
            return
        if self._make is not None:
            self.module = _made(self._make, seed=int(rng.integers(2**63)))
        self.context_shape = shape
        self.module.to(self.device).eval()
        floats = [p.dtype for p in self.module.parameters() if p.is_floating_point()]
        self._precision = floats[0] if floats else torch.get_default_dtype()
        self._check_module()
        head = nn.utils.skip_init(nn.Linear, self._width, n_arms, dtype=self._precision)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            head.weight.copy_(torch.from_numpy(rng.uniform(-self.init, self.init, (n_arms, self._width))))
            head.bias.zero_()
        self._head = head.to(self.device)
        self._parameters = [p for p in (*self.module.parameters(), *head.parameters()) if p.requires_grad]
        assert self.optimizer is not None
        self._descent = torch_optimizers.make(self.optimizer, self._parameters)
        self._make = self.optimizer = None  # used up; functions need not be kept, or pickled

    def _check_module(self) -> None:
        """Let the module say at once whether it takes such contexts and returns what it should."""
        for dtype in (self._float_type, np.dtype(np.int64)) if self._dtype is None else (self._dtype,):
            refusal = self._refusal(dtype)
            if refusal is None:
                return
        raise ValueError(
            f"the module does not take a batch of contexts of shape {self.context_shape} ({dtype}): {refusal}"
        ) from refusal

    def _refusal(self, dtype: np.dtype[Any]) -> Exception | None:
        assert self.context_shape is not None
        try:
            with torch.no_grad():
                features = self.module(self._tensor(np.zeros((2, *self.context_shape), dtype=dtype)))
        except REFUSALS as error:
            return error
        self._check_features(features, 2)
        return None

    def _check_features(self, features: Tensor, n: int) -> None:
        if tuple(features.shape) != (n, self._width):
            raise ValueError(
                f"the module must return ({n}, {self._width}) features for {n} contexts, as width={self._width} says, "
                f"but returned shape {tuple(features.shape)}"
            )

    @property
    def width(self) -> int:
        """The number of features, the paper's g."""
        return self._width

    @property
    def nbytes(self) -> int:
        """Bytes of the parameters and buffers of the module, of the head, and of the optimizer's statistics."""
        if self._head is None:
            return 0
        tensors = [*self.module.parameters(), *self.module.buffers(), *self._head.parameters()]
        tensors.extend(torch_optimizers.statistics(self._descent).values())
        return sum(tensor.nbytes for tensor in tensors)

    @property
    def skipped(self) -> int:
        """How many steps were left out because their gradient was not finite."""
        return self.skips.total

    @property
    def head(self) -> tuple[Array, Array]:
        """The last layer: weights (n_arms, width) and bias (n_arms,)."""
        head = self._bound()
        return floats_of(head.weight), floats_of(head.bias)

    def _bound(self) -> nn.Linear:
        if self._head is None:
            raise RuntimeError("this Torch belongs to no agent yet: give it to one as its representation, or call bind")
        return self._head

    # Contexts

    def read(self, values: ArrayLike, what: str) -> NDArray[Any]:
        """Return contexts in the type in which they are stored and handed to the module; change nothing."""
        array = real_numbers(values, what)
        array = converted(array, self._type_for(array.dtype, what), what)
        if array.dtype.kind in "iu" and array.size:
            self._check_tokens(array, what)
        return array

    def _type_for(self, dtype: np.dtype[Any], what: str) -> np.dtype[Any]:
        """Return the type in which the module takes contexts of some type, found by trying."""
        if self._dtype is not None:
            return self._dtype
        known = self._read_as.get(dtype.str)
        if known is None:
            candidates = [self._float_type] if dtype.kind == "f" else [dtype, np.dtype(np.int64), self._float_type]
            refusals = [self._refusal(candidate) for candidate in candidates]
            if None not in refusals:
                raise ValueError(f"{what} must hold values that the module takes, got {dtype}: {refusals[0]}")
            self._read_as[dtype.str] = known = candidates[refusals.index(None)]
        return known

    def _check_tokens(self, array: NDArray[Any], what: str) -> None:
        if self.n_tokens is not None:
            lowest, highest = int(array.min()), int(array.max())
            if lowest < 0 or highest >= self.n_tokens:
                wrong = lowest if lowest < 0 else highest
                raise ValueError(f"{what} must hold token ids from 0 to {self.n_tokens - 1}, got {wrong}")
        elif array.shape[-len(self.context_shape or ()) :] == self.context_shape and _looks_up(self.module):
            try:
                with torch.no_grad():
                    self.module(self._tensor(array.reshape(-1, *self.context_shape)))
            except REFUSALS as error:
                raise ValueError(
                    f"the module does not take {what} with values {array.min()} to {array.max()}: {error}"
                ) from error

    def _settle(self, contexts: NDArray[Any]) -> None:
        if self._dtype is None:
            self._dtype, self._read_as = contexts.dtype, {}

    @property
    def _float_type(self) -> np.dtype[Any]:
        """The type of the module's parameters; float32 for those that NumPy does not know."""
        known = {torch.float64: np.float64, torch.float16: np.float16}
        return np.dtype(known.get(self._precision, np.float32))

    def _tensor(self, contexts: NDArray[Any]) -> Tensor:
        if not (contexts.flags.writeable and contexts.flags.c_contiguous):  # PyTorch knows no read-only memory
            contexts = contexts.copy()
        tensor = torch.from_numpy(contexts)
        return tensor.to(self.device, self._precision if tensor.is_floating_point() else None)

    # Features and training

    def features(self, contexts: NDArray[Any]) -> Array:
        """Return the (n, width) features of (n, ...) contexts."""
        self._settle(contexts)
        rows = self._tensor(contexts)
        with torch.no_grad():
            parts = [self._checked(self.module(part), len(part)) for part in torch.split(rows, CHUNK)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def train_step(self, contexts: NDArray[Any], arms: NDArray[np.intp], rewards: Array) -> Array:
        """Take one step on the mean squared error of the batch; return its features before the step."""
        head = self._bound()
        self._settle(contexts)
        features = self.module(self._tensor(contexts))
        before = self._checked(features, len(contexts))
        played = torch.from_numpy(arms).to(self.device)[:, None]
        errors = head(features).gather(1, played)[:, 0] - torch.from_numpy(rewards).to(self.device, self._precision)
        loss = errors.square().mean()
        self.loss = float(loss.detach())
        loss.backward()
        self._descend()
        return before

    def _checked(self, features: Tensor, n: int) -> Array:
        self._check_features(features, n)
        out = floats_of(features)
        if not np.isfinite(out).all():
            raise FloatingPointError(
                "the module returned features that are not finite: its parameters have diverged, or it cannot take "
                "these contexts. Lower the learning rate, or scale the contexts."
            )
        return out

    def _descend(self) -> None:
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        norm = self.gradient_norm = torch_optimizers.norm_of(gradients)
        schedule = self._schedule
        if not np.isfinite(norm):
            self._descent.zero_grad(set_to_none=True)
            self.skips.skip(norm, "Lower the learning rate, clip gradients, or scale contexts and rewards.")
        else:
            self.skips.in_a_row = 0
            if schedule is not None:
                if schedule.clip is not None and norm > schedule.clip:
                    for gradient in gradients:
                        gradient.mul_(schedule.clip / norm)
                for group in self._descent.param_groups:
                    group["lr"] = schedule.learning_rate / (1.0 + schedule.decay * schedule.steps)
                schedule.steps += 1
            self._descent.step()
        self._descent.zero_grad(set_to_none=True)

    # Arms that change

    def add_arm(self, rng: np.random.Generator, like: int | None = None) -> None:
        """Add a row to the head, drawn anew or another arm's, with the optimizer's statistics of it."""
        weights = torch.from_numpy(rng.uniform(-self.init, self.init, (1, self._width)))
        if like is not None:
            self._change_head(lambda rows, _: torch.cat((rows, rows[like].unsqueeze(0))))
            return
        self._change_head(lambda rows, start: torch.cat((rows, torch.full_like(rows[:1], start))))
        with torch.no_grad():
            self._bound().weight[-1:].copy_(weights)

    def remove_arm(self, arm: int) -> None:
        """Drop an arm's row of the head, with the optimizer's statistics of it; rows after it move up."""
        self._change_head(lambda rows, _: torch.cat((rows[:arm], rows[arm + 1 :])))

    def _change_head(self, change: Callable[[Tensor, float], Tensor]) -> None:
        head = self._bound()
        for parameter in (head.weight, head.bias):
            torch_optimizers.resize(self._descent, parameter, change)
        head.out_features = len(head.bias)

    # State

    def _tensors(self) -> dict[str, Tensor]:
        named = {f"module.{name}": value for name, value in self.module.state_dict().items()}
        return named | {f"head.{name}": value for name, value in self._bound().state_dict().items()}

    def description(self) -> dict[str, Any]:
        """Return what :meth:`from_description` makes this again of, parameters aside, as JSON; {} where nothing can.

        A module of one's own is only known to who wrote it, and so is an optimizer of PyTorch.
        """
        if type(self.module) is not TextCNN or self._schedule is None:
            return {}
        return {
            "object": "Torch",
            "module": self.module.description(),
            "optimizer": {"object": type(self._schedule).__name__, "settings": self._schedule.settings()},
            "width": self._width,
            "device": str(self.device),
            "n_tokens": self.n_tokens,
            "init": self.init,
        }

    @classmethod
    def from_description(cls, described: Mapping[str, Any], state: Mapping[str, Any]) -> "Torch":
        """Return a fresh Torch as :meth:`description` tells, for a state; a ValueError where they do not fit."""
        check_names(described, ("object", "module", "optimizer", "width", "device", "n_tokens", "init"))
        settings = {name: described[name] for name in ("width", "device", "n_tokens", "init")}
        named = described["optimizer"]
        optimizer = _OPTIMIZERS[named["object"]](**named["settings"])
        return cls(TextCNN.from_description(described["module"], state), optimizer=optimizer, **settings)

    def state(self) -> State:
        """Return a copy of the parameters, of the module's buffers, and of the optimizer's statistics."""
        tensors = self._tensors()
        optimizer = torch_optimizers.statistics(self._descent)
        tensors |= {f"optimizer.{name}": value for name, value in optimizer.items()}
        steps = self._schedule.steps if self._schedule is not None else 0
        copies = {name: array_of(value).copy() for name, value in tensors.items()}
        settled = {} if self._dtype is None else {"context_type": np.empty(0, self._dtype)}
        return {**copies, **settled, "steps": np.array([steps, self.skips.total, self.skips.in_a_row])}

    def restore(self, state: State) -> None:
        """Take over a state returned by :meth:`state`."""
        tensors, prefix = self._tensors(), "optimizer."
        given = {name: np.shape(value) for name, value in state.items() if not name.startswith(prefix)}
        steps = given.pop("steps", None)
        given.pop("context_type", None)
        expected = {name: tuple(value.shape) for name, value in tensors.items()}
        if given != expected:
            differing = sorted(set(given.items()) ^ set(expected.items()))
            raise ValueError(f"the state is of another network: it differs in {differing}")
        if steps != (3,):
            raise ValueError(f"steps must be three counts, got shape {steps}")
        with torch.no_grad():
            for name, value in tensors.items():
                value.copy_(torch.from_numpy(np.array(state[name])))
        optimizer = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        named = {name: torch.from_numpy(np.array(value)) for name, value in optimizer.items()}
        torch_optimizers.restore_statistics(self._descent, named)
        taken, self.skips.total, self.skips.in_a_row = (int(count) for count in state["steps"])
        if self._schedule is not None:
            self._schedule.steps = taken
        self._dtype = state["context_type"].dtype if "context_type" in state else None
        self._read_as = {}

    def note(self) -> Any:
        """Return what :meth:`undo` needs: what :meth:`state` has, left in tensors, which is quicker."""
        tensors = [*self._parameters, *self.module.buffers()]
        statistics = {
            parameter: {k: v.clone() if isinstance(v, Tensor) else v for k, v in values.items()}
            for parameter, values in self._descent.state.items()
        }
        copies = [(tensor, tensor.detach().clone()) for tensor in tensors]
        steps = None if self._schedule is None else self._schedule.steps
        return copies, statistics, steps, (self.skips.total, self.skips.in_a_row), self._dtype

    def undo(self, noted: Any) -> None:
        """Put back what :meth:`note` returned."""
        copies, statistics, steps, (self.skips.total, self.skips.in_a_row), self._dtype = noted
        with torch.no_grad():
            for tensor, before in copies:
                tensor.copy_(before)
        self._descent.state.clear()
        self._descent.state.update(statistics)
        self._descent.zero_grad(set_to_none=True)
        self._read_as = {}
        if self._schedule is not None:
            self._schedule.steps = steps

    def frozen(self) -> "Torch":
        """Return a copy that computes features and nothing else; training this one does not reach it."""
        twin = shallow(self)
        for name in ("_descent", "_parameters"):
            twin.__dict__.pop(name, None)
        twin.module, twin._head = copy.deepcopy((self.module, self._head))
        twin._read_as = dict(self._read_as)
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> "Torch":
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        new.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return new

    def __getstate__(self) -> dict[str, Any]:
        return {"pickled": pickled({**self.__dict__, "_read_as": {}})}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(pickle.loads(state["pickled"]))

    def __repr__(self) -> str:
        device = "" if self.device.type == "cpu" else f", device={str(self.device)!r}"
        return f"Torch({type(self.module).__name__}, width={self._width}, optimizer={self._named_optimizer}{device})"


def _made(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Call a function that makes a module, with PyTorch's generator set to a seed for as long as that takes."""
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)
        return make()


def _shape_of(module: nn.Module) -> tuple[int, ...] | None:
    shape = getattr(module, "context_shape", None)
    return None if shape is None else tuple(shape)


def _looks_up(module: nn.Module) -> bool:
    return any(isinstance(part, nn.Embedding | nn.EmbeddingBag) for part in module.modules())
