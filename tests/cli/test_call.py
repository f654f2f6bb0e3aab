import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from project_settings import write_settings

from agenttool.cli.call import read_arguments

FIXTURE = str(Path(__file__).parents[1] / "support" / "mcp_fixture_server.py")

TOOLS = '''
import asyncio
import time
from pathlib import Path
from agenttool import Progress, tool

@tool(namespace="math", read_only=True, open_world=False)
async def add(a: int, b: int = 1) -> int:
    """Add two numbers. Not for text."""
    return a + b

@tool(namespace="kitchen")
async def bake(loaves: int):
    """Bake bread. Not for cake."""
    for loaf in range(loaves):
        yield Progress(f"loaf {loaf + 1}", percent=100 * (loaf + 1) / loaves)
    yield f"{loaves} loaves"

@tool(namespace="kitchen")
async def wait() -> str:
    """Wait for ever. Not for results."""
    print("waiting", flush=True)
    await asyncio.Event().wait()
    return "never"

@tool(namespace="kitchen")
def chop() -> str:
    """Chop for a while. Not to be stopped."""
    print("chopping", flush=True)
    for _ in range(600):
        if Path("enough").exists():
            break
        time.sleep(0.1)
    return "chopped"
'''
ALLOW = '[[rules]]\nbehavior = "allow"\ntool = "kitchen.*"\n'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pantry.py").write_text(TOOLS)
    return tmp_path


def command(folder, *words, text=None):
    return subprocess.run(
        [sys.executable, "-m", "agenttool", *words], cwd=folder, capture_output=True, text=True, check=False, input=text
    )


def test_the_tools_of_a_module_are_listed_with_inferred_facts(folder):
    listed = command(folder, "tools", "--from", "pantry")
    assert listed.returncode == 0
    assert "math.add" in listed.stdout
    records = [json.loads(line) for line in command(folder, "tools", "--from", "pantry", "--json").stdout.splitlines()]
    (interface,) = [r for r in records if r["record_type"] == "tool_interface" and r["tool_id"].endswith("bake")]
    assert interface["is_destructive"] is False
    assert "is_destructive" in interface["inferred_facts"]


@pytest.mark.parametrize("words", [["a=4", "b=5"], ["--args", '{"a": 4, "b": 5}'], ["--args", '{"a": 4}', "b=5"]])
def test_a_tool_is_called_with_words_or_json(folder, words):
    done = command(folder, "call", "add", *words, "--from", "pantry")
    assert (done.returncode, done.stdout) == (0, "9\n")


def test_arguments_may_come_from_a_file(folder):
    (folder / "arguments.json").write_text('{"a": 40}')
    done = command(folder, "call", "math.add", "b=2", "--args-file", "arguments.json", "--from", "pantry:add", "--json")
    assert json.loads(done.stdout)["structured_content"] == 42


def test_a_failed_call_is_printed_and_fails_the_command(folder):
    done = command(folder, "call", "add", "a=four", "--from", "pantry")
    assert done.returncode == 1
    assert "expected integer" in done.stdout


