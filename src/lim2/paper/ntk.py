"""The neural tangent kernel of a network while it is trained under a random policy: supplement A.

The network is in the parametrisation of Jacot, Gabriel and Hongler, *Neural tangent kernel*, NeurIPS 2018: all
parameters start as N(0, 1), and the scale 1/sqrt(inputs) is part of the function,

    f(x) = V relu(W x / sqrt(d) + beta b) / sqrt(m) + beta c,        beta = 0.1,

so that at the start the kernel K(x, y) = sum over parameters of df(x) df(y) does not depend on the width m, and in the
limit of infinite width it stays constant in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2.memory import empty, sample, store
from lim2.representation.optimizers import SGD, Optimizer, RMSProp, begin, descend

Array = NDArray[np.float64]

BETA = 0.1
EVERY = 50  # iterations between two notes of the kernel


class NTKNetwork:
    """One hidden layer in the NTK parametrisation, one output per arm.

    Examples
    --------
    >>> net = NTKNetwork(3, 100_000, 2, SGD(0.1), np.random.default_rng(0))
    >>> x = np.array([[1.0, -1.0, 1.0]])
    >>> round(net.kernel(x, x), 2)  # in the limit |x|^2 / d + 2 beta^2
    1.02
    """

    def __init__(
        self, n_features: int, width: int, n_arms: int, optimizer: Optimizer, rng: np.random.Generator
    ) -> None:
        sizes = (width * n_features, width, n_arms * width, n_arms)
        self.parameters = rng.normal(size=sum(sizes))
        self._shapes = ((width, n_features), (width,), (n_arms, width), (n_arms,))
        self._splits = np.cumsum(sizes)[:-1]
        self.optimizer = optimizer
        self._descent = begin(optimizer, self.parameters.size)
        self._inner, self._outer = 1 / np.sqrt(n_features), 1 / np.sqrt(width)

    def _parts(self, flat: Array) -> list[Array]:
        return [part.reshape(shape) for part, shape in zip(np.split(flat, self._splits), self._shapes, strict=True)]

    def _hidden(self, contexts: Array) -> Array:
        W, b, _, _ = self._parts(self.parameters)
        hidden: Array = np.maximum(contexts @ W.T * self._inner + BETA * b, 0.0)
        return hidden

    def outputs(self, contexts: Array) -> Array:
        """Return the estimated reward of every arm, (n, n_arms)."""
        _, _, V, c = self._parts(self.parameters)
        outputs: Array = self._hidden(contexts) @ V.T * self._outer + BETA * c
        return outputs

    def train_step(self, contexts: Array, arms: NDArray[np.intp], rewards: Array) -> None:
        """Take one step on the mean squared error of the played arms."""
        _, _, V, c = self._parts(self.parameters)
        hidden = self._hidden(contexts)
        played = V[arms] * self._outer
        errors = (hidden * played).sum(axis=1) + BETA * c[arms] - rewards
        slopes = np.zeros((len(arms), len(c)))
        slopes[np.arange(len(arms)), arms] = 2.0 * errors / len(arms)
        flow = 2.0 * errors[:, None] / len(arms) * played * (hidden > 0)
        gradient = np.empty_like(self.parameters)
        dW, db, dV, dc = self._parts(gradient)
        dW[:] = flow.T @ contexts * self._inner
        db[:] = BETA * flow.sum(axis=0)
        dV[:] = slopes.T @ hidden * self._outer
        dc[:] = BETA * slopes.sum(axis=0)
        self.parameters, self._descent, _ = descend(self.optimizer, self._descent, self.parameters, gradient)

    def kernel(self, x: Array, y: Array, arm: int = 0) -> float:
        """Return K(x, y) of an arm's output for two contexts, each as one row."""
        v = self._parts(self.parameters)[2][arm]
        hx, hy = self._hidden(x)[0], self._hidden(y)[0]
        both = (hx > 0) & (hy > 0)
        inputs = float(x[0] @ y[0]) * self._inner**2 + BETA**2
        return float(self._outer**2 * (hx @ hy + inputs * (v[both] @ v[both])) + BETA**2)


class KernelWatch:
    """An agent that plays at random, trains its network every round as LiM2 does, and notes the kernel.

    ``contexts`` are the two whose kernel is noted, ``every`` so many iterations. ``optimizer`` is ``"rmsprop"``, as
    in the published runs, or ``"sgd"``. ``buffer`` and ``batch`` are tuples per arm.
    """

    def __init__(
        self,
        n_arms: int,
        n_features: int,
        *,
        width: int,
        contexts: Sequence[Sequence[float]],
        optimizer: str = "rmsprop",
        every: int = EVERY,
        buffer: int = 100,
        batch: int = 16,
        seed: int | None = None,
    ) -> None:
        init, self._act_rng, self._learn_rng = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3))
        steps = RMSProp() if optimizer == "rmsprop" else SGD(0.01)
        self.network = NTKNetwork(n_features, width, n_arms, steps, init)
        self.n_arms = n_arms
        self._memory = empty(buffer * n_arms, n_arms, (n_features,))
        self._batch = batch * n_arms
        self._pair = [np.asarray(context, dtype=float)[None] for context in contexts]
        self._every, self._iterations = every, 0
        self._notes: list[tuple[float, ...]] = []
        self._note_kernel()

    def act(self, context: Array) -> int:  # noqa: ARG002
        """Choose any arm."""
        return int(self._act_rng.integers(self.n_arms))

    def update(self, context: Array, arm: int, reward: float) -> None:
        """Store the tuple, train on a batch, and note the kernel now and then."""
        self._memory, _ = store(self._memory, context, arm, reward)
        batch = sample(self._memory, self._batch, self._learn_rng)
        self.network.train_step(batch.contexts, batch.arms, batch.rewards)
        self._iterations += 1
        if self._iterations % self._every == 0:
            self._note_kernel()

    def _note_kernel(self) -> None:
        b, other = self._pair
        kernels = (self.network.kernel(b, b), self.network.kernel(other, other), self.network.kernel(b, other))
        self._notes.append((float(self._iterations), *kernels))

    @property
    def traces(self) -> dict[str, Any]:
        """The kernel's values: K(b, b), K(b', b') and K(b, b')."""
        columns = np.array(self._notes).T.tolist()
        return dict(zip(("iteration", "b,b", "b',b'", "b,b'"), columns, strict=True))
