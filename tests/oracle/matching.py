"""Component 4 of the paper, likelihood matching: the prior covariance under new features."""

import numpy as np

from .network import Array


def eigenvalue_thresholding(A: Array) -> Array:
    """EigenValueThresholding: the nearest PSD matrix, negative eigenvalues set to 0."""
    values, vectors = np.linalg.eigh(A)
    projected: Array = vectors @ np.diag(np.maximum(values, 0.0)) @ vectors.T
    return projected


def objective_gradient(A: Array, phi: Array, s2: float) -> Array:
    """Gradient of (Trace(X'A) - s^2)^2 with respect to A, where X = phi phi'."""
    X = np.outer(phi, phi)
    gradient: Array = 2.0 * (np.trace(X.T @ A) - s2) * X
    return gradient


def pgd_sample(A0: Array, old: Array, new: Array, alpha: float) -> Array:
    """Run Algorithm PGD to the letter: a gradient step and a projection per sample."""
    A = A0.copy()
    for phi_old, phi in zip(old, new, strict=True):
        s2 = float(phi_old @ A0 @ phi_old)
        A = A - alpha * objective_gradient(A, phi, s2)
        A = eigenvalue_thresholding(A)
    return A


def pgd_batch(A0: Array, old: Array, new: Array, alpha: float, clip: float = 5.0, ridge: float = 1e-5) -> Array:
    """Take one step along the clipped mean gradient of the samples, project, add the ridge."""
    if len(new) == 0:
        return A0.copy()
    gradient = np.zeros_like(A0)
    for phi_old, phi in zip(old, new, strict=True):
        s2 = float(phi_old @ A0 @ phi_old)
        gradient += objective_gradient(A0, phi, s2) / len(new)
    norm = np.sqrt(np.sum(gradient**2))
    if norm > clip:
        gradient = gradient * (clip / norm)
    return eigenvalue_thresholding(A0 - alpha * gradient) + ridge * np.eye(len(A0))


def transport_map(old: Array, new: Array, ridge: float) -> Array:
    """M = (Z'Z + rho I)^-1 (Z'Z_old + rho I), the least-squares map from new to old features.

    With Z_old = Z M, the variance z_old' A z_old of a sample is z' (M A M') z.
    """
    g = new.shape[1]
    trace = np.trace(new.T @ new)
    if trace == 0.0:
        return np.eye(g)
    rho = ridge * trace / g
    M: Array = np.linalg.inv(new.T @ new + rho * np.eye(g)) @ (new.T @ old + rho * np.eye(g))
    return M


def transport(A0: Array, M: Array) -> Array:
    """M A0 M'."""
    moved: Array = M @ A0 @ M.T
    return moved
