import json
import subprocess
import sys

import pytest
from project_settings import write_settings
from typer.testing import CliRunner

from agenttool.cli.main import app

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
def test_no_match_sets_the_exit_status(command, query):
    done = command("search", query, "--from", "house")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bake_bread", "kitchen.bake_bread is loaded: a model sees it"),
        (
            "wash_dishes",
            "kitchen.wash_dishes is deferred, because its declaration asks for that; a model finds it by search",
        ),
        ("poison_guests", "models do not see it (role_not_allowed); nothing would change that"),
        (
            "office.open_safe",
            "safe_key, which is missing (credential_missing); to change that: provide the credential",
        ),
        ("light_candle", "office.light_candle is not shown: it is deprecated"),
    ],
)
def test_a_tool_that_a_model_does_not_see_has_a_reason(command, name, said):
    done = command("tools", "--from", "house", "--why", name)
    assert done.returncode == 0
    assert said in done.stdout
    assert json.loads(command("tools", "--from", "house", "--why", name, "--json").stdout)["why"] == done.stdout.strip()


def test_a_tool_that_does_not_exist_has_no_reason(command):
    done = command("tools", "--from", "house", "--why", "nobody")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no tool is named 'nobody' here; list them" in done.stderr


@pytest.mark.parametrize("name", ["Bake_Bread", "KITCHEN.bake_bread", "bake_bred", "kitchen.bakebread"])
def test_a_misspelled_name_gets_a_suggestion(command, name):
    done = command("tools", "--from", "house", "--why", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"no tool is named {name!r} here; did you mean 'kitchen.bake_bread'?" in done.stderr


def test_a_model_that_is_not_there_is_refused_in_one_line(command):
    done = command("search", "bread", "--from", "house", "--model", "nowhere")
    assert done.returncode == 2
    assert done.stderr.strip().startswith("there is no folder 'nowhere' with a search model")


def test_a_deferred_tool_can_be_called_by_name(command):
    done = command("call", "wash_dishes", "--from", "house", "--json")
    assert json.loads(done.stdout)["error"]["error_class"] == "permission_denied"


def test_a_list_of_tools_ends_with_what_a_model_sees(command):
    last = command("tools", "--from", "house").stdout.splitlines()[-1]
    assert last.startswith("a model sees 1 of these, about ")
    assert "1 deferred" in last
    assert "left out: --why NAME explains it" in last


REASONS = """
import dataclasses
from agenttool.records import Lifecycle, ToolKind, replace
from agenttool.testing.fakes import scripted_tool

def of(name, declaration=None, **facts):
    made = scripted_tool(name, **facts)
    return dataclasses.replace(made, declaration=replace(made.declaration, **(declaration or {})))

plain = of("plain")
keyed = of("keyed", required_credentials=("vault:key",))
raw = of("raw", requires_setup=True)
seeing = of("seeing", model_requirements=["media:image"])
agent = of("agent", {"tool_kind": ToolKind.PEER_AGENT_TOOL})
gated = of("gated", feature_gate_refs=("beta",))
later = of("later", should_defer=True)
retired = of("retired", {"lifecycle": Lifecycle.RETIRED})
old = of("old", {"lifecycle": Lifecycle.DEPRECATED})
secret = of("secret", schema_visibility="internal")
loud = of("loud", {"description": "Ring. \\x1b]0;owned\\x07\\x1b[2J[bold]all[/]"}, feature_gate_refs=("\\x1b[31mred",))
"""
SETTINGS = """
[permissions]
mode = "read_only"

[surface]
hide_denied = true
"""


@pytest.fixture
def inside(tmp_path, monkeypatch):
    """Run commands in this process, in a folder with tools of every kind."""
    (tmp_path / "reasons.py").write_text(REASONS)
    (tmp_path / "strict.toml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", ["agenttool"])
    monkeypatch.delitem(sys.modules, "reasons", raising=False)
    yield lambda *words: CliRunner().invoke(app, words)
    sys.modules.pop("reasons", None)


@pytest.mark.parametrize(
    ("name", "words", "reason", "change"),
    [
        ("plain", ["--settings", "strict.toml"], "policy_blocked", "leave read-only mode"),
        ("keyed", [], "credential_missing", "provide the credential vault:key in [credentials]"),
        ("raw", [], "setup_required", "finish its setup"),
        ("seeing", ["--as", "model=parallel_calls"], "model_unsupported", "use a model that supports media:image"),
        ("agent", ["--as", "sub-agent"], "recursive_tool_forbidden", "let the agent above call it"),
        ("plain", ["--as", "role=files.*,bank.*"], "role_not_allowed", "use another role"),
        ("gated", [], "feature_disabled", "open the gate beta"),
        ("later", [], "deferred_until_discovered", "call tool_search with select:test.later"),
        ("retired", [], "feature_disabled", None),
        ("old", [], "feature_disabled", None),
        ("secret", [], "role_not_allowed", None),
    ],
)
def test_every_reason_is_explained_with_what_would_change_it(inside, name, words, reason, change):
    printed = json.loads(inside("tools", "--from", "reasons", "--why", name, "--json", *words).stdout)
    assert (printed["reason"], printed["would_change"], printed["may_change"]) == (reason, change, change is not None)
    said = inside("tools", "--from", "reasons", "--why", name, *words).stdout
    assert said.strip() == printed["why"]
    assert change is None or change.removeprefix("call tool_search with ") in said


def test_a_model_that_supports_what_a_tool_needs_sees_it(inside):
    done = inside("tools", "--from", "reasons", "--why", "seeing", "--as", "model=media:image")
    assert done.stdout == "test.seeing is loaded: a model sees it\n"


def test_a_search_uses_the_surface_of_the_viewer(inside):
    assert inside("search", "plain", "--from", "reasons").exit_code == 0
    for words in (["--as", "role=files.*"], ["--settings", "strict.toml"]):
        done = inside("search", "plain", "--from", "reasons", *words)
        assert (done.exit_code, done.stdout) == (1, "")
    assert inside("search", "agent", "--from", "reasons", "--as", "sub-agent").exit_code == 1


@pytest.mark.parametrize("whom", ["nobody", "role=", "model=telepathy"])
def test_an_unknown_viewer_is_rejected_with_advice(inside, whom):
    done = inside("tools", "--from", "reasons", "--as", whom)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "; use " in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["tools", "--from", "reasons"],
        ["tools", "--from", "reasons", "--why", "loud"],
        ["search", "ring", "--from", "reasons"],
    ],
)
def test_the_text_of_a_tool_cannot_control_the_terminal(inside, words):
    done = inside(*words)
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


