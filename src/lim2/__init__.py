"""Contextual bandits that learn a neural representation online, in bounded memory."""

__version__ = "0.1.0"
