"""Results as a reader wants them: one HTML page, figures, Markdown, and tables for LaTeX; `write` writes them all.

Nothing is imported here: who prints a number needs no figures.
"""
