"""Contexts of a hundred million: covariances stay covariances."""

from pathlib import Path

import numpy as np
import pytest

import lim2


@pytest.mark.parametrize("size", [1e6, 1e8])
def test_ntk_keeps_covariances_positive_semi_definite(tmp_path: Path, size: float) -> None:
    agent = lim2.NeuralLinearNTK(3, 5, hidden=(10,), buffer=50, batch=16, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        context = size * rng.normal(size=5)
        agent.update(context, agent.act(context), float(rng.normal()))
        cov = agent.state.posterior.cov
        assert (cov == cov.transpose(0, 2, 1)).all()
        eigenvalues = np.linalg.eigvalsh(cov)
        assert (eigenvalues[:, 0] >= -1e-12 * eigenvalues[:, -1]).all()
    agent.save(tmp_path / "agent.lim2")
    assert lim2.load(tmp_path / "agent.lim2").rounds == 200
