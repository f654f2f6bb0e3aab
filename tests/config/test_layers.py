import pytest
from project_settings import write_settings

from agenttool import Runtime, tool
from agenttool.config import load_config, settings_layers
from agenttool.errors import ConfigError
from agenttool.records import RuleSource


@tool(namespace="bank")
def pay(amount: int) -> str:
    """Pay. Not for refunds."""
    return "paid"


def rule(behavior, **conditions):
    lines = "".join(
        f"{key} = {value!r}\n" for key, value in {"behavior": behavior, "tool": "bank.pay", **conditions}.items()
    )
    return f"[[rules]]\n{lines}"


@pytest.fixture
def layers(tmp_path, monkeypatch):
    """The files of the user, the project and this copy of it; the working directory is below the project."""
    below = tmp_path / "project" / "src" / "deep"
    below.mkdir(parents=True)
    (tmp_path / "config" / "agenttool").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(below)
    project = tmp_path / "project"
    return tmp_path / "config/agenttool/agenttool.toml", project / "agenttool.toml", project / "agenttool.local.toml"


def test_rules_of_all_layers_apply_and_the_last_layer_decides_other_settings(layers):
    user, project, local = layers
    user.write_text('[server]\ntoken_env = "MINE"\nport = 1\n[surface]\nmax_tools = 5\n' + rule("deny"))
    write_settings(project, '[server]\nport = 2\n[permissions]\nworkspace = "src"\n' + rule("ask"))
    write_settings(local, '[surface]\ngates = ["beta"]\n[permissions]\nworkspace = ["lib", "doc"]\n' + rule("allow"))
    config = load_config("auto")
    assert [each.source for each in config.rules] == [
        RuleSource.LOCAL_SETTINGS,
        RuleSource.PROJECT_SETTINGS,
        RuleSource.USER_SETTINGS,
    ]
    assert (config.server.token_env, config.server.port) == ("MINE", 2)
    assert (config.surface.max_tools, config.surface.gates) == (5, ["beta"])
    assert config.workspace == (str(local.parent / "lib"), str(local.parent / "doc"))
    assert [layer.file.name for layer in settings_layers()] == [
        "agenttool.toml",
        "agenttool.toml",
        "agenttool.local.toml",
    ]


@pytest.mark.parametrize(
    ("modes", "strictest", "place"),
    [
        (("read_only", "default", "accept_edits"), "read_only", "config/agenttool/agenttool.toml:2"),
        (("default", "accept_edits", None), "default", "config/agenttool/agenttool.toml:2"),
        ((None, "accept_edits", "default"), "default", "agenttool.local.toml:2"),
        (("accept_edits", "read_only", "default"), "read_only", "../../agenttool.toml:2"),
    ],
)
def test_the_strictest_mode_of_all_layers_applies(layers, modes, strictest, place):
    for file, mode in zip(layers, modes, strict=True):
        write_settings(file, "" if mode is None else f'[permissions]\nmode = "{mode}"\n')
    config = load_config("auto")
    assert config.mode == strictest
    assert config.mode_place.endswith(place)


def test_a_project_cannot_say_that_an_approver_is_there(layers):
    user, project, _ = layers
    user.write_text("[permissions]\ninteractive = false\n")
    write_settings(project, "[permissions]\ninteractive = true\n")
    assert load_config("auto").interactive is False


def test_a_project_can_only_narrow_the_workspace_of_the_user(layers, tmp_path):
    user, project, _ = layers
    user.write_text(f'[permissions]\nworkspace = "{tmp_path}/project"\n')
    write_settings(project, '[permissions]\nworkspace = ["src", "/etc"]\n')
    assert load_config("auto").workspace == (str(tmp_path / "project/src"),)
    write_settings(project, '[permissions]\nworkspace = "/"\n')
    assert load_config("auto").workspace == (str(tmp_path / "project"),)
    write_settings(project, '[permissions]\nworkspace = "/etc"\n')
    with pytest.raises(ConfigError, match="the workspace of this project, /etc, is outside of yours"):
        load_config("auto")


@tool(namespace="bank", read_only=False)
def store(path: str) -> str:
    """Store a file. Not for refunds."""
    return "stored"


async def allowed(paths, **actor):
    async with Runtime.open(tools=[store], config="auto") as rt:
        return [(await rt.call("store", {"path": str(path)}, **actor)).ok for path in paths]


