"""Component 1 of the paper, the representation: a ReLU network with one linear output per arm."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Network:
    """f of the paper. `weights[k]` is (fan_in, fan_out); the last pair is the linear head."""

    def __init__(
        self,
        weights: list[Array],
        biases: list[Array],
        *,
        optimizer: str = "rmsprop",
        learning_rate: float = 0.1,
        learning_rate_decay: float = 0.05,
        clip: float | None = 5.0,
    ) -> None:
        if optimizer not in ("rmsprop", "sgd", "adam"):
            raise ValueError(f"unknown optimizer {optimizer!r}")
        self.weights = [np.array(w, dtype=np.float64) for w in weights]
        self.biases = [np.array(b, dtype=np.float64) for b in biases]
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.learning_rate_decay = learning_rate_decay
        self.clip = clip
        self.step = 0
        self.mean_squares = [np.ones_like(p) for p in self.parameters]  # rmsprop
        self.first = [np.zeros_like(p) for p in self.parameters]  # adam
        self.second = [np.zeros_like(p) for p in self.parameters]  # adam

    @property
    def parameters(self) -> list[Array]:
        """All weights, then all biases."""
        return self.weights + self.biases

    def activations(self, context: Array) -> list[Array]:
        """Return the input followed by the activations of every hidden layer."""
        layers = [np.array(context, dtype=np.float64)]
        for W, c in zip(self.weights[:-1], self.biases[:-1], strict=True):
            layers.append(np.maximum(layers[-1] @ W + c, 0.0))
        return layers

    def features(self, context: Array) -> Array:
        """phi = LastLayerActivations(f(b))."""
        return self.activations(context)[-1]

    def outputs(self, context: Array) -> Array:
        """f(b): the estimated reward of every arm."""
        outputs: Array = self.features(context) @ self.weights[-1] + self.biases[-1]
        return outputs

    def gradient(self, contexts: Array, arms: NDArray[np.int64], rewards: Array) -> tuple[float, list[Array]]:
        """Loss (Eq. 1, mean over the batch) and its gradient, in the order of `parameters`."""
        depth = len(self.weights)
        loss = 0.0
        gradients = [np.zeros_like(p) for p in self.parameters]
        for context, arm, reward in zip(contexts, arms, rewards, strict=True):
            layers = self.activations(context)
            error = self.outputs(context)[arm] - reward
            loss += error**2 / len(rewards)
            delta = np.zeros_like(self.biases[-1])  # d loss / d pre-activation of layer k
            delta[arm] = 2.0 * error / len(rewards)  # only the played arm's output is differentiated
            for k in reversed(range(depth)):
                gradients[k] += np.outer(layers[k], delta)
                gradients[depth + k] += delta
                delta = (self.weights[k] @ delta) * (layers[k] > 0)
        return float(loss), gradients

    def train(self, contexts: Array, arms: NDArray[np.int64], rewards: Array) -> float:
        """Take one step on L_NN (Eq. 1); return the loss before it."""
        loss, gradients = self.gradient(contexts, arms, rewards)
        norm = np.sqrt(sum(np.sum(g**2) for g in gradients))
        if self.clip is not None and norm > self.clip:
            gradients = [g * (self.clip / norm) for g in gradients]
        rate = self.learning_rate / (1.0 + self.learning_rate_decay * self.step)
        self.step += 1
        for k, (p, g) in enumerate(zip(self.parameters, gradients, strict=True)):
            if self.optimizer == "sgd":
                p -= rate * g
            elif self.optimizer == "rmsprop":
                self.mean_squares[k] = 0.9 * self.mean_squares[k] + 0.1 * g**2
                p -= rate * g / np.sqrt(self.mean_squares[k] + 1e-10)
            else:
                self.first[k] = 0.9 * self.first[k] + 0.1 * g
                self.second[k] = 0.999 * self.second[k] + 0.001 * g**2
                m_hat = self.first[k] / (1.0 - 0.9**self.step)
                v_hat = self.second[k] / (1.0 - 0.999**self.step)
                p -= rate * m_hat / (np.sqrt(v_hat) + 1e-8)
        return loss
