"""``lim2.load``: an agent, an agent for items, or a bandit, whichever a file holds."""

import os
from pathlib import Path
from typing import Any

from lim2 import loading
from lim2.bandit import files
from lim2.items import ItemAgent
from lim2.persistence.container import START, LoadError, check_start, unpack
from lim2.representation import Representation


def load(path: str | os.PathLike[str], *, seed: int | None = None, representation: Representation | None = None) -> Any:
    """Return the agent or bandit that was saved to a file; it learns on, bit for bit, as the saved one would have.

    An agent that was made with a seed also goes on deciding as the saved one would have. One without a seed decides
    from a fresh random stream in every process that loads it.

    Parameters
    ----------
    path
        A file written by ``agent.save`` or ``bandit.save``, by this version of lim2 or an older one.
    seed
        Decide from a new random stream, as ``agent.reseed(seed)`` does; None: as above.
    representation
        The representation that the agent was made with, if it is one that a file cannot describe: a
        ``lim2.representation.Torch`` with a module of your own or with an optimizer of PyTorch, or a class of your own.
        Its parameters may be any: they are replaced by the saved ones.

    Raises
    ------
    LoadError
        A ValueError: the file is not a saved agent, was truncated or altered, is of another version, or does not fit
        the representation. There is no half-loaded agent.
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
    """Return the agent or bandit that ``to_bytes`` was called of, or whose file this is; see :func:`load`.

    Parameters
    ----------
    data
        What ``agent.to_bytes()`` returned.
    seed, representation
        As for :func:`load`.

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
    if files.KIND in header:
        return files.parse(header, arrays, seed=seed, representation=representation)
    agent = loading.made_of(header, arrays, seed=seed, representation=representation)
    return agent if agent.algorithm.n_item_features is None else ItemAgent(agent)
