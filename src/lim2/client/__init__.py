"""Clients of ``lim2 serve``: the methods of ``lim2.Bandit`` over HTTP, with safe retries."""

from lim2.client.client import AsyncClient, Client
from lim2.client.errors import ClientError, RefusedError, UnreachableError
from lim2.client.results import Estimate, ServedDecision, ServedEvaluation, ServedSlate

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "Estimate",
    "RefusedError",
    "ServedDecision",
    "ServedEvaluation",
    "ServedSlate",
    "UnreachableError",
]
