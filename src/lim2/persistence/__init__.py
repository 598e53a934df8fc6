"""File format: the container, JSON values, and atomic writing. It does not depend on agents."""

from lim2.persistence.container import LoadError

__all__ = ["LoadError"]
