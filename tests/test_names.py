"""A call has one name in Python, in the client, over HTTP and on the command line: as the table in the guide says."""

import re

import pytest
import typer
from helpers.pages import DOCS

pytest.importorskip("starlette")

import lim2
import lim2.cli
from lim2.serve.app import all_operations
from lim2.serve.openapi import document

PAGE = (DOCS / "guides" / "proof.md").read_text()
ROWS = [line.strip("|").split("|") for line in PAGE[PAGE.index("## Calls") :].splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip())
def test_every_call_of_the_table_exists(row: list[str]) -> None:
    _, python, client, http, command = (re.findall(r"`([^`]+)`", cell) for cell in row)
    for owner, name in (text.split(".") for text in (*python, *client)):
        assert hasattr(getattr(lim2, owner), name), (owner, name)
        assert owner != "Client" or hasattr(lim2.AsyncClient, name), name
    called, *fields = http
    method, path = called.split()
    made = document(all_operations(), "")
    operation = made["paths"][path][method.lower()]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
    assert set(fields) <= set(made["components"]["schemas"][schema]["properties"]), fields
    for text in command:
        found = typer.main.get_command(lim2.cli.program())
        for part in text.split()[1:]:
            found = found.commands[part]  # type: ignore[attr-defined]


def test_methods_that_bandits_and_clients_share_are_in_the_table() -> None:
    named = {name for row in ROWS for name in re.findall(r"`Client\.(\w+)`", row[2])}
    assert {"proof", "pin", "pause", "resume", "evaluate", "change"} == named
