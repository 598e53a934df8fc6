"""A Markdown extension that fills in what is made from the code: the command line and the HTTP interface.

A line `{{ command line }}` stands for the reference of all commands, `{{ http }}` for that of all calls.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import typer
import typer.cli
from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

import lim2.cli
from lim2.serve.app import NATIVE, PERSONALIZER
from lim2.serve.openapi import document
from tools.docstrings import PAGE


def command_line() -> str:
    """Return the help of all commands as Markdown."""
    command = typer.main.get_command(lim2.cli.program())
    _with_whole_lines(command)
    text: str = typer.cli.get_docs_for_click(obj=command, ctx=typer.Context(command), name="lim2")
    text = PAGE.sub(r"[docs/\1.md](../\1.md)", text)
    text = re.sub(r"^Example: (.+)$", r"Example: `\1`", text, flags=re.MULTILINE)
    return text.split("\n", 1)[1].strip()  # without its title: the page has one


def _with_whole_lines(command: Any) -> None:
    """Let the list of commands have the first paragraph of each help, which is cut otherwise."""
    for one in getattr(command, "commands", {}).values():
        one.short_help = " ".join((one.help or "").partition("\n\n")[0].split())
        _with_whole_lines(one)


PROTOCOLS = {
    "The native protocol": "/v1/",
    "Personalizer, version 1.0": "/personalizer/v1.0/",
    "Personalizer, version 1.1-preview.3": "/personalizer/v1.1-preview.3/",
    "Personalizer, ?api-version=2022-09-01-preview": "/personalizer/",
    "The service itself": "/",
}
OF_PERSONALIZER = "(Personalizer)"  # after the name of an object of its protocol


def http() -> str:
    """Return all calls, with the fields of what is sent and answered, as Markdown."""
    groups: dict[str, list[str]] = {title: [] for title in PROTOCOLS}
    objects: dict[str, Any] = {}
    for operations in (NATIVE, PERSONALIZER):
        made = document(operations, "")
        if operations is PERSONALIZER:
            made = _renamed(made, objects)
        objects |= made["components"]["schemas"]
        for path, methods in made["paths"].items():
            group = next(title for title, start in PROTOCOLS.items() if path.startswith(start))
            for method, call in methods.items():
                groups[group] += _call(f"{method.upper()} {path}", call)
    parts = [line for title, lines in groups.items() for line in (f"## {title}", "", *lines)]
    parts += ["## Objects", ""]
    for name, schema in sorted(objects.items()):
        parts += _object(name, schema)
    return "\n".join(parts)


def _renamed(made: dict[str, Any], taken: dict[str, Any]) -> dict[str, Any]:
    """Return a document in which objects have other names where another document has the same ones."""
    schemas = made["components"]["schemas"]
    text = json.dumps(made)
    for name in schemas:
        if name in taken and schemas[name] != taken[name]:
            text = text.replace(f'#/components/schemas/{name}"', f'#/components/schemas/{name} {OF_PERSONALIZER}"')
            schema = json.dumps(schemas[name])
            text = text.replace(f'"{name}": {schema}', f'"{name} {OF_PERSONALIZER}": {schema}')
    renamed: dict[str, Any] = json.loads(text)
    return renamed


def _call(title: str, call: dict[str, Any]) -> Iterator[str]:
    yield from (f"### `{title}`", "", _line(call.get("description") or call.get("summary", "")), "")
    for one in call.get("parameters", []):
        yield f"- `{one['name']}`, in the {one['in']}: {_line(one.get('description', '')) or _kind(one['schema'])}"
    for kind, content in call.get("requestBody", {}).get("content", {}).items():
        shown = "" if kind == "application/json" else f", `{kind}`"
        yield f"- body{shown}: {_kind(content.get('schema', {}))}"
    for status, answer in call["responses"].items():
        if not status.startswith(("4", "5")):
            kinds = [_kind(content.get("schema", {})) for content in answer.get("content", {}).values()]
            yield f"- answer, {status}: {', '.join(kinds) or 'empty'}"
    yield ""


def _object(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from (f"### {name} {{ #{_anchor(name)} }}", "", _line(schema.get("description", "")), "")
    needed = schema.get("required", [])
    fields = schema.get("properties", {})
    if fields:
        yield from ("| field | type | |", "|---|---|---|")
    for field, own in fields.items():
        rest = "required" if field in needed else _line(own.get("description", ""))
        yield f"| `{field}` | {_kind(own)} | {rest} |"
    yield ""


def _anchor(name: str) -> str:
    return "object-" + re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")


def _kind(schema: dict[str, Any]) -> str:
    """Return a type in words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{_anchor(name)})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_kind(schema['additionalProperties'])}"
    kind = schema.get("type", "anything")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("``", "`")


MADE: dict[str, Callable[[], str]] = {"{{ command line }}": command_line, "{{ http }}": http}


class Fill(Preprocessor):
    """Replaces the lines that stand for something."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines of the page, filled."""
        return [new for line in lines for new in (MADE[line]().split("\n") if line in MADE else [line])]


class Generated(Extension):
    """The extension."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Fill before fences are read."""
        md.preprocessors.register(Fill(md), "generated", 50)


def makeExtension(**settings: object) -> Generated:  # noqa: N802
    """Return the extension, as Markdown asks for it."""
    return Generated(**settings)
