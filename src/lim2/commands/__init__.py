"""The commands of `lim2`, a module each; `lim2.cli` puts them together."""
