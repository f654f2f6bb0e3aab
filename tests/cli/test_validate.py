"""`agenttool validate`: what it prints, how it exits, and what it costs."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from agenttool.cli.main import app
from agenttool.cli.validate import finding_block
from agenttool.conformance.validate.finding import Finding, Origin
from agenttool.errors import StoreError

GOOD = {
    "schema_version": "0.2.0",
    "event_id": "evt_1",
    "event_type": "tool.declared",
    "source": "test",
    "time": "2026-05-08T00:00:00Z",
}
UNLISTED = GOOD | {"event_type": "tool.forgotten"}
WRONG = GOOD | {"time": "yesterday"}
WRITE_ONCE = "write each record once, in its last state"
SCRIPT = "from agenttool.cli.main import main; main()"


def run(*arguments, **options):
    return CliRunner().invoke(app, ["validate", *(str(argument) for argument in arguments)], **options)


def write(folder, *records, name="export.jsonl"):
    path = folder / name
    path.write_bytes(
        b"".join((each if isinstance(each, bytes) else json.dumps(each).encode()) + b"\n" for each in records)
    )
    return path


def start(*arguments, **options):
    return subprocess.Popen([sys.executable, "-c", SCRIPT, "validate", *map(str, arguments)], **options)


@pytest.mark.parametrize(
    ("records", "options", "code"),
    [
        ([GOOD], [], 0),
        ([GOOD], ["--json"], 0),
        ([UNLISTED], [], 1),
        ([UNLISTED], ["--allow-warnings"], 0),
        ([WRONG], [], 1),
        ([WRONG], ["--allow-warnings"], 1),
        ([WRONG], ["--json"], 1),
        ([], [], 1),
    ],
)
def test_the_exit_code_is_zero_only_without_findings(tmp_path, records, options, code):
    assert run(write(tmp_path, *records), *options).exit_code == code


def test_a_finding_shows_its_place_problem_requirement_and_advice(tmp_path):
    result = run(write(tmp_path, GOOD, WRONG))
    block = result.stdout.split("\n\n")[0].splitlines()
    assert block == [
        f"{tmp_path}/export.jsonl:2  tool_event  evt_1  /time",
        "  error [G-03]: the time is not written as RFC 3339 asks",
        "  expected RFC 3339 in UTC, such as 2026-05-08T00:00:00Z; write it in that form",
        f"{tmp_path}/export.jsonl:2  tool_event  evt_1  /event_id",
        "  error [AT-MODEL-01]: the id is that of another tool_event, whose content differs",
        f"  expected an id of its own, or the same content as {tmp_path}/export.jsonl:1; {WRITE_ONCE}",
    ]


def test_the_closing_table_counts_records_and_findings(tmp_path):
    table = dict(line.rsplit(maxsplit=1) for line in run(write(tmp_path, GOOD, GOOD)).stdout.splitlines())
    assert table == {"tool_event": "2", "records": "2", "files": "1", "bytes": "260", "errors": "0", "warnings": "0"}


def test_json_is_a_line_per_finding_and_a_summary(tmp_path):
    result = run(write(tmp_path, UNLISTED, b"{"), "--json")
    first, second, summary = map(json.loads, result.stdout.splitlines())
    assert first == {
        "type": "finding",
        "file": str(tmp_path / "export.jsonl"),
        "line": 1,
        "record_type": "tool_event",
        "record_id": "evt_1",
        "pointer": "/event_type",
        "severity": "warning",
        "layer": "sense",
        "requirement": "AT-EVT-02",
        "message": "'tool.forgotten' is not in the list of the standard",
        "expected": first["expected"],
        "advice": first["advice"],
    }
    assert (second["type"], second["line"], second["layer"]) == ("finding", 2, "reading")
    assert summary == {
        "type": "summary",
        "files": 1,
        "bytes": (tmp_path / "export.jsonl").stat().st_size,
        "records": {"tool_event": 1},
        "unreadable": 1,
        "errors": 1,
        "warnings": 1,
    }
    assert result.stderr == ""


def test_findings_beyond_the_limit_are_counted(tmp_path):
    path = write(tmp_path, *([UNLISTED] * 150))
    assert run(path).stdout.count("export.jsonl:") == 100
    assert "… and 50 more" in run(path).stdout
    assert run(path, "--limit", 3).stdout.count("export.jsonl:") == 3
    assert run(path, "--limit", 0).stdout.count("export.jsonl:") == 0
    assert len(run(path, "--json", "--limit", 3).stdout.splitlines()) == 151


def test_all_files_are_one_set(tmp_path):
    call = {"invocation_id": "i", "tool_id": "t", "status": "succeeded", "created_at": GOOD["time"]}
    result = {"result_id": "r", "invocation_id": "i", "status": "succeeded", "created_at": GOOD["time"]}
    calls = write(tmp_path, {"schema_version": "0.2.0", **call}, name="calls")
    results = write(tmp_path, {"schema_version": "0.2.0", **result}, name="results")
    others = write(
        tmp_path, {"schema_version": "0.2.0", **call, "invocation_id": "j", "status": "running"}, name="others"
    )
    assert run(calls, results).exit_code == 0
    assert run(results, others).exit_code == 1
    assert f"{results}:1" in run(results, others).stdout


def test_a_dash_is_the_standard_input():
    result = run("-", input=json.dumps(WRONG))
    assert (result.exit_code, result.stdout.split()[0]) == (1, "-:1")


@pytest.mark.parametrize("name", ["nowhere.jsonl", "nul\0byte"])
def test_a_file_that_cannot_be_opened_stops_the_run_before_it_starts(tmp_path, name):
    result = run(write(tmp_path, WRONG), tmp_path / name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "file cannot be opened" in result.stderr


def test_a_named_pipe_is_opened_once_and_read_to_its_end(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = start(pipe, "--json", stdout=subprocess.PIPE)
    with pipe.open("wb") as writer:
        writer.write(json.dumps(GOOD).encode())
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)["records"]) == (0, {"tool_event": 1})


def test_a_folder_cannot_be_read(tmp_path):
    result = run(tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "file cannot be read" in result.stderr


def test_names_in_records_cannot_control_the_terminal(tmp_path):
    path = write(
        tmp_path, {"record_type": "tool_result", "content": [], "status": "failed", "is_error": True, "\x1b[31m": 1}
    )
    declared = {"tool_id": "t", "tool_kind": "custom", "input_contract": {"examples": [{}], "model_input_schema": {}}}
    declared["input_contract"]["model_input_schema"] = {"required": ["\x1b[2J\u202e"]}
    result = run(path, write(tmp_path, declared, name="b"))
    assert result.exit_code == 1
    assert "\x1b" not in result.stdout
    assert "\\x1b[2J\\u202e" in result.stdout


def test_characters_that_the_terminal_cannot_encode_are_escaped(tmp_path):
    declared = {"tool_id": "t", "tool_kind": "custom", "input_contract": {"examples": [{}]}}
    declared["input_contract"]["model_input_schema"] = {"required": ["grün"]}
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    process = start(write(tmp_path, declared), stdout=subprocess.PIPE, env=environment)
    out, _ = process.communicate()
    assert (process.returncode, b"gr\\xfcn" in out) == (1, True)


def test_a_full_disk_ends_the_run_with_advice(tmp_path, monkeypatch):
    def fail(facts):
        raise StoreError("the index of the run cannot be written")

    monkeypatch.setattr("agenttool.conformance.validate.record_index.RecordIndex.settle", fail)
    result = run(write(tmp_path, GOOD))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot be written" in result.stderr


def test_no_line_is_wider_than_the_terminal(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    path = write(tmp_path, UNLISTED, WRONG | {"record_type": "tool_nothing"})
    shown = re.sub(r"\x1b\[[0-9;]*m", "", run(path).stdout)
    assert "tool.forgotten" in shown
    assert all(len(line) <= 80 or " " not in line.strip() for line in shown.splitlines())


def test_piped_output_has_no_colours(tmp_path):
    process = start(write(tmp_path, WRONG), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate()
    assert (process.returncode, b"\x1b" in out, err) == (1, False, b"")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_closed_pipe_ends_the_run_silently(tmp_path, options):
    path = write(tmp_path, *([UNLISTED] * 20_000))
    process = start(path, "--limit", 20_000, *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    with process.stderr:
        assert (process.stderr.read(), process.wait(timeout=60)) == (b"", 1)


@pytest.mark.parametrize(("options", "records"), [("", [GOOD]), ("--json", [WRONG] * 500)])
@pytest.mark.parametrize(
    ("ending", "message"),
    [
        ("> /dev/full", "cannot be written"),
        (">&-", "output is closed"),
        ("- <&-", "cannot be read"),
        ("> /dev/full 2>&1", ""),
        (">&- 2>&-", ""),
    ],
)
def test_an_unwritable_output_ends_the_run_with_advice(tmp_path, options, records, ending, message):
    path = write(tmp_path, *records)
    script = f'"{sys.executable}" -c "{SCRIPT}" validate "{path}" {options} {ending}'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    printed = done.stderr or done.stdout
    assert (done.returncode, message in printed, "Traceback" in done.stderr) == (2, True, False)
    assert done.stderr.count("\n") <= 1


def test_an_interrupt_ends_the_run_silently(tmp_path):
    process = start("-", "--limit", 3, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    line = json.dumps(UNLISTED).encode() + b"\n"
    process.stdin.write(line * 3000)
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    # Its input stays open, so nothing but the signal can end it.
    assert process.wait(timeout=60) == 130
    assert process.stderr.read() == b""
    with suppress(BrokenPipeError):
        process.stdin.close()
    process.stdout.close()
    process.stderr.close()


@pytest.mark.slow
@pytest.mark.parametrize("levels", [10_000, 1_000_000])
def test_a_deeply_nested_document_is_a_finding(tmp_path, levels):
    deep = json.dumps(GOOD)[:-1].encode() + b', "data": {"a":' + b"[" * levels + b"]" * levels + b"}}"
    process = start(write(tmp_path, deep, GOOD), "--json", stdout=subprocess.PIPE)
    out, _ = process.communicate()
    first, summary = map(json.loads, out.splitlines())
    assert (process.returncode, first["line"], first["layer"]) == (1, 1, "reading")
    assert summary["records"] == {"tool_event": 1}


ANY_FIXTURE = [*settings.default.suppress_health_check, HealthCheck.function_scoped_fixture]


@settings(max_examples=50, suppress_health_check=ANY_FIXTURE)
@given(st.data())
def test_arbitrary_bytes_never_cause_a_traceback(tmp_path, data):
    text = b"\n".join(json.dumps(each).encode() for each in (GOOD, UNLISTED, WRONG))
    at, size = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 9))
    noise = data.draw(
        st.binary(max_size=12) | st.sampled_from([b"\\u", b'"', b"}{", b"[[", b"\x00", b"\xff", b"1e999"])
    )
    path = tmp_path / "fuzz"
    path.write_bytes(text[:at] + noise + text[at + size :])
    result = run(path, data.draw(st.sampled_from(["--json", "--allow-warnings"])))
    assert result.exit_code in (0, 1)
    assert result.exception is None or isinstance(result.exception, SystemExit)


PRINT_PEAK = """
import atexit, re, sys
def tell():
    peak = re.search(r"VmHWM:\\s+([0-9]+) kB", open("/proc/self/status").read())
    sys.stderr.write(peak[1] if peak else "")
