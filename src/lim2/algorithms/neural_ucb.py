"""NeuralUCB: optimism over a network's gradients, the paper's baseline 3."""

from dataclasses import dataclass

from lim2.algorithms.gradient import GradientBandit
from lim2.exploration import UCB, Exploration


@dataclass(frozen=True, kw_only=True, eq=False)
class NeuralUCB(GradientBandit):
    """Upper confidence bounds with a network's output as the mean and its gradient as features.

    One network with one hidden layer predicts the reward of every arm; the arm selects the block of the input that
    holds the context. The score of an arm is its output plus sqrt(lambda nu g' U^-1 g), where g is the gradient of the
    output with respect to all parameters, and U is lambda I plus the sum of g g' over all plays. After every reward the
    network is trained further on the whole history.

    Parameters
    ----------
    arms
        Names of the arms, any hashable values, instead of ``n_arms``.
    regularization
        lambda: initial diagonal of U and, divided by the number of training tuples, the weight decay.
    nu
        Factor of the variance of a score, and so of the exploration.
    learning_rate
        Rate of gradient descent.
    iterations
        Largest number of steps of a training. None: 1,000 for ``"sample"``, 100 for ``"batch"``, as in the official
        code.
    stop_loss
        Mean squared error of a pass over the history at which training stops early.
    training
        ``"sample"``: one step per tuple, in shuffled order, with at most 1,000 iterations and an early stop, as
        reported in the paper. ``"batch"``: one step per pass over the whole history, as in later revisions of the
        official code; its cost grows with the history.
    covariance
        ``"diagonal"``: only the diagonal of U, as in the paper's runs. ``"full"``: the whole matrix, for small
        networks; memory and time of an update grow with the square of the number of parameters, n_arms x n_features x
        hidden + 2 hidden + 1.
    normalize
        Whether to scale every context to norm 1, as the official code does with its data. At a fixed rate, gradient
        descent diverges on much longer contexts, such as outliers of standardised data; ``update`` then raises a
        FloatingPointError and changes nothing. Turn it off if the length of a context matters.
    history
        Largest number of tuples to train on; the oldest are dropped first. None: all.
    initial_pulls
        Number of initial pulls of every arm, in turn. The default is 0, as in the official code.
    epsilon
        Share of decisions that are drawn uniformly among the eligible arms or items, from 0 to 1.
    seed
        Seed of the random streams. The same seed and inputs give the same decisions.
    standardize
        Whether to scale raw columns by their running mean and standard deviation, before ``normalize``. The history
        holds raw values.

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
