"""The snippets of docs/service/run.md and the examples of docs/guides/client.md run, against a real service."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.waiting import PATIENCE

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from helpers.ports import free_port
from serve.running import DECIDE, KEY, Running

import lim2

DOCS = Path(__file__).parent.parent.parent / "docs"
NODE = Path(__file__).parents[1] / "serve" / "node"
ADDRESS = "http://127.0.0.1:8300"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("snippets") / "data") as running:
        yield running


@pytest.fixture
def banner(server: Running) -> Iterator[lim2.Client]:
    with lim2.Client(server.url, KEY, bandit="banner") as client:
        client.create(arms=["spring", "shoes"])
        yield client
        client.delete()


def snippet(language: str, server: Running) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", (DOCS / "service" / "run.md").read_text(), flags=re.DOTALL)
    assert len(found) == 1
    assert ADDRESS in found[0]
    return str(found[0]).replace(ADDRESS, server.url)


def run(*command: str, cwd: Path, **environment: str) -> str:
    given = {**os.environ, "LIM2_API_KEY": KEY, "LIM2_DECIDE_KEY": DECIDE, **environment}
    done = subprocess.run(command, cwd=cwd, env=given, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def test_typescript(server: Running, banner: lim2.Client, tmp_path: Path) -> None:
    node = tool("node")
    if not (NODE / "node_modules" / "typescript").is_dir():
        pytest.skip("TypeScript is not installed: npm ci --prefix tests/serve/node")
    known = "declare const process: { env: Record<string, string | undefined> };\nexport {};\n"
    (tmp_path / "package.json").write_text('{"type": "module"}')
    # A busy machine may take longer than the snippet waits.
    (tmp_path / "snippet.ts").write_text(known + snippet("ts", server).replace("timeout(1000)", "timeout(60000)"))
    run(node, str(NODE / "compile.cjs"), str(tmp_path / "snippet.ts"), cwd=tmp_path)
    run(node, "snippet.js", cwd=tmp_path)
    assert (banner.info()["decisions"], banner.info()["pending"]) == (1, 0)


def test_go(server: Running, banner: lim2.Client, tmp_path: Path) -> None:
    go = tool("go")
    patient = snippet("go", server).replace("Timeout: time.Second", "Timeout: time.Minute")
    function, _, rest = patient.partition("var decision")
    head = 'package main\n\nimport ("bytes"; "encoding/json"; "fmt"; "net/http"; "os"; "time")\n\n'
    main = f"\nfunc main() {{\nvar decision{rest}\nif err != nil {{ panic(err) }}\nfmt.Println(decision.Arm)\n}}\n"
    (tmp_path / "main.go").write_text(head + function + main)
    shown = run(
        go, "run", "main.go", cwd=tmp_path, GOCACHE=str(tmp_path / "cache"), GOFLAGS="-mod=mod", GO111MODULE="off"
    )
    assert shown.strip() in ("spring", "shoes")
    assert (banner.info()["decisions"], banner.info()["pending"]) == (1, 0)


def test_php(server: Running, banner: lim2.Client, tmp_path: Path) -> None:
    php = tool("php")
    # A busy machine may take longer than the snippet waits.
    (tmp_path / "snippet.php").write_text("<?php\n" + snippet("php", server).replace("1.0,", "60.0,"))
    run(php, "-d", "error_reporting=E_ALL", "snippet.php", cwd=tmp_path)
    assert (banner.info()["decisions"], banner.info()["pending"]) == (1, 0)


def test_a_snippet_says_that_nobody_answers(server: Running, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    (tmp_path / "snippet.php").write_text("<?php\n" + snippet("php", server).replace(server.url, url))
    done = subprocess.run([tool("php"), "snippet.php"], cwd=tmp_path, capture_output=True, text=True)
    assert "lim2 does not answer" in done.stdout + done.stderr


def test_a_snippet_says_what_was_wrong(server: Running, tmp_path: Path) -> None:
    """There is no bandit of its name."""
    (tmp_path / "snippet.php").write_text("<?php\n" + snippet("php", server).replace("1.0,", "60.0,"))
    done = subprocess.run(
        [tool("php"), "snippet.php"],
        cwd=tmp_path,
        env={**os.environ, "LIM2_DECIDE_KEY": DECIDE},
        capture_output=True,
        text=True,
    )
    assert "there is no bandit 'banner'" in done.stdout + done.stderr


def test_the_page_of_the_python_client(server: Running, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "guides" / "client.md").read_text(), flags=re.DOTALL)
    assert len(blocks) >= 4
    text = "\n".join(blocks).replace(ADDRESS, server.url)
    (tmp_path / "page.py").write_text(text)
    run(sys.executable, "-W", "error", "page.py", cwd=tmp_path)
