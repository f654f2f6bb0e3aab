"""`agenttool conformance`: what it shows, what it prints for programs, and how it exits."""

import json
from pathlib import Path

import pytest
from requirement_marks import load_requirements
from typer.testing import CliRunner

from agenttool.cli.main import app
from agenttool.conformance.coverage import Proof, ProofOutcome, encode_document, measure_coverage, report_of
from agenttool.conformance.ledger import load_areas

PASSED = Proof("tests/test_a.py::test_one", ProofOutcome.PASSED)
FAILED = Proof("tests/test_a.py::test_two[red]", ProofOutcome.FAILED)
SKIPPED = Proof("tests/test_a.py::test_two[red]", ProofOutcome.SKIPPED)


def run(*arguments: str | Path):
    return CliRunner().invoke(app, ["conformance", *(str(argument) for argument in arguments)])


def write_report(folder: Path, evidence: dict[str, list[Proof]]) -> Path:
    path = folder / "report.json"
    path.write_text(encode_document(report_of(measure_coverage(load_areas(), evidence))))
    return path


def test_without_a_report_the_ledger_is_listed_with_the_way_to_a_report():
    result = run()
    assert result.exit_code == 0
    assert "Agent Tool 0.2.0" in result.stdout
    assert "Reactive Agent Protocol" in result.stdout
    assert "make conformance" in result.stdout


def test_without_a_report_json_is_the_whole_ledger():
    result = run("--json")
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)["requirements"]) == 614


def test_without_a_report_everything_is_missing():
    result = run("--missing", "--area", "security")
    assert result.exit_code == 0
    assert [f"RAP-34{n}" in result.stdout for n in range(6)] == [True] * 5 + [False]


def test_a_sound_report_is_shown_however_little_it_proves(tmp_path: Path):
    result = run(write_report(tmp_path, {"RAP-001": [PASSED]}))
    assert result.exit_code == 0
    assert "1/139" in result.stdout


def test_one_area_can_be_chosen(tmp_path: Path):
    result = run(write_report(tmp_path, {"RAP-001": [PASSED]}), "--area", "transport")
    assert "TRANSPORT" in result.stdout
    assert "DISPATCH" not in result.stdout
    assert "Agent Tool" not in result.stdout


def test_missing_lists_the_text_of_unproved_requirements(tmp_path: Path):
    result = run(write_report(tmp_path, {"RAP-001": [PASSED]}), "--area", "TRANSPORT", "--missing")
    assert "RAP-001" not in result.stdout
    assert "RAP-010 SHOULD Use HTTPS in production." in " ".join(result.stdout.split())


def test_json_is_one_document_and_nothing_else(tmp_path: Path):
    path = write_report(tmp_path, {"RAP-001": [PASSED]})
    result = run(path, "--json")
    assert result.stdout == path.read_text()
    assert result.stderr == ""


def test_json_follows_area_and_missing(tmp_path: Path):
    path = write_report(tmp_path, {"RAP-340": [PASSED]})
    document = json.loads(run(path, "--json", "--area", "SECURITY", "--missing").stdout)
    assert [each["id"] for each in document["requirements"]] == ["RAP-341", "RAP-342", "RAP-343", "RAP-344"]
    assert [area["area"] for area in document["areas"]] == ["SECURITY"]


@pytest.mark.parametrize("options", [[], ["--json"], ["--area", "MODEL"]])
def test_a_failed_test_gives_exit_code_one_whatever_is_shown(tmp_path: Path, options: list[str]):
    assert run(write_report(tmp_path, {"RAP-001": [FAILED]}), *options).exit_code == 1


def test_a_failed_test_is_named_with_its_parameters(tmp_path: Path):
    result = run(write_report(tmp_path, {"RAP-001": [FAILED]}))
    assert "failed: tests/test_a.py::test_two[red]" in result.stdout


def test_an_unknown_id_gives_exit_code_one_and_is_named(tmp_path: Path):
    result = run(write_report(tmp_path, {"RAP-999": [PASSED]}))
    assert result.exit_code == 1
    assert "unknown requirement 'RAP-999', named by tests/test_a.py::test_one" in result.stdout


@pytest.mark.parametrize("garbage", [b"", b"{}", b"\xff", b'{"report_version": 7}'])
def test_a_report_that_is_none_gives_exit_code_two_and_advice(tmp_path: Path, garbage: bytes):
    path = tmp_path / "garbage.json"
    path.write_bytes(garbage)
    result = run(path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "one with `make conformance`" in result.stderr


def test_a_report_that_is_not_there_gives_exit_code_two(tmp_path: Path):
    for path in (tmp_path / "nowhere.json", tmp_path):
        result = run(path)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"report cannot be read: {str(path)!r}" in result.stderr


def test_an_unknown_area_gives_exit_code_two_and_the_known_ones():
    result = run("--area", "nowhere")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "unknown area 'nowhere'; use one of MODEL, " in result.stderr


def test_every_figure_is_readable_in_eighty_columns(tmp_path: Path):
    everything = {requirement.id: [PASSED] for requirement in load_requirements()}
    lines = [line.split() for line in run(write_report(tmp_path, everything)).stdout.splitlines()]
    totals = [line for line in lines if line[:1] == ["all"]]
    assert totals == [
        ["all", "51/51", "303/303", "17/17", "■■■■■■", "100%"],
        ["all", "139/139", "83/83", "21/21", "■■■■■■", "100%"],
    ]
    assert sum(line[-1:] == ["100%"] for line in lines) == len(load_areas()) + 2


def test_an_area_shows_proved_of_all_for_each_obligation(tmp_path: Path):
    proved = {name: [PASSED] for name in ("AT-SURF-01", "AT-MODEL-01", "AT-MODEL-02", "AT-MODEL-03")}
    lines = [line.split() for line in run(write_report(tmp_path, proved), "--area", "MODEL").stdout.splitlines()]
    assert ["MODEL", "Layers", "and", "core", "objects", "-", "3/6", "-", "■■■···", "50%"] in lines


def test_the_ledger_without_a_run_shows_counts_only():
    assert ["all", "139", "83", "21"] in [line.split() for line in run().stdout.splitlines()]


def test_a_missing_requirement_is_shown_with_the_tests_that_did_not_prove_it(tmp_path: Path):
    shown = " ".join(run(write_report(tmp_path, {"RAP-033": [SKIPPED]}), "--missing").stdout.split())
    assert "RAP-033 MUST NOT Retry after a 4xx. skipped: tests/test_a.py::test_two[red]" in shown
