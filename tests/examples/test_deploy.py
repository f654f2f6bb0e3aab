"""The examples of deployment: each can be read by its format, and they agree with each other."""

import configparser
import json
import re
from pathlib import Path

import yaml

from agenttool.config.reader import read_config

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"


def test_the_container_runs_without_root_and_asks_for_the_health_of_its_port():
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    final = lines[max(number for number, line in enumerate(lines) if line.startswith("FROM ")) :]
    (user,) = [line.split()[1] for line in final if line.startswith("USER ")]
    assert user not in ("0", "root")
    (health,) = [line for line in final if line.startswith("HEALTHCHECK ")]
    assert ":8642/healthz" in json.loads(health[health.index("[") :])[-1]
    (command,) = [json.loads(line.removeprefix("CMD ")) for line in final if line.startswith("CMD ")]
    assert command == ["serve", "--settings", "/etc/agenttool/agenttool.toml"]


def test_the_container_copies_files_that_exist_and_never_the_whole_folder():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    names = " ".join(copied).split()
    assert "." not in names  # it may hold keys, journals and an environment
    assert [each for each in names if not (DEPLOY.parents[1] / each).exists()] == []


def test_the_settings_of_the_container_are_valid_and_require_a_key():
    config = read_config(DEPLOY / "agenttool.toml")
    assert (config.server.port, config.server.requires_key) == (8642, True)


def test_compose_publishes_the_port_on_loopback_only():
    (service,) = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values()
    assert service["ports"] == ["127.0.0.1:8642:8642"]
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).resolve() == DEPLOY / "Dockerfile"


def test_the_unit_is_the_one_of_the_page():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(DEPLOY / "agenttool.service")
    page = (DEPLOY.parents[1] / "docs/how-to/deploy.md").read_text()
    shown = re.search(r'title="agenttool.service"\n(.*?)```', page, re.DOTALL)[1]
    same = shown.replace(" serve --from shop", " serve")
    assert (DEPLOY / "agenttool.service").read_text() == same
    assert unit["Service"]["User"] == "agenttool"
