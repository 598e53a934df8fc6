"""Files of agents: the container, values in JSON, and writing to disk. Nothing in here knows of agents."""

from lim2.persistence.container import LoadError

__all__ = ["LoadError"]
