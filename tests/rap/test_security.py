"""Whoever has to decide about a toolset can read what it and each of its tools mean for security."""

import pytest

from agenttool.rap import Bearer, Call, Limits, OAuthClient, Provider, Signed

METER = OAuthClient(
    name="meter", authorize_url="https://meter.example/grant", token_url="https://meter.example/token", client_id="gh"
)


def greenhouse(**options):
    provider = Provider("greenhouse", limits=Limits(), **options)

    @provider.tool(read_only=True)
    async def read_probe(bed: int) -> str:
        """Read a probe."""
        return "wet"

    @provider.tool
    async def burn(bed: int) -> str:
        """Burn a bed."""
        return "burnt"

    @provider.tool(destructive=False, idempotent=True, requires_auth="meter" if "clients" in options else None)
    async def water(bed: int) -> str:
        """Water a bed."""
        return "wet"

    @provider.subscription
    async def watch(call: Call):
        """Watch a bed."""
        yield "watching"

    return provider


def parts(page):
    """Give what the page says of the toolset and of each tool."""
    head, *tools = page.split("\n## ")
    return head, {each.partition("\n")[0]: each for each in tools}


@pytest.mark.requirement("RAP-344")
def test_what_each_tool_may_do_is_told_and_the_worst_if_nothing_is_said():
    _, tools = parts(greenhouse(clients=[METER]).security)
    assert list(tools) == ["read_probe", "burn", "water", "watch"]
    assert "reads only" in tools["read_probe"]
    assert "may be run again" in tools["read_probe"]
    assert "may change and destroy things" in tools["burn"]
    assert "is not run again" in tools["burn"]
    assert "destroys nothing" in tools["water"]
    assert "https://meter.example/grant" in tools["water"]
    assert "until it is canceled" in tools["watch"]


@pytest.mark.requirement("RAP-344")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, ("everybody who reaches it", "public addresses only", "nothing but the secret callback URL")),
        ({"auth": Bearer("t" * 40)}, ("right credential (Bearer)",)),
        ({"sign": Signed("s" * 32)}, ("credential of its own (Signed)",)),
        ({"allow": ["10.0.0.0/8", "hq.example"], "https_only": True}, ("10.0.0.0/8, hq.example, over https only",)),
        ({"clients": [METER]}, ("kept in the clear in the same file, for meter",)),
    ],
)
def test_what_holds_for_the_toolset_is_told_and_no_secret_with_it(options, told):
    head, _ = parts(greenhouse(**options).security)
    assert all(each in head for each in told)
    assert "t" * 40 not in head
    assert "greenhouse.rap.db" in head
