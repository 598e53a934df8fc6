"""docs/serve.md tells the truth: its calls work, its settings are all there are."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from serve.running import KEY, Running

from lim2.serve.config import Config, PersonalizerDefaults, variable
from lim2.serve.metrics import Metrics

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "serve.md").read_text()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_calls_by_curl_work(server: Running) -> None:
    blocks = [block for block in re.findall(r"```sh\n(.*?)```", TEXT, flags=re.DOTALL) if block.startswith("curl")]
    assert len(blocks) == 2
    done = subprocess.run(
        ["bash", "-e"], input="\n".join(blocks), env={**os.environ, "LIM2": server.url, "KEY": KEY},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '"outcome":"recorded"' in done.stdout and '"eventId":"visit 1"' in done.stdout


def rows() -> dict[str, tuple[str, str]]:
    found = re.findall(r"^\| `([\w.]+)` \| `(LIM2_\w+)` \| (?:`(.*?)`)? ?\|", TEXT, flags=re.MULTILINE)
    return {name: (key, default) for name, key, default in found}


def test_every_setting_is_listed_with_its_variable_and_default() -> None:
    wanted = {}
    for field in msgspec.structs.fields(Config):
        if field.name != "personalizer":
            wanted[field.name] = (variable(field.name), written(field.default))
    for field in msgspec.structs.fields(PersonalizerDefaults):
        wanted[f"personalizer.{field.name}"] = (f"LIM2_PERSONALIZER_{field.name.upper()}", written(field.default))
    assert rows() == wanted


def written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None or value == () or value is msgspec.NODEFAULT else str(value)


def test_every_metric_is_listed() -> None:
    made = re.findall(r"# TYPE (lim2_\w+) (\w+)", Metrics().text().decode())
    missing = {name for name, _ in made if name not in TEXT and not name.endswith("_created")}
    assert missing == {"lim2_model_rounds"}  # which the page shows
