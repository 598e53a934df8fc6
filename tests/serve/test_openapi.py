"""The OpenAPI document describes the service, and no request that it allows makes the service fail."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from serve.running import KEY, Running
from starlette.testclient import TestClient

from lim2.serve.app import all_operations
from lim2.serve.openapi import document, plain_path
from lim2.serve.service import Service

CASES = int(os.environ.get("LIM2_SERVE_CASES", "90"))  # requests that schemathesis makes up; `make test`: few


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(part) for part in value.values()))
    return set().union(*(references(part) for part in value)) if isinstance(value, list) else set()


def test_every_operation_is_described() -> None:
    made = document(all_operations())
    for own in all_operations():
        described = made["paths"][plain_path(own.path)][own.method.lower()]
        assert described["summary"] and str(own.status) in described["responses"]
        assert ("requestBody" in described) == (own.body is not None)
        if own.body not in (None, bytes):
            msgspec.convert(described["requestBody"]["content"]["application/json"]["example"], own.body)
    names = [own.name for own in all_operations()]
    assert len(set(names)) == len(names)
    for reference in references(made):
        assert reference.removeprefix("#/components/schemas/") in made["components"]["schemas"]


def test_the_document_and_the_page_to_try_it_are_served(client: TestClient) -> None:
    served = client.get("/openapi.json").json()
    assert served == msgspec.to_builtins(document(all_operations()))
    page = client.get("/docs").text
    assert "openapi.json" in page
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)  # nothing from elsewhere


def test_without_documents_the_dashboard_does_not_link_to_them(client: TestClient, service: Service) -> None:
    for shown in (True, False):
        service.config = msgspec.structs.replace(service.config, docs=shown)
        for path in ("/docs", "/openapi.json"):
            assert client.get(path).status_code == (200 if shown else 404)
            assert (f'href="{path}"' in client.get("/").text) is shown


def test_the_examples_work_one_after_the_other(client: TestClient) -> None:
    made = document(all_operations())
    known = {own.name: own for own in all_operations()}
    native = (
        "create decide decide_many rank reward reward_many activate explain overview decision show change list "
        "snapshot add_arm remove_arm erase delete"
    )
    dialect = "rank reward activate multislot.rank multislot.reward multislot.activate"
    for name in [*native.split(), *(f"2022-09-01-preview.{part}" for part in dialect.split())]:
        own = known[name]
        described = made["paths"][plain_path(own.path)][own.method.lower()]
        path = plain_path(own.path)
        for part in described["parameters"]:
            path = path.replace(f"{{{part['name']}}}", quote(part.get("example", ""), safe=""))
        content = described["requestBody"]["content"]["application/json"]["example"] if own.body else None
        answer = client.request(own.method, path, json=content)
        assert answer.status_code == own.status, f"{name}: {answer.text}"


def test_what_may_exist_already_has_an_answer_for_that() -> None:
    paths = document(all_operations())["paths"]
    for path, method in (("/v1/bandits/{name}", "put"), ("/v1/bandits/{name}/arms", "post")):
        assert {"200", "201"} <= set(paths[path][method]["responses"]), path


def test_no_request_that_the_document_allows_makes_the_service_fail(server: Running, tmp_path: Path) -> None:
    pytest.importorskip("schemathesis")
    count = len(all_operations()) - 1
    each = -(-3 * CASES // (2 * count)) if count < CASES else 1  # some operations have little to vary
    # fmt: off
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json", "--no-color",
        "-H", f"Ocp-Apim-Subscription-Key: {KEY}", "--phases", "fuzzing", "--checks", "not_a_server_error",
        "--max-examples", str(each), "--exclude-path", "/v1/bandits/{name}/events", "--generation-database", "none",
        "--no-shrink", "--continue-on-failure", "--warnings", "off", "--seed", "1", "--request-timeout", "30",
    ]
    # fmt: on
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    print(done.stdout[-2000:])
    assert done.returncode == 0, done.stdout + done.stderr + server.errors.read_text()[-3000:]
    found = re.search(r"(\d[\d,]*) generated", done.stdout)
    assert found is not None
    assert int(found.group(1).replace(",", "")) >= CASES
    assert "Traceback" not in server.errors.read_text()