async def test_paths_in_rules_of_the_user_do_not_move_with_the_workspace_of_the_project(layers, tmp_path):
    user, project, _ = layers
    here = tmp_path / "project/src/deep"
    user.write_text(rule("allow", tool="bank.store", path="**") + rule("deny", tool="bank.store", path="secrets/**"))
    assert await allowed([here / "a", here / "secrets/key", "/etc/a"]) == [True, False, False]
    write_settings(project, '[permissions]\nworkspace = "/"\n')
    assert await allowed([here / "a", here / "secrets/key", "/etc/a", "/secrets/a"]) == [True, False, False, False]
    write_settings(project, rule("allow", tool="bank.store", path="**") + '[permissions]\nworkspace = "/"\n')
    assert await allowed([here / "secrets/key", "/etc/a", "/secrets/a"]) == [False, True, False]


async def test_members_of_groups_are_united_for_denies_but_a_project_does_not_extend_an_allow_of_the_user(layers):
    user, project, _ = layers
    user.write_text(
        '[roles]\nadmin = "user:ada"\nintern = "user:kim"\n[teams]\nsales = "user:ada"\n'
        + rule("allow", tool="bank.store", role="admin")
        + rule("allow", tool="bank.store", team="sales")
        + rule("deny", tool="bank.store", role="intern")
    )
    assert await allowed(["a"], actor_ref="user:ada") == [True]
    write_settings(project, '[roles]\nadmin = "*"\nintern = "user:bob"\n[teams]\nsales = "*"\n')
    assert await allowed(["a"], actor_ref="user:ada") == [True]
    assert await allowed(["a"], actor_ref="user:eve") == [False]
    write_settings(project, '[roles]\nintern = "user:bob"\n' + rule("allow", tool="bank.store"))
    found = {name: await allowed(["a"], actor_ref=f"user:{name}") for name in ("kim", "bob", "eve")}
    assert found == {"kim": [False], "bob": [False], "eve": [True]}


async def test_an_allow_of_the_user_needs_a_role_in_the_file_of_the_user(layers):
    user, project, _ = layers
    user.write_text(rule("allow", role="boss"))
    write_settings(project, '[roles]\nboss = "*"\n')
    with pytest.raises(ConfigError, match="names the role 'boss', which does not exist"):
        Runtime.open(tools=[pay], config="auto")


def test_starter_rules_that_two_layers_ask_for_apply_once(layers):
    user, project, _ = layers
    for file in (user, project):
        write_settings(file, '[permissions]\nrules = "starter"\n')
    places = [each.place for each in load_config("auto").rules]
    assert len(places) == len(set(places)) > 0


async def test_a_runtime_uses_the_layers_if_the_program_asks_for_it_and_the_strictest_rule_wins(layers):
    user, project, _ = layers
    user.write_text(rule("deny"))
    write_settings(project, rule("allow"))
    async with Runtime.open(tools=[pay], config="auto") as rt:
        denied = await rt.call("pay", {"amount": 1})
    assert denied.error.message.startswith(f"rule 'user_settings:{user}:1' (user_settings, {user}:1) denies this call")
    async with Runtime.open(tools=[pay], config=project) as rt:
        assert (await rt.call("pay", {"amount": 1})).text == "paid"


def test_in_the_folder_of_the_user_file_it_applies_once_and_needs_no_trust(layers, monkeypatch):
    user, _, _ = layers
    user.write_text(rule("deny"))
    monkeypatch.chdir(user.parent)
    assert [each.source for each in load_config("auto").rules] == [RuleSource.USER_SETTINGS]


async def test_without_any_file_auto_means_no_settings(layers):
    async with Runtime.open(tools=[pay], config="auto") as rt:
        assert (await rt.call("pay", {"amount": 1})).error.error_class == "permission_denied"


async def test_a_rule_of_the_user_for_a_tool_of_another_program_is_only_a_warning(layers, caplog):
    user, _, _ = layers
    user.write_text(rule("deny", tool="mail.send"))
    async with Runtime.open(tools=[pay], config="auto"):
        assert "matches no tool that is known now: no tool is called 'mail.send'" in caplog.text


@pytest.mark.parametrize("name", ["bank.pai", "BANK.pai"])
async def test_a_misspelled_name_in_a_namespace_of_this_program_is_an_error_also_in_the_file_of_the_user(layers, name):
    user, _, _ = layers
    user.write_text(rule("deny", tool=name))
    with pytest.raises(ConfigError, match=f"can never match: no tool is called '{name}'"):
        async with Runtime.open(tools=[pay], config="auto"):
            pass
