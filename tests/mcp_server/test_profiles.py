"""Profiles of the settings: which tools each has, who may use it, and what is wrong with one."""

import logging
import sys

import pytest
from mcp_clients import OLD, connected
from project_settings import write_settings

from agenttool import McpServer, Runtime, tool
from agenttool.config import read_config
from agenttool.errors import ConfigError
from agenttool.mcp.profiles import admits, check_profiles, read_profiles


def named(namespace, name):
    return tool(name=name, namespace=namespace, read_only=True)(lambda: namespace)


TOOLS = [named("files", "read"), named("files", "remove"), named("mail", "send"), named("mail", "read_inbox")]

PROFILES = """
[mcp.readers]
sources = ["files"]
tools = ["mail.read_*"]
without = ["remove"]
title = "Reading"
instructions = "Read only what you were asked to read."

[mcp.all]
"""


@pytest.fixture
def config(tmp_path):
    def config(text):
        write_settings(tmp_path / "agenttool.toml", text)
        return read_config(tmp_path / "agenttool.toml")

    return config


@pytest.mark.parametrize("mode", ["auto", OLD])
async def test_a_profile_has_the_tools_of_its_sources_and_patterns_and_its_own_words(config, mode):
    settings = config(PROFILES)
    profiles = read_profiles(settings)
    async with Runtime.open(tools=TOOLS) as runtime:
        await check_profiles(runtime, settings)
        listed = {}
        for name, options in profiles.items():
            members = {each: getattr(options, each) for each in ("profile", "role", "title", "instructions")}
            async with connected(runtime, mode, **members) as client:
                listed[name] = [each.name for each in (await client.list_tools()).tools]
                shown = (client.server_info.title, client.instructions)
            if name == "readers":
                assert shown == ("Reading", "Read only what you were asked to read.")
    assert listed == {
        "": ["read", "read_inbox", "read_result", "remove", "send"],
        "readers": ["read", "read_inbox", "read_result"],
        "all": ["read", "read_inbox", "read_result", "remove", "send"],
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('tools = ["files.raed"]', r"'files.raed' in tools of \[mcp.x\] matches no tool; did you mean 'files.read'\?"),
        ('tools = ["sned"]', "'sned' in tools .* did you mean 'send'"),
        ('without = ["chat.*"]', "'chat.*' in without .* matches no tool; `agenttool tools` lists the tools"),
        ('sources = ["mial"]', r"'mial' in sources .* is no source with tools; did you mean 'mail'\?"),
    ],
)
async def test_a_pattern_that_matches_no_tool_is_an_error_with_a_suggestion(config, text, problem):
    settings = config(f"[mcp.x]\n{text}\n")
    async with Runtime.open(tools=TOOLS) as runtime:
        with pytest.raises(ConfigError, match=f"agenttool.toml:1: .*{problem}"):
            await check_profiles(runtime, settings)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[mcp.x]\ntool = ["a"]', r":1: \[mcp.x\] has no 'tool'; did you mean 'tools'"),
        ('[mcp."a/b"]', "the profile 'a/b' is part of a URL"),
    ],
)
def test_an_invalid_table_is_an_error_with_its_line(config, text, problem):
    with pytest.raises(ConfigError, match=problem):
        read_profiles(config(text))


async def test_a_pattern_for_a_source_that_is_not_connected_is_a_warning(config, caplog):
    settings = config('[mcp.x]\ntools = ["absent.read"]\n')
    absent = McpServer("absent", command=sys.executable, args=("-c", "raise SystemExit(1)"))
    async with Runtime.open(tools=TOOLS, sources=[absent]) as runtime:
        with caplog.at_level(logging.WARNING, "agenttool.mcp"):
            await check_profiles(runtime, settings)
    assert "'absent.read' in tools of [mcp.x] matches no tool; a source that is not connected yet" in caplog.text


def test_an_unknown_profile_is_an_error_with_a_suggestion(config):
    with pytest.raises(ConfigError, match="no profile is named 'raeders'; did you mean 'readers'"):
        config(PROFILES).check_profile("raeders")
    with pytest.raises(ConfigError, match=r"no profile is named 'x'; add a table \[mcp.x\]"):
        config("").check_profile("x")


@pytest.mark.parametrize(
    ("subject", "usable"),
    [
        (None, ["", "open"]),
        ("key:support-1", ["support"]),
        ("user:ada", ["support", "admin"]),
        ("user:eve", ["", "open"]),
    ],
)
def test_a_subject_that_profiles_name_has_these_profiles_alone(config, subject, usable):
    profiles = read_profiles(
        config(
            '[mcp.open]\n[mcp.support]\nsubjects = ["key:support-*", "user:ada"]\n[mcp.admin]\nsubjects = "user:ada"\n'
        )
    )
    assert [name for name, each in profiles.items() if admits(each, profiles, subject)] == usable
