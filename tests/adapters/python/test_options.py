from pathlib import Path

import pytest
from pydantic import BaseModel

from agenttool import ConfigError, Runtime, tool


class Login(BaseModel):
    user: str
    password: str


async def enter(login: Login, pins: list[str], note: str = "") -> str:
    """Enter. Not for leaving."""
    return note


async def send(headers: dict[str, str]) -> str:
    """Send. Not for receiving."""
    return ""


@pytest.mark.parametrize(
    "name", ["note", "password", "login.password", "/login/password", "/pins/*", "pins[*]", "*", "", "$", "*.password"]
)
def test_a_field_that_there_is_may_be_sensitive(name):
    declared = tool(sensitive=[name])(enter).declared
    assert declared.declaration.input_contract.sensitive_fields == (name,)


@pytest.mark.parametrize(
    ("name", "message"),
    [("pasword", "did you mean 'password'"), ("/logn/password", "has no field"), ("zzz", "use one of login, note")],
)
def test_a_name_that_would_hide_nothing_is_refused(name, message):
    with pytest.raises(ConfigError, match=message):
        tool(sensitive=[name])(enter)


def test_where_any_name_may_occur_any_name_may_be_sensitive():
    assert tool(sensitive=["authorization"])(send).declared.declaration.input_contract.sensitive_fields


@tool(read_only=True, concurrency_safe=True, open_world=False)
async def describe(argv: list[str], command: str = "", place: Path | None = None) -> str:
    """Describe a command. Not for running it."""
    return f"{argv} {command} {place}"


async def test_a_harmless_function_runs_unasked_whatever_its_parameters_are_named_and_without_its_optional_path():
    async with Runtime.open(tools=[describe], approve="deny") as rt:
        surface = await rt.surface()
        result = await rt.call("describe", {"argv": ["rm", "-rf"], "command": "rm"}, surface=surface)
        assert result.content[0].text == "['rm', '-rf'] rm None"
        result = await rt.call("describe", {"argv": [], "place": "/etc/passwd"}, surface=surface)
        assert result.error.error_class == "permission_denied"
