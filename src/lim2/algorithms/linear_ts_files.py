"""LinearTS of lim2 0.2 with ``scaled``, ``standardize`` or ``forget``: its files open as AdaptiveTS(hidden=()).

Such a file holds sums over all rewards of every arm. They are expressed in the scales that the moments give now, and
become the sums over evicted tuples of an agent whose buffer is empty.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

from lim2.algorithms.adaptive_ts import LINEAR_SCALE, AdaptiveTS, State
from lim2.algorithms.delays import Delays
from lim2.algorithms.reward_scale import NO_REWARDS, RewardScale, scale_of
from lim2.algorithms.scale_free_prior import A0, ITEM_VARIANCE, LINEAR_A0, variance_of
from lim2.exploration import UCB, Random, named
from lim2.exploration.posterior import Posterior
from lim2.exploration.sqrt_posterior import LinearPosterior
from lim2.exploration.sufficient_statistics import Sums, centred, fit, of_arm
from lim2.moments import Moments, Scaling, scaling
from lim2.representation.view import narrowed, squared_lengths
from lim2.state import Array, check, rebuilt

REMOVED = ("scaled", "standardize", "forget")
_SHARED = ("n_arms", "n_features", "arms", "initial_pulls", "epsilon", "seed", "n_item_features")


class Rewards(NamedTuple):
    """Moments of the rewards about a centre, which the sums are about, too."""

    center: float
    scale: Annotated[float, "", "positive"]
    limit: Annotated[float, "", "nonnegative"]
    weight: Annotated[float, "", "nonnegative"]
    offset: float
    squares: Annotated[float, "", "nonnegative"]


class Saved(NamedTuple):
    """State of LinearTS in a file of lim2 0.2."""

    posterior: Posterior
    sums: Sums
    moments: Moments | None
    scaling: Scaling | None
    renewed: Annotated[float, "", "nonnegative"]
    rewards: Rewards | None


def replaced(name: Any, settings: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the algorithm and the settings that continue those of lim2 0.2.

    Examples
    --------
    >>> replaced("LinearTS", {"scaled": True, "exploration": None, "epsilon": 0.1})
    ('AdaptiveTS', {'epsilon': 0.1, 'hidden': ()})
    >>> replaced("LinearTS", {"scaled": False, "a0": 3.0})
    ('LinearTS', {'a0': 3.0})
    """
    if name != "LinearTS":
        return name, dict(settings)
    rest = {key: value for key, value in settings.items() if key not in REMOVED and value is not None}
    if not any(settings.get(key) for key in REMOVED):
        return name, rest
    adapted = {key: value for key, value in rest.items() if key in _SHARED} | {"hidden": ()}
    if "exploration" in rest:
        match named(rest["exploration"]):
            case Random():
                adapted["epsilon"] = 1.0
            case UCB(optimism=optimism):
                adapted |= {"temperature": 0.0, "optimism": optimism / LINEAR_SCALE}
            case policy:
                parts = {name: getattr(policy, name) / LINEAR_SCALE for name in ("temperature", "optimism")}
                adapted |= parts
    return "AdaptiveTS", adapted


def opened(algorithm: AdaptiveTS, leaves: Mapping[str, Any], n_arms: int, rounds: int) -> State:
    """Return the state of AdaptiveTS that knows what the leaves of a LinearTS say."""
    state, columns = algorithm.init(n_arms, np.random.default_rng(0)), algorithm.columns[0]
    saved = _read(algorithm, leaves, n_arms)
    sums = saved.sums
    weight = float(sums.weight.sum())
    if not weight:
        return state
    sums = sums if sums.gram.shape[-1] > columns else _with_constant(sums)
    moments = saved.moments or _moments_of(sums, algorithm.shape[0])
    latest = scaling(moments)
    change = map_between(saved.scaling, latest)
    sums = moved(sums, change if algorithm.crossing is None else algorithm.crossing.mapping(change))
    view = state.view._replace(scaling=latest)
    if view.order is not None:  # the columns that explain most stay features by themselves
        lengths = np.maximum(np.einsum("kii->ki", sums.gram)[:, :-1], np.finfo(float).tiny)
        view = view._replace(order=np.argsort(-(sums.cross[:, :-1] ** 2 / lengths).sum(axis=0), kind="stable"))
        sums = _narrowed(sums, view.order)
    rewards = _reward_scale(saved.rewards, sums)
    linear, noise = _fitted(algorithm, sums, rewards)
    return state._replace(
        view=view, linear=linear, noise=noise, evicted=sums, moments=moments, rewards=rewards, refits=1,
        memory=state.memory._replace(stored=rounds), refitted=rounds, delays=Delays(rounds, 0, 0), tested=rounds + 1,
    )  # fmt: skip


