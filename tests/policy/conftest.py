"""Tools and rules to judge with."""

import os

import pytest

from agenttool.config import Setting, starter_rules
from agenttool.policy.decide import Policy
from agenttool.policy.paths import Workspace
from agenttool.policy.rule_settings import read_rules
from agenttool.policy.rules import RuleBook
from agenttool.policy.subject import subject_of
from agenttool.records import InputContract, PermissionProfile, ToolDeclaration, ToolInterface

NOW = "2026-05-08T12:00:00Z"

HARMLESS = {
    "interface": {"is_read_only": True, "is_destructive": False, "is_open_world": False},
    "profile": {"risk_level": "low", "approval_required": False},
}


def _tool(qualified="files.read", properties=("path",), *, interface=None, profile=None, **declared):
    namespace, _, name = qualified.rpartition(".")
    schema = {
        "type": "object",
        "properties": properties if isinstance(properties, dict) else {each: {"type": "string"} for each in properties},
    }
    declaration = ToolDeclaration(
        **{
            "tool_id": f"tool_{qualified}",
            "namespace": namespace,
            "name": name,
            "description": "a tool",
            "lifecycle": "available",
            "tool_kind": "function",
            "input_contract": InputContract(model_input_schema=schema),
            **declared,
        }
    )
    return subject_of(
        declaration,
        ToolInterface(interface_id="i", tool_id=declaration.tool_id, **(interface or {})),
        None,
        None
        if profile is None
        else PermissionProfile(**{"permission_profile_id": "p", "risk_level": "high", **profile}),
    )


def _rules(*members, source="project_settings", file="agenttool.toml"):
    written = [
        Setting(
            members={name: value for name, value in each.items() if name != "source"},
            source=each.get("source", source),
            file=file,
            line=None if file is None else number,
        )
        for number, each in enumerate(members, 1)
    ]
    return read_rules(written)


@pytest.fixture(scope="session")
def tool():
    """Make the subject of a tool: its name, its arguments, and whatever its records say."""
    return _tool


@pytest.fixture(scope="session")
def rules():
    """Read rules from their plain form; a member `source` overrules the common source."""
    return _rules


@pytest.fixture(scope="session")
def book():
    """Read rules into a book."""
    return lambda *members, **kwargs: RuleBook(_rules(*members, **kwargs))


@pytest.fixture(scope="session")
def shell():
    """A tool that runs commands."""
    return _tool("local.shell", ("command",), tool_kind="shell_command")


@pytest.fixture(scope="session")
def workspace():
    """A workspace of which no file exists, so that no path in it is a link."""
    return Workspace(roots=("/ws",), home="/home/me", resolve=os.path.normpath)


@pytest.fixture(scope="session")
def now():
    """The moment at which everything happens."""
    return NOW


@pytest.fixture(scope="session")
def harmless():
    """Records by which a tool is harmless in every respect."""
    return HARMLESS


@pytest.fixture(scope="session")
def decide(book, workspace, now):
    """Decide about one call by rules in their plain form, and by whatever other votes there are."""

    def decided(plain, subject, arguments=None, *, standing=None, **received):
        policy = Policy(book=book(*plain), workspace=workspace, **(standing or {}))
        return policy.decide(subject, arguments or {}, now=now, **received)

    return decided


@pytest.fixture(scope="session")
def starter(workspace, shell, now):
    """Decide about a command line by the rules that come with the package."""
    policy = Policy(book=RuleBook(read_rules(starter_rules())), workspace=workspace)
    return lambda command: policy.decide(shell, {"command": command}, now=now)
