"""`agenttool call`: outputs as files, and what it says about tools that are not there."""

import base64
import json
from hashlib import sha256

import pytest

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SOURCE = f"""
from agenttool import tool

FACTS = dict(namespace="art", read_only=True, open_world=False)
PNG = {PNG!r}

@tool(**FACTS)
def chart() -> bytes:
    '''Draw a chart. Not for text.'''
    return PNG

@tool(**FACTS)
def poem(lines: int) -> str:
    '''Write a poem. Not for prose.'''
    return "roses are red\\n" * lines

@tool(**FACTS)
def both() -> list[bytes]:
    '''Draw two charts. Not for text.'''
    return [PNG, b"GIF89a\\x00\\xff\\x01"]

@tool(**FACTS)
def table() -> dict[str, list[int]]:
    '''Count. Not for text.'''
    return {{"a": [1, 2]}}

@tool(**FACTS)
def nothing() -> None:
    '''Do nothing. Not for work.'''

@tool(**FACTS)
def burn() -> str:
    '''Fail. Not for work.'''
    raise ValueError("no paint")
"""


@pytest.fixture
def studio(tmp_path, monkeypatch, run):
    """Call a tool of a module in the working directory."""
    (tmp_path / "studio.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "studio", raising=False)
    return lambda *words: run("call", *words, "--from", "studio")


@pytest.mark.parametrize(
    ("words", "content"),
    [
        (["chart"], PNG),
        (["poem", "lines=2"], b"roses are red\n" * 2),
        (["poem", "lines=30000"], b"roses are red\n" * 30000),
        (["table"], b'{"a":[1,2]}'),
    ],
)
def test_the_complete_output_is_written_to_a_file(studio, tmp_path, words, content):
    outcome = studio(*words, "--out", "result")
    assert (outcome.exit_code, outcome.stdout) == (0, "")
    assert (tmp_path / "result").read_bytes() == content
    assert f"wrote result ({len(content):,} bytes" in outcome.stderr


def test_a_folder_gets_a_file_named_after_the_tool(studio, tmp_path):
    (tmp_path / "out").mkdir()
    assert studio("art.chart", "--out", "out").exit_code == 0
    assert [(each.name, each.read_bytes()) for each in (tmp_path / "out").iterdir()] == [("chart.png", PNG)]


def test_several_outputs_get_numbered_files(studio, tmp_path):
    outcome = studio("both", "--out", "page.png", "--json")
    assert outcome.exit_code == 0
    assert '"record_type":"tool_result"' in outcome.stdout
    written = {each.name: each.read_bytes() for each in tmp_path.glob("page*")}
    names = [f"payload:sha256:{sha256(each).hexdigest()}" for each in (PNG, b"GIF89a\x00\xff\x01")]
    assert json.loads(written.pop("page-1.json")) == names
    assert written == {"page-2.png": PNG, "page-3.gif": b"GIF89a\x00\xff\x01"}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["nothing", "--out", "result"], 2, "nothing was written to 'result': the tool returned no output"),
        (["burn", "--out", "result"], 1, "no paint"),
        (["chart", "--out", "no/such/folder/x"], 2, "cannot write 'no/such/folder/x': No such file or directory"),
    ],
)
def test_without_an_output_no_file_is_written(studio, tmp_path, words, code, says):
    outcome = studio(*words)
    assert outcome.exit_code == code
    assert says in outcome.output
    assert not (tmp_path / "result").exists()


def test_a_misspelled_tool_gets_a_suggestion(studio):
    outcome = studio("chrat")
    assert outcome.exit_code == 1
    assert "did you mean 'art.chart'?" in outcome.stdout


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["call", "chart", "size=3 cm"], "agenttool call chart 'size=3 cm' --from MODULE"),
        (["search", "draw", "charts"], "agenttool search draw charts --from MODULE"),
        (["tools"], "agenttool tools --from MODULE"),
    ],
)
def test_a_missing_module_is_named_with_the_command_to_type(run, tmp_path, monkeypatch, words, command):
    monkeypatch.chdir(tmp_path)
    outcome = run(*words)
    assert outcome.exit_code == 2
    assert f"type `{command}`" in outcome.stderr
