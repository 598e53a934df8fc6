"""Datasets and synthetic environments: one file each, one interface."""
