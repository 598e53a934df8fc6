"""docs/service/run.md: its calls work, its settings are all there are. The same for README and the tutorial."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from helpers.pages import ROOT, blocks, without_numbers
from serve.running import KEY, Running

import lim2
from lim2.serve.config import Config, PersonalizerDefaults, RaySettings, variable
from lim2.serve.examples import BODIES
from lim2.serve.metrics import Metrics
from lim2.serve.spec import BanditSpec

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "service" / "run.md").read_text()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_calls_by_curl_work(server: Running) -> None:
    found = [block for block in re.findall(r"```sh\n(.*?)```", TEXT, flags=re.DOTALL) if block.startswith("curl")]
    assert len(found) == 2
    printed = shell("\n".join(found), server)
    assert '"status":"recorded"' in printed and '"eventId":"visit 1"' in printed


def curls(page: Path) -> str:
    """Return the calls of a page: the blocks that use the address and the key."""
    found = [block.text for block in blocks(page, "sh") if "$LIM2/" in block.text]
    assert found
    return "\n".join(re.sub(r"^export .*$", "", text, flags=re.MULTILINE) for text in found)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("pages", [("README.md",), ("docs/tutorial/service.md", "docs/tutorial/deploy.md")])
def test_calls_of_the_first_pages_work(server: Running, pages: tuple[str, ...], tmp_path: Path) -> None:
    """Those of the tutorial continue one another; the Python on its page runs between them."""
    server.call("DELETE", "/v1/bandits/banner")
    first, *rest = [ROOT / page for page in pages]
    printed = shell(curls(first), server)
    assert '"propensities":' in printed and '{"status":"recorded"}' in printed
    for page in rest:
        for answer in blocks(first, "json"):
            assert without_draws(answer.text) in without_draws(printed.replace("}{", "}\n{"))
        (snippet,) = blocks(first, "python")
        (tmp_path / "page.py").write_text(snippet.text.replace("http://127.0.0.1:8300", server.url))
        done = subprocess.run(
            [sys.executable, "-W", "error", "page.py"], cwd=tmp_path, env={**os.environ, "LIM2_API_KEY": KEY},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stdout == "".join(block.text for block in blocks(first, "text")), done.stderr
        with lim2.Client(server.url, KEY, bandit="banner") as client:  # "after some days"
            client.reward_many([(one.id, 1.0) for one in client.decide_many([{"context": {}}] * 30)])
        assert '"snips"' in shell(curls(page), server)


def test_the_first_pages_create_the_same_bandit() -> None:
    """So a reader who goes from one to the next, in one folder, is not refused with 409."""
    pages = ("README.md", "docs/service/run.md", "docs/tutorial/service.md")
    created = [re.findall(r"-X PUT .*? -d '(.*?)'", curls(ROOT / page), flags=re.DOTALL) for page in pages]
    wanted = [[BODIES[BanditSpec]]] * len(pages)
    assert [[json.loads(body) for body in bodies] for bodies in created] == wanted


def without_draws(text: str) -> str:
    """Return an answer without numbers and without the arm: the service draws from the system, so any arm may come."""
    return re.sub(r'"arm":"[^"]*"', '"arm":"?"', without_numbers(text))


def shell(commands: str, server: Running) -> str:
    done = subprocess.run(
        ["bash", "-e"], input=commands, env={**os.environ, "LIM2": server.url, "LIM2_API_KEY": KEY},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows() -> dict[str, tuple[str, str]]:
    found = re.findall(r"^\| `([\w.]+)` \| `(LIM2_\w+)` \| (?:`(.*?)`)? ?\|", TEXT, flags=re.MULTILINE)
    return {name: (key, default) for name, key, default in found}


def test_every_setting_is_listed_with_its_variable_and_default() -> None:
    wanted = {}
    for field in msgspec.structs.fields(Config):
        if field.name not in ("keys", "personalizer", "ray"):
            wanted[field.name] = (variable(field.name), written(field.default))
    for field in msgspec.structs.fields(PersonalizerDefaults):
        wanted[f"personalizer.{field.name}"] = (f"LIM2_PERSONALIZER_{field.name.upper()}", written(field.default))
    for field in msgspec.structs.fields(RaySettings):
        wanted[f"ray.{field.name}"] = (f"LIM2_RAY_{field.name.upper()}", written(field.default))
    assert rows() == wanted


def written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None or value == () or value is msgspec.NODEFAULT else str(value)


def test_every_metric_is_listed() -> None:
    made = re.findall(r"# TYPE (lim2_\w+) (\w+)", Metrics().text().decode())
    missing = {name for name, _ in made if name not in TEXT and not name.endswith("_created")}
    assert missing == {"lim2_model_rounds_total"}  # which the page shows