atexit.register(tell)
"""


def peak_memory(feed):
    """Feed a command through a pipe, and give its exit code, last line and the most memory it took, in MiB."""
    script = [sys.executable, "-s", "-c", PRINT_PEAK + SCRIPT, "validate", "-", "--json"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(script, **pipes) as process:
        for piece in feed:
            process.stdin.write(piece)
        process.stdin.close()
        *_, last = process.stdout
        peak = process.stderr.read()
    return process.returncode, json.loads(last), int(peak) / 1024


@pytest.mark.soak
def test_a_gigabyte_takes_little_memory():
    record = json.dumps(GOOD | {"data": {"lines": ["x" * 1000] * 500, "n": "%07d"}}).encode() + b"\n"
    count = (1 << 30) // len(record) + 1
    feed = (record.replace(b"%07d", b"%07d" % n).replace(b"evt_1", b"evt_%d" % n) for n in range(count))
    code, summary, mebibytes = peak_memory(feed)
    assert (code, summary["records"]) == (0, {"tool_event": count})
    assert summary["bytes"] > 1 << 30
    assert mebibytes < 200


@pytest.mark.soak
@pytest.mark.parametrize("byte", [b"\x00", b" ", b"[", b'"'])
def test_one_endless_line_takes_little_memory(byte):
    piece = byte * (1 << 20)
    code, summary, mebibytes = peak_memory(piece for _ in range(256))
    assert (code, summary["records"]) == (1, {})
    assert mebibytes < 200


def block(width, **members):
    flaw = Finding(
        message="what is wrong", expected="something", advice="do this", pointer="/a/b", requirement="AT-X-01"
    )
    return finding_block(Origin("f.jsonl", 3, **members).finding(flaw), width).plain.splitlines()


def test_a_block_is_three_lines_without_a_width():
    assert block(None, record_type="tool_event", record_id="evt_1") == [
        "f.jsonl:3  tool_event  evt_1  /a/b",
        "  error [AT-X-01]: what is wrong",
        "  expected something; do this",
    ]


def test_unknown_members_are_left_out():
    assert block(None)[0] == "f.jsonl:3  /a/b"


def test_a_narrow_terminal_folds_and_indents_lines():
    assert block(20)[:4] == ["f.jsonl:3  /a/b", "  error [AT-X-01]:", "    what is wrong", "  expected"]
    assert all(len(line) <= 20 for line in block(20))
