"""The paper's pseudo-code transcribed in plain NumPy: slow, literal, the library's reference."""

from .agents import (
    Buffer,
    OracleLiM2,
    OracleLinearTS,
    OracleNTK,
    Tuple,
    oracle_full,
    oracle_mm,
    oracle_naive,
)
from .matching import (
    eigenvalue_thresholding,
    objective_gradient,
    pgd_batch,
    pgd_sample,
    transport,
    transport_map,
)
from .network import Network
from .regression import posterior, posterior_limit

__all__ = [
    "Buffer",
    "Network",
    "OracleLiM2",
    "OracleLinearTS",
    "OracleNTK",
    "Tuple",
    "eigenvalue_thresholding",
    "objective_gradient",
    "oracle_full",
    "oracle_mm",
    "oracle_naive",
    "pgd_batch",
    "pgd_sample",
    "posterior",
    "posterior_limit",
    "transport",
    "transport_map",
]
