import json
import subprocess
import sys

import pytest

TOOLS = '''
from agenttool import tool
from agenttool.records import Lifecycle, replace
from agenttool.testing.fakes import scripted_tool
import dataclasses

@tool(namespace="kitchen")
async def bake_bread(loaves: int) -> str:
    """Bake loaves in the oven. Not for cake."""
    return "done"

later = scripted_tool("wash_dishes", namespace="kitchen", should_defer=True)
hidden = scripted_tool("poison_guests", namespace="kitchen", schema_visibility="internal")
locked = scripted_tool("open_safe", namespace="office", required_credentials=("safe_key",))
old = scripted_tool("light_candle", namespace="office")
old = dataclasses.replace(old, declaration=replace(old.declaration, lifecycle=Lifecycle.DEPRECATED))
'''


@pytest.fixture
def command(tmp_path):
    (tmp_path / "house.py").write_text(TOOLS)

    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "agenttool", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


def test_a_search_shows_what_fits_and_why(command):
    done = command("search", "please", "bake", "bred", "--from", "house")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].startswith("kitchen.bake_bread")
    assert "its name says bake, bread (for bred)" in done.stdout


def test_a_search_in_json_is_the_search_result_and_nothing_else(command):
    done = command("search", "select:wash_dishes,nobody", "--from", "house", "--json")
    result = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert [match["name"] for match in result["matches"]] == ["kitchen.wash_dishes"]
    assert (result["missing_names"], result["next_action"]) == (["nobody"], "load_schema_then_call")


@pytest.mark.parametrize("query", ["poison guests", "select:poison_guests", "xylophone"])
def test_nothing_found_is_told_by_the_exit_status(command, query):
    done = command("search", query, "--from", "house")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bake_bread", "kitchen.bake_bread is loaded: a model sees it"),
        ("wash_dishes", "kitchen.wash_dishes is deferred, because it asks for that; a model finds it by search"),
        ("poison_guests", "no model is shown it (role_not_allowed); nothing would change that"),
        (
            "office.open_safe",
            "safe_key, which is not there (credential_missing); to change that: provide the credential",
        ),
        ("light_candle", "office.light_candle is not shown: it is deprecated"),
    ],
)
def test_a_tool_that_a_model_does_not_see_has_a_reason(command, name, said):
    done = command("tools", "house", "--why", name)
    assert done.returncode == 0
    assert said in done.stdout
    assert json.loads(command("tools", "house", "--why", name, "--json").stdout)["why"] == done.stdout.strip()


def test_a_tool_that_does_not_exist_has_no_reason(command):
    done = command("tools", "house", "--why", "nobody")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no tool is named 'nobody' here" in done.stderr


def test_a_model_that_is_not_there_is_refused_in_one_line(command):
    done = command("search", "bread", "--from", "house", "--model", "nowhere")
    assert done.returncode == 2
    assert done.stderr.strip().startswith("there is no folder 'nowhere' with a model for search")


def test_whoever_names_a_tool_that_waits_on_the_command_line_need_not_load_it(command):
    done = command("call", "wash_dishes", "--from", "house", "--json")
    assert json.loads(done.stdout)["error"]["error_class"] == "permission_denied"


def test_a_list_of_tools_ends_with_what_a_model_is_shown_of_them(command):
    last = command("tools", "house").stdout.splitlines()[-1]
    assert last.startswith("a model is shown 1 of these, about ")
    assert "1 wait for it" in last
    assert "left out: --why NAME tells the reason" in last