def test_without_a_user_a_risky_call_is_denied_unless_a_rule_allows_it(folder):
    denied = command(folder, "call", "bake", "loaves=2", "--from", "pantry")
    assert denied.returncode == 1
    assert "no approver is available" in denied.stdout
    write_settings(folder / "agenttool.toml", ALLOW)
    allowed = command(folder, "call", "bake", "loaves=2", "--from", "pantry")
    assert (allowed.returncode, allowed.stdout) == (0, "2 loaves\n")
    assert "100 % loaf 2" in allowed.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add", "--from", "nowhere"], "module 'nowhere' cannot be imported"),
        (["add", "--from", "nowhere"], "; there is no nowhere.py in "),
        (["add", "--from", "panty"], "; did you mean 'pantry'?"),
        (["add", "--from", "tools/pantry.py"], "; write tools.pantry, not the name of its file"),
        (["add", "--from", "json"], "holds no tool"),
        (["add", "a", "--from", "pantry"], "KEY=VALUE"),
        (["add", "--args", "[1]", "--from", "pantry"], "--args must be a JSON object, got list"),
        (["add", "--args", "{bad", "--from", "pantry"], "--args must be JSON"),
        (["add", "--args-file", "pantry.py", "--from", "pantry"], "the content of 'pantry.py' must be JSON"),
        (["add", "--args-file", "gone.json", "--from", "pantry"], "gone.json"),
        (["add", "--settings", "gone.toml", "--from", "pantry"], "gone.toml"),
    ],
)
def test_a_wrong_option_is_rejected_with_a_message(folder, words, message):
    done = command(folder, "call", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_rule_is_reported_with_its_file_and_line(folder):
    write_settings(folder / "agenttool.toml", '\n\n[[rules]]\nbehaviour = "allow"\n')
    done = command(folder, "call", "add", "a=1", "--from", "pantry")
    assert done.returncode == 2
    assert "agenttool.toml:3: a rule has no 'behaviour'; did you mean 'behavior'?" in done.stderr


def test_hooks_of_the_settings_run_and_their_outputs_are_printed(folder):
    (folder / "friday.sh").write_text('echo \'{"progress": "looking at the calendar", "stop": "not on fridays"}\'\n')
    write_settings(
        folder / "agenttool.toml",
        '[[hooks]]\nname = "friday"\nevent = "pre_tool_use"\ncommand = ["sh", "friday.sh"]\ntool = "math.*"\n',
    )
    done = command(folder, "call", "add", "a=1", "--from", "pantry")
    assert done.returncode == 1
    assert "hook 'friday' stopped the call: not on fridays" in done.stdout
    assert "looking at the calendar" in done.stderr


def test_a_wrong_hook_is_reported_with_its_file_and_line(folder):
    (folder / "hooks.toml").write_text('\n[[hooks]]\nname = "friday"\nevent = "pre_tool_use"\ncommand = "./gone.sh"\n')
    done = command(folder, "call", "add", "a=1", "--from", "pantry", "--settings", "hooks.toml")
    assert done.returncode == 2
    assert "hooks.toml:2: no program " in done.stderr


def test_ctrl_c_cancels_the_call(folder):
    write_settings(folder / "agenttool.toml", ALLOW)
    process = subprocess.Popen(
        [sys.executable, "-m", "agenttool", "call", "wait", "--from", "pantry"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "waiting\n"
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "canceled" in out
    assert "stopping" in err
    assert "the tool stopped; effects until then remain" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("times", "status", "message"), [(1, 0, "cannot be canceled"), (2, 130, "exited without waiting")]
)
def test_a_tool_that_cannot_be_canceled_runs_to_its_end_unless_ctrl_c_comes_twice(folder, times, status, message):
    write_settings(folder / "agenttool.toml", ALLOW)
    process = subprocess.Popen(
        [sys.executable, "-m", "agenttool", "call", "chop", "--from", "pantry"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "chopping\n"
    os.kill(process.pid, signal.SIGINT)
    while "stopping" not in process.stderr.readline():
        assert process.poll() is None
    if times > 1:
        os.kill(process.pid, signal.SIGINT)
    else:
        (folder / "enough").touch()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, "chopped" in out) == (status, times == 1)
    assert message in err


def test_a_stored_call_prints_the_command_that_shows_it(folder):
    done = command(folder, "call", "add", "a=1", "--from", "pantry", "--store", "calls.db")
    assert done.stdout == "2\n"
    assert re.fullmatch(r"agenttool show inv_[0-9a-f]+ --store calls\.db\n", done.stderr)


def test_a_call_without_a_named_store_creates_no_file_and_the_commands_about_calls_say_so(folder):
    before = sorted(folder.iterdir())
    done = command(folder, "call", "add", "a=1", "--from", "pantry")
    assert (done.stdout, done.stderr) == ("2\n", "")
    assert [each for each in sorted(folder.iterdir()) if each.name != "__pycache__"] == before
    assert "Calls are stored only if `[store] url` in agenttool.toml or --store" in command(folder, "log").stderr


def test_a_tool_without_declared_facts_is_listed_as_destructive(folder):
    _, _, shown = command(folder, "tools", "--from", "pantry").stdout.partition("kitchen.bake  ")
    assert "writes, destroys" in shown.splitlines()[2], "the facts follow the name and the description"


def test_what_a_tool_prints_is_not_part_of_the_json(folder):
    (folder / "chatty.py").write_text(
        "from agenttool import tool\n\nprint('loading')\n\n@tool(read_only=True, open_world=False)\n"
        "def chat() -> str:\n    'Chat. Not for work.'\n    print('noise')\n    return 'done'\n"
    )
    called = command(folder, "call", "chat", "--from", "chatty", "--json")
    assert json.loads(called.stdout)["status"] == "succeeded"
    assert called.stderr == "loading\nnoise\n"


def test_undecodable_arguments_end_in_a_result(folder):
    called = command(folder, "call", "add", os.fsdecode(b"a=\xff"), "--from", "pantry", "--json")
    assert json.loads(called.stdout)["error"]["error_class"] == "schema_validation_failed"
    assert called.stderr == ""


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("pantry.py", "write pantry, not the name of its file"),
        ("./pantry.py", "write pantry, not the name of its file"),
        ("leaver", "module 'leaver' cannot be imported: SystemExit: 0; correct it"),
    ],
)
def test_a_module_that_cannot_be_imported_is_reported_with_advice(folder, place, message):
    (folder / "leaver.py").write_text("import sys\n\nsys.exit(0)\n")
    refused = command(folder, "tools", "--from", place)
    assert refused.returncode == 2
    assert message in refused.stderr


TEXT = {"type": "string"}


def read(word, wanted=None):
    schema = {} if wanted is None else {"properties": {"x": wanted}}
    return read_arguments([f"x={word}"], None, None).for_schema(schema)["x"]


@pytest.mark.parametrize("text", ['1, "b": 2', '1,"value":2', "{a", "two words", '"quoted" twice'])
def test_a_word_that_only_begins_like_json_is_text(text):
    assert read(text) == text


@pytest.mark.parametrize("word", ["1", "01234", "1.5", "true", "null", "[1]", '{"a": 1}'])
def test_where_the_tool_takes_text_a_word_is_text(word):
    assert read(word, TEXT) == word


@pytest.mark.parametrize(
    ("word", "wanted", "value"),
    [
        ("1", None, 1),
        ("1", {"type": "integer"}, 1),
        ("1", {"type": "number"}, 1),
        ("1", {"anyOf": [TEXT, {"type": "integer"}]}, 1),
        ("null", {"anyOf": [TEXT, {"type": "null"}]}, None),
        ("1", {"anyOf": [TEXT, {"type": "null"}]}, "1"),
        ("1", {"type": ["string", "null"]}, "1"),
        ('"1"', TEXT, "1"),
        ("1", {**TEXT, "minLength": 3}, "1"),
        ("1", {"$ref": "#/$defs/A"}, 1),
        ("yes", {"type": "integer"}, "yes"),
        ("1", {"enum": ["1", "2"]}, "1"),
        ("1", {"enum": [1, "1"]}, 1),
        ("1", {"const": "1"}, "1"),
        ("1", {"anyOf": "rubbish", "enum": "rubbish"}, 1),
    ],
)
def test_a_word_is_json_where_the_tool_may_take_that(word, wanted, value):
    assert read(word, wanted) == value


@pytest.mark.parametrize(
    ("ref", "value"),
    [("#/$defs/A", "1"), ("#/$defs/B", 1), ("#/$defs/C", "1"), ("#/$defs/D~1E", "1"), ("#/x/y", 1), ("https://x", 1)],
)
def test_references_within_a_schema_are_followed_and_cycles_end(ref, value):
    defs = {"A": TEXT, "B": {"$ref": "#/$defs/B"}, "C": {"anyOf": [{"$ref": "#/$defs/A"}]}, "D/E": TEXT}
    schema = {"properties": {"x": {"$ref": ref}}, "$defs": defs}
    assert read_arguments(["x=1"], None, None).for_schema(schema) == {"x": value}


def test_words_override_arguments_given_as_json():
    assert read_arguments(["x=1"], '{"x": 2, "y": 3}', None).for_schema({}) == {"x": 1, "y": 3}


def test_a_call_starts_only_the_server_that_its_name_begins_with(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tables = (
        f"[sources.{name}]\nkind = 'mcp'\ncommand = '{sys.executable}'\nargs = {json.dumps([FIXTURE, *options])}\n"
        for name, options in (("fx", []), ("slow", ["hang=1", "log=started"]))
    )
    rules = "[[rules]]\nbehavior = 'allow'\ntool = ['fx.*', 'slow.echo']\n"
    write_settings(tmp_path / "agenttool.toml", "\n".join((*tables, rules)))
    for name in ("fx.echo", "tool_fx.echo"):
        made = run("call", name, "text=hi", "--store", "calls.db")
        assert (made.exit_code, made.stdout) == (0, "hi\n"), made.output
    assert not (tmp_path / "started").exists(), "the other server got no message"
