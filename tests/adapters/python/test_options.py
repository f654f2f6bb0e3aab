import pytest
from pydantic import BaseModel

from agenttool import ConfigError, tool


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
    ("name", "told"),
    [("pasword", "did you mean 'password'"), ("/logn/password", "has no field"), ("zzz", "use login, note")],
)
def test_a_name_that_would_hide_nothing_is_refused(name, told):
    with pytest.raises(ConfigError, match=told):
        tool(sensitive=[name])(enter)


def test_where_any_name_may_occur_any_name_may_be_sensitive():
    assert tool(sensitive=["authorization"])(send).declared.declaration.input_contract.sensitive_fields
