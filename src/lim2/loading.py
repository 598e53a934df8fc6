"""``lim2.load`` and ``lim2.from_bytes``: read a saved agent, item agent or bandit."""

import os
from pathlib import Path
from typing import Any

from lim2._blas import one_thread
from lim2.bandit import Bandit, files
from lim2.items import agent_around
from lim2.learner import Learner
from lim2.persistence import agents
from lim2.persistence.container import START, LoadError, check_start, unpack
from lim2.representation import Representation


def load(path: str | os.PathLike[str], *, seed: int | None = None, representation: Representation | None = None) -> Any:
    """Return the agent or bandit saved in a file. It learns exactly, bit for bit, as the saved one would have.

    An agent that was made with a seed also makes the same decisions as the saved one would have. An agent without a
    seed decides from a new random stream in every process that loads it.

    Parameters
    ----------
    path
        A file written by ``agent.save`` or ``bandit.save`` of this or an older version of lim2.
    seed
        Seed of new random streams for decisions, see :meth:`lim2.Agent.reseed`. None: as described above.
    representation
        The representation of the agent, needed only if a file cannot describe it: a ``lim2.representation.Torch`` with
        a custom module or a PyTorch optimizer, or a custom class. The saved parameters replace its parameters.

    Raises
    ------
    LoadError
        The file is not a saved agent, was truncated or altered, has an unsupported version, or does not fit the
        representation. It is a ValueError.
    OSError
        The file cannot be read.
    ModuleNotFoundError
        The agent needs PyTorch, which is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import lim2
    >>> agent = lim2.LinearTS(n_arms=2, n_features=1, seed=0)
    >>> agent.update([1.0], 0, 1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     agent.save(f"{folder}/agent.lim2")
    ...     loaded = lim2.load(f"{folder}/agent.lim2")
    >>> loaded.rounds, [loaded.act([1.0]) for _ in range(9)] == [agent.act([1.0]) for _ in range(9)]
    (1, True)
    """
    try:
        with Path(path).open("rb") as file:
            start = file.read(START)
            check_start(start)  # before reading on: whatever it is may be long
            return from_bytes(start + file.read(), seed=seed, representation=representation)
    except LoadError as error:
        raise LoadError(f"{os.fspath(path)}: {error}") from error


def from_bytes(data: bytes, *, seed: int | None = None, representation: Representation | None = None) -> Any:
    """Return the agent or bandit stored in the bytes that ``to_bytes`` returned; see :func:`load`.

    Parameters
    ----------
    data
        The result of ``agent.to_bytes()``, or the content of a saved file.

    Examples
    --------
    >>> import lim2
    >>> agent = lim2.LinearTS(n_arms=2, n_features=1, seed=0)
    >>> agent.update([1.0], 0, 1.0)
    >>> lim2.from_bytes(agent.to_bytes()).rounds
    1
    """
    check_start(data[:START])
    header, arrays = unpack(data)
    with one_thread:
        if files.KIND in header:
            core, rows = files.parse(header, arrays, seed=seed, representation=representation)
            return Bandit.around(core, rows=rows)
        return agent_around(Learner(*agents.read(header, arrays, seed=seed, representation=representation)))