def _read(algorithm: AdaptiveTS, leaves: Mapping[str, Any], n_arms: int) -> Saved:
    """Return the leaves as a state; raise a ValueError if they are none."""
    parts = {"moments": Moments, "scaling": Scaling, "rewards": Rewards}
    kinds = {name: kind if leaves.get(name, 0) is not None else None for name, kind in parts.items()}
    saved: Saved = rebuilt(Saved, leaves, kinds)
    check(saved, {"arm": n_arms, "context": algorithm.shape})
    if saved.sums.gram.shape[-1] - algorithm.columns[0] not in (0, 1) or (saved.moments is None) != (
        saved.scaling is None
    ):
        raise ValueError("the sums do not fit the columns")
    return saved


def _with_constant(sums: Sums) -> Sums:
    """Return the sums with a constant 1 as the last feature, as if columns and rewards were 0 on average."""
    gram, cross = (np.pad(part, [(0, 0), *[(0, 1)] * (part.ndim - 1)]) for part in sums[:2])
    gram[:, -1, -1] = sums.weight
    return sums._replace(gram=gram, cross=cross)


def _moments_of(sums: Sums, columns: int) -> Moments:
    """Return the moments of the first columns."""
    gram, weight = sums.gram.sum(axis=0), float(sums.weight.sum())
    mean = gram[-1, :columns] / weight
    squares = np.maximum(gram.diagonal()[:columns] - weight * mean**2, 0.0)
    return Moments(weight, mean, np.zeros(columns), squares)


def map_between(old: Scaling | None, new: Scaling) -> Array:
    """Return T with (z, 1) = T (z', 1), for z in the new scaling and z' in the old one or unscaled.

    What varies by rounding alone is 0 in the new scaling, wherever its centre is.
    """
    center, scale = (0.0, 1.0) if old is None else (old.center, old.scale)
    out = np.diag(np.append(scale / new.scale, 1.0))
    out[:-1, -1] = (center - new.center) / new.scale
    out[:-1][new.factor == 0.0] = 0.0
    return out


def moved(sums: Sums, mapping: Array) -> Sums:
    """Express the sums in new features, given by a linear map of the current ones."""
    gram = mapping @ sums.gram @ mapping.T
    return sums._replace(gram=0.5 * (gram + gram.transpose(0, 2, 1)), cross=sums.cross @ mapping.T)


def _narrowed(sums: Sums, order: Any) -> Sums:
    """Express the sums in the features of a narrowed context and the constant."""

    def rows(matrix: Array) -> Array:
        return np.column_stack((narrowed(matrix[:, :-1], order), matrix[:, -1]))

    return sums._replace(gram=np.array([rows(rows(gram).T) for gram in sums.gram]), cross=rows(sums.cross))


def _reward_scale(saved: Rewards | None, sums: Sums) -> RewardScale:
    """Return the moments of the rewards; their origin is that of the sums."""
    if saved is None:
        weight = float(sums.weight.sum())
        offset = float(sums.cross[:, -1].sum()) / weight
        saved = Rewards(0.0, 1.0, 0.0, weight, offset, max(float(sums.squares.sum()) - weight * offset**2, 0.0))
    mean = saved.center + saved.offset
    scale = scale_of(mean, math.sqrt(saved.squares / saved.weight))
    return NO_REWARDS._replace(
        scale=scale, observed=max(round(saved.weight), 1), mean=mean, origin=saved.center, squares=saved.squares
    )


def _fitted(algorithm: AdaptiveTS, sums: Sums, rewards: RewardScale) -> tuple[LinearPosterior, float]:
    """Return the linear regressions that the sums give, and the noise of all arms together."""
    n_arms, weight = len(sums.weight), float(sums.weight.sum())
    sizes = np.sqrt(np.maximum(np.einsum("kii->i", sums.gram), 0.0) / weight)
    variance = variance_of(n_arms) if algorithm.crossing is None else ITEM_VARIANCE
    precision = squared_lengths(sizes[None], 0) / (variance * rewards.scale**2)
    data = [centred(of_arm(sums, arm), rewards.mean - rewards.origin) for arm in range(n_arms)]
    before = rewards.scale**2
    rests = [_rest(fit(precision * before, one)[0], one) for one in data]
    noise = (A0 * before + 0.5 * sum(rests)) / (A0 + 0.5 * weight)
    fits = [fit(precision * noise, one) for one in data]
    mu = np.array([mean for mean, _ in fits])
    b = LINEAR_A0 * noise + 0.5 * np.array([_rest(mean, one) for mean, one in zip(mu, data, strict=True)])
    mu[:, -1] += rewards.mean
    return LinearPosterior(mu, np.array([root for _, root in fits]), LINEAR_A0 + 0.5 * sums.weight, b), noise


def _rest(mean: Array, sums: Sums) -> float:
    """Return the sum of squares that a fit leaves."""
    return max(float(sums.squares) - float(np.dot(mean, sums.cross)), 0.0)