def test_settings_can_make_a_tool_visible(command, tmp_path):
    asked = ("tools", "--from", "house", "--why", "open_safe")
    assert command(*asked).stdout.rstrip().endswith("to change that: provide the credential safe_key in [credentials]")
    write_settings(tmp_path / "agenttool.toml", '[surface]\ncredentials = ["safe_key"]\n')
    assert command(*asked).stdout == "office.open_safe is loaded: a model sees it\n"


SHOP = '''
from typing import Annotated
from agenttool import Inject, tool

class Stock(dict): ...
class Mailer: ...

@tool(read_only=True, open_world=False)
async def in_stock(article: str, stock: Annotated[Stock, Inject]) -> int:
    """Return how many are in stock. Not for prices."""
    return stock[article]

@tool(read_only=True, open_world=False)
async def send(to: str, mailer: Annotated[Mailer, Inject]) -> str:
    """Send a letter. Not for parcels."""
    return "sent"

provide = {Stock: Stock(tea=3)}
'''


@pytest.mark.parametrize("is_source", [False, True])
def test_a_module_provides_injected_objects_and_a_tool_without_its_object_is_listed_with_the_reason(
    tmp_path, command, is_source
):
    (tmp_path / "shop.py").write_text(SHOP)
    if is_source:
        write_settings(tmp_path / "agenttool.toml", '[sources.shop]\nkind = "python"\nmodule = "shop"\n')
    place = () if is_source else ("--from", "shop")
    assert command("call", "in_stock", "article=tea", *place).stdout == "3\n"
    assert "blocked_tool" in command("call", "send", "to=Ada", *place).stdout
    listed = " ".join(command("tools", *place).stdout.split())
    assert "unavailable: parameter 'mailer' of send() needs a Mailer; pass provide={Mailer: ...}" in listed
    assert "or write provide = {Mailer: ...} in the module that is served" in listed
