"""The plugin from outside: pytest runs on a small folder, and the report says what was proved."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import BOUND_S

pytestmark = pytest.mark.slow

SUPPORT = Path(__file__).resolve().parents[1] / "support"

SAMPLE = """
import pytest
from hypothesis import given, strategies as st

pytestmark = pytest.mark.requirement("AT-MODEL-01")

def test_module_mark(): pass

@pytest.mark.requirement("AT-MODEL-02", "RAP-001")
@pytest.mark.parametrize("number", [1, 2])
def test_parameters(number): pass

@pytest.mark.requirement("AT-MODEL-03")
@given(st.integers())
def test_property(number): pass

class TestInside:
    @pytest.mark.requirement("AT-MODEL-04")
    def test_method(self): pass
"""

TROUBLE = """
import pytest

@pytest.fixture
def broken_before(): raise RuntimeError

@pytest.fixture
def broken_after():
    yield
    raise RuntimeError

@pytest.mark.requirement("RAP-001", "RAP-002")
def test_call_fails(): assert False

@pytest.mark.requirement("RAP-003")
def test_setup_fails(broken_before): pass

@pytest.mark.requirement("RAP-004")
def test_teardown_fails(broken_after): pass

@pytest.mark.requirement("RAP-005")
def test_skipped(): pytest.skip("not here")

@pytest.mark.requirement("RAP-006")
@pytest.mark.xfail(reason="known")
def test_expected_failure(): assert False

@pytest.mark.requirement("RAP-007")
@pytest.mark.xfail(reason="known", strict=False)
def test_unexpected_pass(): pass

@pytest.mark.requirement("RAP-008")
@pytest.mark.left_out
def test_left_out(): pass

@pytest.mark.requirement("RAP-009")
def test_passes(): pass
"""

CRASH = """
import os, pytest

@pytest.mark.requirement("RAP-001")
def test_crash(): os._exit(1)

@pytest.mark.requirement("RAP-002")
def test_survivor(): pass
"""


def run_pytest(folder: Path, *options: str, **files: str) -> subprocess.CompletedProcess[str]:
    """Run the plugin on files of these names in a process of its own."""
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\nmarkers =\n    left_out\n")
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    plugins = ["-p", "requirement_marks", "-p", "xdist.plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *plugins, "--conformance-report=build/report.json", *options]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = clean | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(SUPPORT)}
    return subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=BOUND_S
    )


def read_report(folder: Path) -> dict[str, list[dict[str, object]]]:
    return json.loads((folder / "build" / "report.json").read_text())


def outcomes_in(folder: Path) -> dict[str, str]:
    """Test name to outcome, over all requirements and unknown ids."""
    report = read_report(folder)
    claims = [proof for each in (*report["requirements"], *report["unknown"]) for proof in each["tests"]]
    return {proof["test"].partition("::")[2]: proof["outcome"] for proof in claims}


def covered_in(folder: Path) -> list[object]:
    return [each["id"] for each in read_report(folder)["requirements"] if each["covered"]]


def test_marks_on_modules_classes_and_parameters_are_proved_by_passing_tests(tmp_path: Path):
    run = run_pytest(tmp_path, test_sample=SAMPLE)
    assert run.returncode == 0, run.stdout
    assert "conformance report: " in run.stdout
    assert covered_in(tmp_path) == ["AT-MODEL-01", "AT-MODEL-02", "AT-MODEL-03", "AT-MODEL-04", "RAP-001"]
    names = ["test_module_mark", "test_parameters[1]", "test_parameters[2]", "test_property", "TestInside::test_method"]
    assert outcomes_in(tmp_path) == dict.fromkeys(names, "passed")


@pytest.mark.parametrize("workers", ["0", "2"])
def test_whatever_is_not_a_clean_pass_proves_nothing(tmp_path: Path, workers: str):
    run = run_pytest(tmp_path, "-n", workers, "-m", "not left_out", test_sample=SAMPLE, test_trouble=TROUBLE)
    assert run.returncode == 1
    assert covered_in(tmp_path) == ["AT-MODEL-01", "AT-MODEL-02", "AT-MODEL-03", "AT-MODEL-04", "RAP-009"]
    trouble = {name: outcome for name, outcome in outcomes_in(tmp_path).items() if outcome != "passed"}
    assert trouble == {
        "test_call_fails": "failed",
        "test_setup_fails": "failed",
        "test_teardown_fails": "failed",
        "test_skipped": "skipped",
        "test_expected_failure": "skipped",
        "test_unexpected_pass": "skipped",
        "test_left_out": "not_run",
    }


def test_a_test_that_takes_its_worker_down_has_failed(tmp_path: Path):
    run_pytest(tmp_path, "-n", "1", test_crash=CRASH)
    assert outcomes_in(tmp_path) == {"test_crash": "failed", "test_survivor": "passed"}


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_unknown_id_fails_the_run_and_names_test_id_and_nearest_id(tmp_path: Path, workers: str):
    text = "import pytest\n\n@pytest.mark.requirement('AT-MODEL-77')\ndef test_typo(): pass\n"
    run = run_pytest(tmp_path, "-n", workers, test_typo=text)
    assert run.returncode != 0
    assert "test_typo.py::test_typo: unknown requirement 'AT-MODEL-77'; did you mean 'AT-MODEL-0" in run.stdout
    assert [mark["id"] for mark in read_report(tmp_path)["unknown"]] == ["AT-MODEL-77"]
    assert outcomes_in(tmp_path) == {"test_typo": "not_run"}


def test_a_mark_that_names_no_id_fails_the_run(tmp_path: Path):
    odd = ["", "id='RAP-001'", "1", "['RAP-001']"]
    files = {
        f"test_odd_{n}": f"import pytest\n\n@pytest.mark.requirement({arguments})\ndef test_odd(): pass\n"
        for n, arguments in enumerate(odd)
    }
    run = run_pytest(tmp_path, **files)
    assert run.returncode != 0
    assert [f"test_odd_{n}.py::test_odd: " in run.stdout for n in range(4)] == [True] * 4


def test_a_report_of_an_earlier_run_does_not_outlive_a_run_that_died(tmp_path: Path):
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "report.json").write_text("earlier")
    run_pytest(tmp_path, test_crash=CRASH)
    assert not (tmp_path / "build" / "report.json").exists()


def test_a_report_that_cannot_be_written_is_refused_before_any_test_runs(tmp_path: Path):
    (tmp_path / "build").write_text("a file where a folder should be")
    run = run_pytest(tmp_path, test_sample=SAMPLE)
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--conformance-report must be a writable file, got " in run.stderr
