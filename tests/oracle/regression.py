"""Component 2 of the paper, exploration: Bayesian linear regression of one arm."""

import numpy as np

from .network import Array


def posterior(prior_cov: Array, mu0: Array, Phi: Array, psi: Array) -> tuple[Array, Array, float]:
    """Posterior update of the section "Exploration".

    Returns (Phi0 + Phi)^-1, the mean mu, and mu0' Phi0 mu0 - mu' (Phi0 + Phi) mu, which with R^2 gives B.
    """
    if np.linalg.cond(prior_cov) > 1e4:  # beyond, the cancellation below costs B more than 1e-9
        return posterior_limit(prior_cov, mu0, Phi, psi)
    Phi0 = np.linalg.inv(prior_cov)
    cov = np.asarray(np.linalg.inv(Phi0 + Phi), dtype=np.float64)
    mu: Array = cov @ (Phi0 @ mu0 + psi)
    return cov, mu, float(mu0 @ Phi0 @ mu0 - mu @ (Phi0 + Phi) @ mu)


def posterior_limit(prior_cov: Array, mu0: Array, Phi: Array, psi: Array) -> tuple[Array, Array, float]:
    """Same three values without Phi0, for a prior covariance that is singular or nearly so.

    EigenValueThresholding leaves zero eigenvalues behind, where Phi0 does not exist. With the root
    S S = Phi0^-1 and Phi0 (mu - mu0) = psi - Phi mu, the formulas above become ones that need no Phi0.
    """
    values, vectors = np.linalg.eigh(prior_cov)
    S = vectors @ np.diag(np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    cov: Array = S @ np.linalg.inv(np.eye(len(mu0)) + S @ Phi @ S) @ S
    mu: Array = mu0 + cov @ (psi - Phi @ mu0)
    return cov, mu, float(-mu0 @ (psi - Phi @ mu) - mu @ psi)
