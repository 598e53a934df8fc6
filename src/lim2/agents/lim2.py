"""NeuralLinear-LiM2: limited memory neural-linear Thompson sampling with likelihood matching, Algorithm 2."""

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar

from lim2.agents.neural import NeuralLinearFamily, Size
from lim2.agents.priors import Carried
from lim2.exploration import Exploration
from lim2.matching import Matching
from lim2.representation import Representation


class LiM2(NeuralLinearFamily):
    """The paper's agent: a network trained online, linear beliefs on its features, a bounded buffer.

    Every round: store the tuple, train the network on one batch from the buffer, carry each arm's covariance over to
    the new features by likelihood matching, take the last layer as the prior of the mean, and restart the linear
    regression of every arm from this prior and the buffer. Time and memory of a round do not grow.

    The defaults are the settings of the published runs; ``docs/decisions.md`` tells where the paper leaves a choice.
    They expect contexts and rewards of the order of 1: give ``standardize=True`` for raw columns, and scale and
    centre rewards.

    Parameters
    ----------
    n_arms
        Number of arms.
    n_features
        Size of a context; for a representation that takes arrays of several axes, e.g. images, their shape. May be left
        out where the representation knows it.
    arms
        Instead of ``n_arms``: what the arms are called, any hashable values.
    hidden
        Sizes of the network's hidden layers; the last is the number of features.
    buffer
        How many tuples are remembered, all arms together. None: 100 an arm.
    batch
        Tuples in a training batch. None: 16 an arm.
    steps
        Batches a round, the paper's P.
    initial_pulls
        How often every arm is played, in turn, at the start.
    min_propensity
        Every eligible arm is chosen with at least this probability; at most 1 / n_arms.
    prior_precision
        The prior covariance starts at I / prior_precision.
    a0, b0
        The noise variance starts at InvGamma(a0, b0).
    learning_rate
        First rate of the network's optimizer, RMSProp with rate decay and clipping. For another optimizer give a
        ``representation``.
    matching
        ``"batch"`` or ``"sample"`` (projected gradient steps), ``"solve"`` (transport), None (no matching); see
        :mod:`lim2.matching`.
    matching_rate
        Gradient rate of the first round; the rate of round t is 1/t of it.
    refresh
        Whose mean is refitted in a round: that of the ``"played"`` arm, or of ``"all"``.
    recount
        True: the last posterior, buffer included, is the prior to which the buffer is added again, as in the paper.
        False: only evicted tuples enter the prior.
    noise
        What the noise is estimated from: all ``"history"`` (evicted rewards count as noise, as in the published runs),
        or only what the ``"buffer"`` holds.
    intercept
        Append a constant 1 to the features and take the last layer's bias into the prior mean.
    exploration
        ``"thompson"``, ``"ucb"``, or an object such as ``lim2.exploration.UCB(optimism=2.0)``.
    representation
        Another network, e.g. ``MLP(hidden=(100, 50), optimizer=Adam(1e-3))`` or any PyTorch module, wrapped in
        ``lim2.representation.Torch``; ``hidden`` and ``learning_rate`` are then not used.
    seed
        The same seed and inputs give the same decisions.
    recompute_every, recompute_share
        How much of the buffer goes through the network again: every so many rounds, this share of it, in turn. The
        tuple just stored, and the batch if it is matched, are up to date in any case. The defaults recompute everything
        in every round, as in the paper; less pays for large networks, see ``docs/representations.md``.
    mean_prior
        Use the last layer as the prior of the mean (the paper); False uses 0.
    matching_clip, matching_jitter, matching_ridge
        Finer settings of the matching step, as in :func:`lim2.matching.match`.
    standardize
        Scale raw columns by their running mean and deviation, part of the agent; the buffer holds raw values. See
        ``docs/learning.md``.
    forget
        By what share all information decays in every round, for worlds that change: 0.001 for a memory of about 1,000
        rounds. 0 forgets nothing. See ``docs/learning.md``.

    References
    ----------
    Nabati, Zahavy and Mannor, *Online limited memory neural-linear bandits with likelihood matching*, ICML 2021.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> agent = LiM2(n_arms=2, n_features=2, seed=0)
    >>> reward = 0.0
    >>> for context in rng.normal(size=(500, 2)):
    ...     arm = agent.act(context)
    ...     r = float(arm == (context[0] * context[1] > 0))
    ...     agent.update(context, arm, r)
    ...     reward += r
    >>> reward > 400  # chance: 250
    True
    >>> agent.memory.counts.sum(), agent.rounds
    (np.int64(200), 500)
    """

    name: ClassVar[str] = "LiM2"

    def __init__(
        self,
        n_arms: int | None = None,
        n_features: Size = None,
        *,
        arms: Iterable[Hashable] | None = None,
        hidden: int | Sequence[int] = (50,),
        buffer: int | None = None,
        batch: int | None = None,
        steps: int = 1,
        initial_pulls: int = 2,
        min_propensity: float = 0.0,
        prior_precision: float = 1.0,
        a0: float = 6.0,
        b0: float = 6.0,
        learning_rate: float = 0.1,
        matching: str | None = "batch",
        matching_rate: float = 0.01,
        refresh: str = "played",
        recount: bool = True,
        noise: str = "history",
        intercept: bool = False,
        exploration: str | Exploration = "thompson",
        representation: Representation | None = None,
        seed: int | None = None,
        recompute_every: int = 1,
        recompute_share: float = 1.0,
        mean_prior: bool = True,
        matching_clip: float = 5.0,
        matching_jitter: float = 1e-5,
        matching_ridge: float = 0.01,
        standardize: bool = False,
        forget: float = 0.0,
    ) -> None:
        super().__init__(
            n_arms,
            n_features,
            arms=arms,
            hidden=hidden,
            batch=batch,
            steps=steps,
            initial_pulls=initial_pulls,
            min_propensity=min_propensity,
            prior_precision=prior_precision,
            a0=a0,
            b0=b0,
            learning_rate=learning_rate,
            refresh=refresh,
            noise=noise,
            intercept=intercept,
            exploration=exploration,
            representation=representation,
            seed=seed,
            recompute_every=recompute_every,
            recompute_share=recompute_share,
            mean_prior=mean_prior,
            standardize=standardize,
            forget=forget,
            settings=locals(),
        )
        self.memory = self._make_buffer(buffer)
        step = None
        if matching is not None:
            step = Matching(
                matching, rate=matching_rate, clip=matching_clip, jitter=matching_jitter, ridge=matching_ridge
            )
        self.prior = Carried(self.posterior, step, recount, prior_precision)
