"""Results as a reader wants them: one HTML page, figures, Markdown, and tables for LaTeX."""

from lim2.experiments.report.write import write_report

__all__ = ["write_report"]
