"""The OpenAPI document describes the service, and no request that it allows makes the service fail."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from helpers.waiting import PATIENCE
from serve.running import KEY, Running
from starlette.testclient import TestClient

from lim2.serve.app import NATIVE, PERSONALIZER, all_operations
from lim2.serve.service import Service

NODE = Path(__file__).parent / "node"
CASES = int(os.environ.get("LIM2_SERVE_CASES", "90"))  # requests that schemathesis makes up; `make test`: few


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(part) for part in value.values()))
    return set().union(*(references(part) for part in value)) if isinstance(value, list) else set()


DOCUMENTS = {"/openapi.json": NATIVE, "/personalizer/openapi.json": PERSONALIZER}
documents = pytest.mark.parametrize("path", DOCUMENTS)


def fetched(client: TestClient, path: str) -> Any:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.json()


@documents
def test_every_operation_is_described(path: str, client: TestClient) -> None:
    made, operations = fetched(client, path), DOCUMENTS[path]
    described = {call["operationId"]: call for methods in made["paths"].values() for call in methods.values()}
    assert set(described) == {own.name for own in operations}
    for own in operations:
        call = described[own.name]
        assert call["summary"] and {str(own.status), "500", "503"} <= set(call["responses"])
        assert ("requestBody" in call) == (own.body is not None)
        if own.body not in (None, bytes):
            msgspec.convert(call["requestBody"]["content"]["application/json"]["example"], own.body)
    for reference in references(made):
        assert reference.removeprefix("#/components/schemas/") in made["components"]["schemas"]
    assert all(re.fullmatch(r"[A-Za-z0-9]+", name) for name in made["components"]["schemas"])


@documents
def test_objects_without_fields_may_have_any(path: str, client: TestClient) -> None:
    def check(schema: Any) -> None:
        if isinstance(schema, dict):
            if schema.get("type") == "object":
                assert "properties" in schema or "additionalProperties" in schema, schema
            schema = list(schema.values())
        for part in schema if isinstance(schema, list) else ():
            check(part)

    check(fetched(client, path))


def test_the_page_to_try_calls_loads_both_documents_and_nothing_else(client: TestClient) -> None:
    page = client.get("/docs").text
    assert all(path.removeprefix("/") in page for path in DOCUMENTS)
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)


def test_without_documents_the_dashboard_does_not_link_to_them(client: TestClient, service: Service) -> None:
    for shown in (True, False):
        service.config = msgspec.structs.replace(service.config, docs=shown)
        for path in ("/docs", *DOCUMENTS):
            assert client.get(path).status_code == (200 if shown else 404)
        for path in ("/docs", "/openapi.json"):
            assert (f'href="{path}"' in client.get("/").text) is shown


def test_the_examples_work_one_after_the_other(client: TestClient) -> None:
    paths = {name: path for made in DOCUMENTS for name, path in _paths(fetched(client, made))}
    known = {own.name: own for own in all_operations()}
    native = (
        "create decide decide_many rank reward reward_many activate explain overview decision show change list "
        "snapshot add_arm remove_arm erase delete"
    )
    dialect = "rank reward activate multislot.rank multislot.reward multislot.activate"
    for name in [*native.split(), *(f"2022-09-01-preview.{part}" for part in dialect.split())]:
        own = known[name]
        path, described = paths[name]
        for part in described["parameters"]:
            path = path.replace(f"{{{part['name']}}}", quote(part.get("example", ""), safe=""))
        content = described["requestBody"]["content"]["application/json"]["example"] if own.body else None
        answer = client.request(own.method, path, json=content)
        assert answer.status_code == own.status, f"{name}: {answer.text}"


def _paths(made: Any) -> Iterator[tuple[str, tuple[str, Any]]]:
    """Give each operation's name with its path and its description."""
    for path, methods in made["paths"].items():
        for call in methods.values():
            yield call["operationId"], (path, call)


def test_what_may_exist_already_has_an_answer_for_that(client: TestClient) -> None:
    paths = fetched(client, "/openapi.json")["paths"]
    for path, method in (("/v1/bandits/{name}", "put"), ("/v1/bandits/{name}/arms", "post")):
        assert {"200", "201"} <= set(paths[path][method]["responses"]), path


needs_node = pytest.mark.skipif(
    not (NODE / "node_modules" / "openapi-typescript").is_dir() or shutil.which("node") is None,
    reason="the generator of TypeScript is not installed: npm ci --prefix tests/serve/node",
)


def node(tool: str, *arguments: str) -> None:
    """Run a tool that npm has installed."""
    command = [str(NODE / "node_modules" / ".bin" / tool), *arguments]
    done = subprocess.run(command, cwd=NODE, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_node
@documents
def test_redocly_finds_no_error(path: str, client: TestClient, tmp_path: Path) -> None:
    (tmp_path / "openapi.json").write_text(client.get(path).text)
    node("redocly", "lint", str(tmp_path / "openapi.json"), "--max-problems", "20")


@needs_node
def test_a_client_for_typescript_is_generated_compiled_and_works(server: Running, tmp_path: Path) -> None:
    for name, path in (("native", "/openapi.json"), ("personalizer", "/personalizer/openapi.json")):
        document = tmp_path / f"{name}.json"
        document.write_bytes(msgspec.json.encode(server.call("GET", path)[1]))
        node("openapi-typescript", str(document), "--output", str(tmp_path / f"{name}.d.ts"))
    (tmp_path / "node_modules").symlink_to(NODE / "node_modules")
    for name in ("client.ts", "tsconfig.json"):
        (tmp_path / name).write_text((NODE / name).read_text())
    (tmp_path / "package.json").write_text('{"type": "module"}')
    node("tsc", "--strict", "--project", str(tmp_path))
    command = ["node", "client.js", server.url, KEY]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found == {"arm": "spring", "status": "recorded", "refused": "BadRequest", "ranked": "pasta"}


@documents
def test_no_request_that_a_document_allows_makes_the_service_fail(path: str, server: Running, tmp_path: Path) -> None:
    pytest.importorskip("schemathesis")
    cases = CASES * len(DOCUMENTS[path]) // len(all_operations())
    count = len(DOCUMENTS[path]) - 1
    each = -(-3 * cases // (2 * count)) if count < cases else 1  # some operations have little to vary
    # fmt: off
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}{path}", "--no-color",
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
    assert int(found.group(1).replace(",", "")) >= cases
    assert "Traceback" not in server.errors.read_text()
