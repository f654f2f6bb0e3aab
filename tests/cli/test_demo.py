import json
import logging

import pytest
from typer.testing import CliRunner

from agenttool.cli import demo
from agenttool.cli.main import app

run = CliRunner().invoke


@pytest.fixture(autouse=True)
def _restored_log_level(caplog):
    caplog.set_level(logging.ERROR, "agenttool.calls")  # the demo sets it for its process


def test_every_check_of_the_demo_passes():
    outcome = run(app, ["demo", "--json"])
    lines = [json.loads(line) for line in outcome.stdout.splitlines()]
    checks = [line for line in lines if line["type"] == "check"]
    assert outcome.exit_code == 0
    assert len(checks) > 8
    assert all(check["passes"] for check in checks)


def test_the_demo_prints_its_sections_for_a_terminal(monkeypatch):
    async def section(report, _folder):
        report.section("Every call ends in a result")
        report.table(("call", "status"), [("add(19, 23)", "succeeded")])
        report.check("a call has one result", passes=True)

    monkeypatch.setattr(demo, "run_sections", section)
    outcome = run(app, ["demo"])
    assert outcome.exit_code == 0
    printed = [
        "Every call ends in a result",
        "add(19, 23)  succeeded",
        "✓ a call has one result",
        "✓ 1 of 1 checks pass",
    ]
    assert [each for each in printed if each not in outcome.stdout] == []


def test_a_check_that_fails_fails_the_demo(monkeypatch):
    async def failing(report, _folder):
        report.check("the moon is cheese", passes=False)

    monkeypatch.setattr(demo, "run_sections", failing)
    outcome = run(app, ["demo"])
    assert outcome.exit_code == 1
    assert "✗ the moon is cheese" in outcome.stdout
