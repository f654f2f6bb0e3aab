"""A stranger's URL leads to public addresses only, unless a deployment allows more."""

import asyncio
import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.rap.forgery import Reach, check_url, resolve
from agenttool.adapters.rap.names import Names
from agenttool.errors import ConfigError, RecordError

PUBLIC = Reach()


@pytest.mark.parametrize(
    "url",
    [
        "https://agents.example.test/in/9d3e?k=w8",
        "http://example.test",
        "https://93.184.216.34:8443/x",
        "https://[2606:2800:220:1::1]/",
    ],
)
def test_a_public_url_passes(url):
    check_url(url, PUBLIC)


@pytest.mark.requirement("RAP-412")
@pytest.mark.parametrize(
    "url",
    [
        "",
        "no url",
        "/in/9d3e",
        "//host/x",
        "file:///etc/passwd",
        "ftp://example.test/x",
        "gopher://example.test/",
        "javascript:alert(1)",
        "http:///x",
        "https://user@example.test/",
        "https://example.test@127.0.0.1/",
        "https://exa mple.test/",
        "https://example.test\\@127.0.0.1/",
        "https://example.test/\r\nX: y",
        "https://exämple.test/",
        "http://host:0/",
        "http://host:99999/",
        "http://[::1",
        "http://127.0.0.1/",
        "http://127.0.0.1./",
        "http://127.1/",
        "http://[fec0::1]/",
        "http://[3fff::1]/",
        "http://168.63.129.16/machine",
        "http://192.0.0.192/opc/v2/",
        "http://1.example.0x7f/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://017700000001/",
        "http://0.0.0.0/",
        "http://10.1.2.3/",
        "http://172.16.0.1/",
        "http://192.168.1.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://100.64.0.1/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://[::1]/",
        "http://[::]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[fe80::1]/",
        "http://[fc00::1]/",
        "http://[ff02::1]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b:1::127.0.0.1]/",
        "http://[2606:4700::5efe:127.0.0.1]/",
        "http://[2606:4700::200:5efe:10.0.0.1]/",
        "http://[fd00::5efe:8.8.8.8]/",
        "http://[2606:4700::1%25lo]/",
        "http://[2606:4700::1%lo]/",
        "http://192.88.99.1/",
        "http://127%2e0%2e0%2e1/",
        "http://example.test%00.127.0.0.1/",
        "http://example.test,127.0.0.1/",
    ],
)
def test_a_url_that_leads_inside_or_elsewhere_is_refused_and_not_repeated(url):
    with pytest.raises(RecordError) as refusal:
        check_url(url, PUBLIC)
    assert not url or url not in str(refusal.value)


def test_a_deployment_may_allow_a_network_an_address_or_a_host():
    reach = Reach.of(["127.0.0.0/8", "10.1.2.3", "fd00::/8", "Runtime.Internal"])
    for url in ("http://127.0.0.1:8123/", "http://10.1.2.3/", "http://[fd00::7]/", "http://[::ffff:127.0.0.1]/"):
        check_url(url, reach)
    for url in ("http://10.1.2.4/", "http://192.168.0.1/", "http://[fc00::1]/"):
        with pytest.raises(RecordError):
            check_url(url, reach)


@pytest.mark.parametrize("host", ["runtime1", "web-01", "svc.k8s-1"])
def test_a_host_may_be_named_with_a_digit_at_its_end(host):
    check_url(f"http://{host}:8080/", Reach.of([host]))


def test_plain_http_can_be_kept_to_what_is_allowed():
    reach = Reach.of(["127.0.0.1", "runtime.internal"], https_only=True)
    for url in ("https://example.test/", "http://127.0.0.1/", "http://runtime.internal/"):
        check_url(url, reach)
    with pytest.raises(RecordError, match="https"):
        check_url("http://example.test/", reach)


@pytest.mark.parametrize("allow", ["", "10.0.0.0/99", "https://host/", "a b"])
def test_what_is_neither_a_network_nor_a_host_cannot_be_allowed(allow):
    with pytest.raises(ConfigError, match="not a network"):
        Reach.of([allow])


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["93.184.216.34", "10.0.0.5"], ["fe80::1%eth0"]])
def test_a_name_with_any_address_inside_is_refused(monkeypatch, addresses):
    names_lead_to(monkeypatch, addresses)
    with pytest.raises(RecordError, match="public"):
        asyncio.run(resolve("rebinding.example.test", PUBLIC, Names()))


def test_a_name_leads_to_an_address_that_was_judged(monkeypatch):
    names_lead_to(monkeypatch, ["93.184.216.34"])
    assert asyncio.run(resolve("example.test", PUBLIC, Names())) == ["93.184.216.34"]


def test_an_allowed_name_may_lead_inside(monkeypatch):
    names_lead_to(monkeypatch, ["10.0.0.5"])
    assert asyncio.run(resolve("Runtime.Internal.", Reach.of(["runtime.internal"]), Names())) == ["10.0.0.5"]


def names_lead_to(monkeypatch, addresses):
    """Answer for the name service, which no test may ask."""

    def answers(*_, **__):
        kinds = [ipaddress.ip_address(text.partition("%")[0]).version for text in addresses]
        families = [socket.AF_INET if kind == 4 else socket.AF_INET6 for kind in kinds]
        return [
            (family, socket.SOCK_STREAM, 6, "", (text, 80)) for family, text in zip(families, addresses, strict=True)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", answers)


_INSIDE = st.one_of(st.ip_addresses(network=f"{each}") for each in ("127.0.0.0/8", "10.0.0.0/8", "169.254.0.0/16"))
_DISGUISES = {
    "mapped": lambda inner: 0xFFFF << 32 | inner,
    "compatible": lambda inner: inner,
    "translated": lambda inner: 0x0064FF9B << 96 | inner,
    "translated here": lambda inner: 0x0064FF9B0001 << 80 | inner,
    "6to4": lambda inner: 0x2002 << 112 | inner << 80 | 1,
    "Teredo": lambda inner: 0x20010000 << 96 | 0x08080808 << 64 | (inner ^ 0xFFFFFFFF),
    "a site's tunnel": lambda inner: 0x26064700 << 96 | 0x00005EFE << 32 | inner,
    "another site's tunnel": lambda inner: 0x26064700 << 96 | 0x02005EFE << 32 | inner,
}


@pytest.mark.requirement("RAP-412")
@pytest.mark.parametrize("disguise", _DISGUISES)
@given(inside=_INSIDE)
def test_an_address_inside_is_known_in_every_disguise(disguise, inside):
    address = ipaddress.IPv6Address(_DISGUISES[disguise](int(inside)))
    assert not PUBLIC.allows(address)
    with pytest.raises(RecordError):
        check_url(f"http://[{address}]/", PUBLIC)
