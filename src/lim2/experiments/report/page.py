"""The page that both reports are: one file with its style, its script, its data and the library that draws."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from lim2.experiments.report import colours, texts
from lim2.experiments.report.charts import Drawn, as_data
from lim2.experiments.report.runs import METRICS

SCRIPTS = ("numbers.js", "charts.js", "views.js", "page.js")
LIBRARY = "plotly-basic.min.js"  # of the package plotly.js-basic-dist-min; its licence is beside it
Figures = Sequence[tuple[str, Drawn]]  # with the names of their files


def render(
    template: str,
    figures: Figures,
    sets: Mapping[str, Mapping[str, Any]],
    /,
    loaders: Sequence[str] = (),
    **context: Any,
) -> str:
    """Return a page."""
    data = {
        "metrics": [asdict(metric) for metric in METRICS],
        "charts": {f"{name}/{i}": as_data(chart) for name, drawn in figures for i, chart in enumerate(drawn.charts)},
        "sets": sets,
    }
    number = len(colours.SHADES)
    return (
        _environment(loaders)
        .get_template(template)
        .render(
            data=_packed(json.dumps(data, separators=(",", ":"), ensure_ascii=False)),
            style=Markup(_text("templates/page.css")),
            library=_library(),
            notice=_text(f"vendor/{LIBRARY}").split("*/")[0].strip("/* \n"),
            script=Markup("\n".join(_text(f"script/{name}") for name in SCRIPTS)),
            metrics=METRICS,
            light=[colours.shade(i) for i in range(number)],
            dark=[colours.shade(i, dark=True) for i in range(number)],
            grey=colours.GREY,
            **context,
        )
    )


def slug(label: str) -> str:
    """Return a label as a part of a file's name.

    Examples
    --------
    >>> slug("My problem: 2")
    'my-problem-2'
    """
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


@cache
def _text(path: str) -> str:
    return files("lim2.experiments.report").joinpath(path).read_text(encoding="utf-8")


def _packed(text: str) -> str:
    """Return a text that the page's script unpacks: a page is at most 3 MB, and numbers deflate to a third."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


@cache
def _library() -> str:
    return _packed(_text(f"vendor/{LIBRARY}"))


def _colour(index: int) -> str:
    return "--grey" if index < 0 else f"--c{index % len(colours.SHADES)}"


def _environment(loaders: Sequence[str]) -> jinja2.Environment:
    package_loaders = [jinja2.PackageLoader(package) for package in (*loaders, "lim2.experiments.report")]
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(package_loaders), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    shown: dict[str, Any] = {
        "number": texts.number,
        "plus_minus": texts.plus_minus,
        "percent": texts.percent,
        "microseconds": texts.microseconds,
        "megabytes": texts.megabytes,
        "p_value": texts.p_value,
        "slug": slug,
        "colour": _colour,
    }
    environment.filters.update(shown)
    return environment
