import pytest

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
    user.write_text('[permissions]\nmode = "read_only"\ninteractive = false\n' + rule("deny"))
    project.write_text('[permissions]\nmode = "default"\nworkspace = "src"\n[roles]\na = "x"\n' + rule("ask"))
    local.write_text('[permissions]\nworkspace = ["lib", "doc"]\n[roles]\nb = "y"\n' + rule("allow"))
    config = load_config("auto")
    assert [each.source for each in config.rules] == [
        RuleSource.LOCAL_SETTINGS,
        RuleSource.PROJECT_SETTINGS,
        RuleSource.USER_SETTINGS,
    ]
    assert (config.mode, config.interactive) == ("default", False)
    assert config.mode_place == "../../agenttool.toml:2"
    assert config.workspace == ("../../lib", "../../doc")
    assert config.roles == {"a": ("x",), "b": ("y",)}
    assert [layer.file.name for layer in settings_layers()] == [
        "agenttool.toml",
        "agenttool.toml",
        "agenttool.local.toml",
    ]


def test_starter_rules_that_two_layers_ask_for_apply_once(layers):
    user, project, _ = layers
    for file in (user, project):
        file.write_text('[permissions]\nrules = "starter"\n')
    places = [each.place for each in load_config("auto").rules]
    assert len(places) == len(set(places)) > 0


async def test_a_runtime_uses_the_layers_if_it_is_told_to_and_the_strictest_rule_wins(layers):
    user, project, _ = layers
    user.write_text(rule("deny"))
    project.write_text(rule("allow"))
    async with Runtime.open(tools=[pay], config="auto") as rt:
        denied = await rt.call("pay", {"amount": 1})
    assert denied.error.message.startswith(f"rule 'user_settings:{user}:1' (user_settings, {user}:1) denies this call")
    async with Runtime.open(tools=[pay], config=project) as rt:
        assert (await rt.call("pay", {"amount": 1})).text == "paid"


async def test_without_any_file_auto_means_no_settings(layers):
    async with Runtime.open(tools=[pay], config="auto") as rt:
        assert (await rt.call("pay", {"amount": 1})).error.error_class == "permission_denied"


async def test_a_rule_of_the_user_for_a_tool_of_another_program_is_only_a_warning(layers, caplog):
    user, _, _ = layers
    user.write_text(rule("deny", tool="mail.send"))
    async with Runtime.open(tools=[pay], config="auto"):
        assert "can never match: no tool is called 'mail.send'" in caplog.text


@pytest.mark.parametrize("name", ["bank.pai", "BANK.pai"])
async def test_a_misspelled_name_in_a_namespace_of_this_program_is_an_error_also_in_the_file_of_the_user(layers, name):
    user, _, _ = layers
    user.write_text(rule("deny", tool=name))
    with pytest.raises(ConfigError, match=f"can never match: no tool is called '{name}'"):
        async with Runtime.open(tools=[pay], config="auto"):
            pass
