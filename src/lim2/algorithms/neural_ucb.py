"""NeuralUCB: optimism over a network's gradients, the paper's baseline 3."""

from dataclasses import dataclass

from lim2.algorithms.gradient import GradientBandit
from lim2.exploration import UCB, Exploration


@dataclass(frozen=True, kw_only=True, eq=False)
class NeuralUCB(GradientBandit):
    """Upper confidence bounds with a network's output as the mean and its gradient as features.

    One network of one hidden layer predicts the reward of every arm; the arm is encoded by the block of the input that
    the context is placed in. The score of an arm is its output plus sqrt(lambda nu g' U^-1 g), where g is the output's
    gradient with respect to all parameters, and U starts at lambda I and sums g g' over all plays. After every reward
    the network is trained on the whole history, from where it was.

    Parameters
    ----------
    n_arms, n_features
        Number of arms, and size of a context.
    arms
        Instead of ``n_arms``: the names of the arms, any hashable values.
    hidden
        Width of the hidden layer.
    regularization
        lambda: where the diagonal of U starts, and, over the number of tuples trained on, the weight decay.
    nu
        Scales the variance of a score, and so the exploration.
    learning_rate
        Rate of gradient descent.
    iterations
        Largest number of steps of a training. None: 1,000 for ``"sample"``, 100 for ``"batch"``, as in the official
        code.
    stop_loss
        Training stops early when the mean squared error of a pass over the history is at most this.
    training
        ``"sample"``: one step per tuple, in shuffled order; the form with at most 1,000 iterations and an early stop,
        which is what the paper says it ran, and so the default. ``"batch"``: one step per pass over the whole history,
        as in later revisions of the official code; its cost grows with the history.
    covariance
        ``"diagonal"`` keeps the diagonal of U, as in the paper's runs; ``"full"`` all of it, for small networks:
        memory and time of an update grow with the square of the number of parameters,
        n_arms x n_features x hidden + 2 hidden + 1.
    normalize
        Scale every context to norm 1, as the official code does with its data. At a fixed rate, gradient descent
        diverges on contexts that are much longer, as outliers of standardised data are; then ``update`` raises
        FloatingPointError and changes nothing. Turn it off where the length of a context matters.
    history
        How many tuples to train on at most; the oldest leave first. None: all of them.
    initial_pulls
        How often every arm is played, in turn, at the start. 0, as in the official code: what is unknown is explored
        by its deviation.
    min_propensity
        Every eligible arm is chosen with at least this probability; at most 1 / n_arms.
    seed
        The same seed and inputs give the same decisions.
    standardize
        Scale raw columns by their running mean and deviation, before ``normalize``; the history holds raw values.

    References
    ----------
    Zhou, Li and Gu, *Neural contextual bandits with UCB-based exploration*, ICML 2020.

    Examples
    --------
    >>> import lim2
    >>> agent = lim2.NeuralUCB(n_arms=2, n_features=1, hidden=4, seed=0)
    >>> before = agent.variances([1.0])
    >>> agent.update([1.0], 0, 1.0)
    >>> bool(abs(agent.means([1.0])[0] - 1.0) < 0.05)  # squared error 0.001, where training stops
    True
    >>> (agent.variances([1.0]) < before).tolist()  # arm 1 shares the last layer
    [True, True]
    """

    @property
    def policy(self) -> Exploration:
        """The arm with the largest mean plus deviation."""
        return UCB(1.0)
