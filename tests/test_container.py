"""Dockerfile and compose file: linted where the linters are installed, and what can be run without Docker is run."""

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
REPLICAS = ROOT / "deploy" / "replicas"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMMAND = re.search(r"^HEALTHCHECK .* CMD (\[.*\])$", DOCKERFILE, flags=re.MULTILINE)


def tool(name: str, install: str = "pip install -r requirements/dev.txt") -> str:
    """Return the path of a linter, beside this Python or elsewhere; skip if there is none."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip(f"{name} is not installed: {install}")
    return found


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run([tool("hadolint"), "--no-color", str(ROOT / "Dockerfile")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", ["compose.yaml", "deploy/replicas/compose.yaml"])
def test_the_compose_file_follows_the_schema(file: str) -> None:
    command = [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(ROOT / file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_service_in_the_compose_file_has_no_more_rights_than_it_needs() -> None:
    yaml = pytest.importorskip("yaml")
    msgspec = pytest.importorskip("msgspec")
    from lim2.serve.config import Config

    service: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["lim2"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert set(service["environment"].values()) == {None}  # no secret is written down
    known = {f"LIM2_{field.name.upper()}" for field in msgspec.structs.fields(Config)}
    assert {"LIM2_API_KEY", "LIM2_DECIDE_KEY", "LIM2_READ_KEY", "LIM2_SECURE_COOKIE"} <= set(service["environment"])
    assert set(service["environment"]) <= known


def test_the_replicas_have_no_more_rights_than_they_need_and_known_settings() -> None:
    yaml = pytest.importorskip("yaml")
    msgspec = pytest.importorskip("msgspec")
    from lim2.serve.config import load

    services: dict[str, Any] = yaml.safe_load((REPLICAS / "compose.yaml").read_text())["services"]
    assert services["decider"]["deploy"]["replicas"] > 1 and services["learner"]["deploy"]["replicas"] > 1
    for name in ("decider", "learner", "balancer"):
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["security_opt"] == ["no-new-privileges:true"]
    published = [port for own in services.values() for port in own.get("ports", ())]
    assert published == ["127.0.0.1:8300:8300"]  # the balancer's, on the loopback
    for name in ("decider", "learner"):
        own = services[name]["environment"]
        given = {key: value for key, value in own.items() if value is not None}
        assert own["LIM2_API_KEY"] is None and ":?" in given["LIM2_STORE"]  # no secret is written down
        config = load(environment=given)
        known = {f"LIM2_{field.name.upper()}" for field in msgspec.structs.fields(type(config))}
        assert set(own) <= known
        assert config.role == {"decider": "decide", "learner": "learn"}[name]
        assert config.drain + 5 < float(services[name]["stop_grace_period"].removesuffix("s"))


def test_the_balancers_configuration_is_valid() -> None:
    done = subprocess.run(
        [tool("haproxy", "apt-get install haproxy"), "-c", "-f", str(REPLICAS / "haproxy.cfg")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    warnings = [line for line in done.stderr.splitlines() if "WARNING" in line and "could not resolve" not in line]
    assert warnings == []


def test_the_image_runs_as_nobody_in_particular_and_holds_no_secret() -> None:
    last = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    assert re.search(r"^USER 10001:10001$", last, flags=re.MULTILINE)
    assert "KEY" not in DOCKERFILE
    assert "ARG" not in DOCKERFILE


def test_what_is_copied_is_there_and_nothing_else_is_sent() -> None:
    rules = (ROOT / ".dockerignore").read_text().split()
    assert rules[0] == "*"
    sent = [rule[1:] for rule in rules if rule.startswith("!")]
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, flags=re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    assert sorted(names) == sorted(sent)
    assert all((ROOT / name).exists() for name in names)
    assert not any(fnmatch.fnmatch(name, ".env*") or "data" in name for name in sent)


def test_the_health_check_tells_a_server_that_answers_from_none(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from serve.running import Running

    assert COMMAND is not None
    command = [sys.executable, *json.loads(COMMAND[1])[1:]]
    with Running(tmp_path / "data") as server:
        environment = {**os.environ, "LIM2_PORT": str(server.port)}
        assert subprocess.run(command, env=environment).returncode == 0
    assert subprocess.run(command, env=environment, stderr=subprocess.DEVNULL).returncode != 0
