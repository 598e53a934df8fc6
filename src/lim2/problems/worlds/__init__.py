"""Worlds: small simulators of products with known truth, in which rewards are rare, late or skewed."""
