"""NeuralUCB and NeuralTS (baselines 3 and 4), transcribed: every input is the explicit concatenation over the arms."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class OracleGradientBandit:
    """One network f(x) = w2' relu(W1 x + b1) + b2 over x = (0, ..., 0, context, 0, ..., 0), context in the arm's block.

    `W1` is (hidden, n_arms * d). Draws and the order of training are handed in by the caller.
    """

    def __init__(
        self,
        W1: Array,
        b1: Array,
        w2: Array,
        b2: float,
        n_arms: int,
        *,
        exploration: str,
        regularization: float = 0.001,
        nu: float = 1.0,
        learning_rate: float = 0.01,
        iterations: int = 1000,
        stop_loss: float = 0.001,
        training: str = "sample",
        covariance: str = "diagonal",
        normalize: bool = True,
        history: int | None = None,
    ) -> None:
        self.W1, self.b1, self.w2, self.b2 = W1.copy(), b1.copy(), w2.copy(), float(b2)
        self.n_arms = n_arms
        self.exploration = exploration
        self.regularization = regularization
        self.nu = nu
        self.learning_rate = learning_rate
        self.iterations = iterations
        self.stop_loss = stop_loss
        self.training = training
        self.covariance = covariance
        self.normalize = normalize
        self.bound = history
        size = self.W1.size + self.b1.size + self.w2.size + 1
        self.U = regularization * (np.ones(size) if covariance == "diagonal" else np.eye(size))
        self.history: list[tuple[Array, float]] = []  # (input, reward), the oldest first

    def encode(self, context: Array, arm: int) -> Array:
        """Place the context in the arm's block of an otherwise empty vector."""
        d = len(context)
        norm = np.linalg.norm(context)
        x = np.zeros(self.n_arms * d)
        x[arm * d : (arm + 1) * d] = context / norm if self.normalize and norm > 0 else context
        return x

    def f(self, x: Array) -> float:
        """The network's output."""
        return float(self.w2 @ np.maximum(self.W1 @ x + self.b1, 0.0) + self.b2)

    def gradient(self, x: Array) -> tuple[Array, Array, Array, float]:
        """The output's gradient with respect to W1, b1, w2, b2."""
        z = self.W1 @ x + self.b1
        inner = self.w2 * (z > 0)
        return np.outer(inner, x), inner, np.maximum(z, 0.0), 1.0

    def flat_gradient(self, x: Array) -> Array:
        """The same as one vector g."""
        to_W1, to_b1, to_w2, to_b2 = self.gradient(x)
        return np.concatenate([to_W1.ravel(), to_b1, to_w2, [to_b2]])

    def variance(self, x: Array) -> float:
        """The variance lambda nu g' U^-1 g."""
        g = self.flat_gradient(x)
        inside = np.sum(g * g / self.U) if self.covariance == "diagonal" else g @ np.linalg.solve(self.U, g)
        return float(self.regularization * self.nu * inside)

    def act(self, context: Array, draws: Array | None = None) -> int:
        """Play the arm with the largest score; `draws` are standard normal, one an arm."""
        scores = []
        for arm in range(self.n_arms):
            x = self.encode(context, arm)
            deviation = np.sqrt(self.variance(x))
            if self.exploration == "ucb":
                scores.append(self.f(x) + deviation)
            else:
                assert draws is not None, "Thompson sampling needs draws"
                scores.append(self.f(x) + deviation * draws[arm])
        return int(np.argmax(scores))

    def update(self, context: Array, arm: int, reward: float, order: list[int] | None = None) -> tuple[int, float]:
        """Add g to U, then train; `order` tells which samples, oldest = 0, a pass goes through. Steps and loss."""
        x = self.encode(context, arm)
        g = self.flat_gradient(x)
        self.U = self.U + (g * g if self.covariance == "diagonal" else np.outer(g, g))
        self.history.append((x, reward))
        if self.bound is not None:
            self.history = self.history[-self.bound :]
        if self.training == "batch":
            return self.train_batch()
        assert order is not None, "training by samples needs an order"
        return self.train_samples(order)

    def descend(self, gradients: tuple[Array, Array, Array, float]) -> None:
        """One step of gradient descent with weight decay lambda / (length of the history) on all parameters."""
        decay = self.regularization / len(self.history)
        to_W1, to_b1, to_w2, to_b2 = gradients
        self.W1 = self.W1 - self.learning_rate * (to_W1 + decay * self.W1)
        self.b1 = self.b1 - self.learning_rate * (to_b1 + decay * self.b1)
        self.w2 = self.w2 - self.learning_rate * (to_w2 + decay * self.w2)
        self.b2 = self.b2 - self.learning_rate * (to_b2 + decay * self.b2)

    def train_samples(self, order: list[int]) -> tuple[int, float]:
        """Descend on (f - r)^2 of one sample after the other."""
        steps = 0
        while True:
            losses = []
            for i in order:
                x, r = self.history[i]
                error = self.f(x) - r
                to_W1, to_b1, to_w2, to_b2 = self.gradient(x)
                self.descend((2 * error * to_W1, 2 * error * to_b1, 2 * error * to_w2, 2 * error * to_b2))
                losses.append(error**2)
                steps += 1
                if steps == self.iterations:
                    return steps, float(np.mean(losses))
            if np.mean(losses) <= self.stop_loss:
                return steps, float(np.mean(losses))

    def train_batch(self) -> tuple[int, float]:
        """Descend on the mean of (f - r)^2 over the whole history."""
        n = len(self.history)
        for step in range(self.iterations + 1):
            loss = 0.0
            to_W1, to_b1, to_w2, to_b2 = np.zeros_like(self.W1), np.zeros_like(self.b1), np.zeros_like(self.w2), 0.0
            for x, r in self.history:
                error = self.f(x) - r
                loss += error**2 / n
                g = self.gradient(x)
                to_W1 += 2 * error * g[0] / n
                to_b1 += 2 * error * g[1] / n
                to_w2 += 2 * error * g[2] / n
                to_b2 += 2 * error * g[3] / n
            if loss <= self.stop_loss or step == self.iterations:
                break
            self.descend((to_W1, to_b1, to_w2, to_b2))
        return step, loss
