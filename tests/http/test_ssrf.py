"""The SSRF guard: which URLs may be contacted or shown, and how names are resolved."""

import asyncio
import ipaddress
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.errors import ConfigError, RecordError
from agenttool.http import ssrf
from agenttool.http.client import HttpClient
from agenttool.http.ssrf import MAX_AUTH_URL, Resolver, SsrfPolicy, auth_url_error, check_url, resolve

PUBLIC = SsrfPolicy()


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
    reach = SsrfPolicy.parse(["127.0.0.0/8", "10.1.2.3", "fd00::/8", "Runtime.Internal"])
    for url in ("http://127.0.0.1:8123/", "http://10.1.2.3/", "http://[fd00::7]/", "http://[::ffff:127.0.0.1]/"):
        check_url(url, reach)
    for url in ("http://10.1.2.4/", "http://192.168.0.1/", "http://[fc00::1]/"):
        with pytest.raises(RecordError):
            check_url(url, reach)


@pytest.mark.parametrize("host", ["runtime1", "web-01", "svc.k8s-1"])
def test_a_host_may_be_named_with_a_digit_at_its_end(host):
    check_url(f"http://{host}:8080/", SsrfPolicy.parse([host]))


def test_plain_http_can_be_limited_to_allowed_hosts():
    reach = SsrfPolicy.parse(["127.0.0.1", "runtime.internal"], https_only=True)
    for url in ("https://example.test/", "http://127.0.0.1/", "http://runtime.internal/"):
        check_url(url, reach)
    with pytest.raises(RecordError, match="https"):
        check_url("http://example.test/", reach)


@pytest.mark.parametrize("allow", ["", "10.0.0.0/99", "https://host/", "a b"])
def test_what_is_neither_a_network_nor_a_host_cannot_be_allowed(allow):
    with pytest.raises(ConfigError, match="not a network"):
        SsrfPolicy.parse([allow])


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["93.184.216.34", "10.0.0.5"], ["fe80::1%eth0"]])
def test_a_name_with_any_address_inside_is_refused(monkeypatch, addresses):
    names_lead_to(monkeypatch, addresses)
    with pytest.raises(RecordError, match="public"):
        asyncio.run(resolve("rebinding.example.test", PUBLIC, Resolver()))


def test_a_name_leads_to_an_address_that_was_judged(monkeypatch):
    names_lead_to(monkeypatch, ["93.184.216.34"])
    assert asyncio.run(resolve("example.test", PUBLIC, Resolver())) == ["93.184.216.34"]


def test_an_allowed_name_may_lead_inside(monkeypatch):
    names_lead_to(monkeypatch, ["10.0.0.5"])
    assert asyncio.run(resolve("Runtime.Internal.", SsrfPolicy.parse(["runtime.internal"]), Resolver())) == ["10.0.0.5"]


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


@pytest.fixture
def stalling(monkeypatch):
    """Let every name below `stalls.test` stall until the test ends; give what was asked for."""
    asked, may_answer, real = [], threading.Event(), socket.getaddrinfo

    def getaddrinfo(host, *rest, **options):
        asked.append(host)
        if str(host).endswith("stalls.test"):
            may_answer.wait(30)
            raise socket.gaierror("no such name")
        return real(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield asked
    may_answer.set()


async def takes(scope, receive, send):
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def test_names_that_stall_hold_up_neither_other_names_nor_other_work(stalling, serve_app):
    http_client = HttpClient(SsrfPolicy.parse(["127.0.0.0/8", "localhost"]), timeout_s=60)
    stalled = [asyncio.ensure_future(http_client.post(f"http://h{each}.stalls.test/", b"{}")) for each in range(60)]
    await asyncio.sleep(0)
    async with serve_app(takes, lifespan="off") as place, asyncio.timeout(50):
        assert (await http_client.post(f"http://localhost:{place.rpartition(':')[2]}/", b"{}")).is_accepted
        assert await asyncio.to_thread(lambda: "done") == "done"
    for each in stalled:
        each.cancel()
    await asyncio.gather(*stalled, return_exceptions=True)
    await http_client.close()


async def test_a_name_that_is_not_found_in_time_may_be_found_later(stalling, monkeypatch):
    monkeypatch.setattr(ssrf, "LOOKUP_TIMEOUT_S", 0.05)
    http_client = HttpClient(SsrfPolicy())
    replies = await asyncio.gather(*(http_client.post("http://a.stalls.test/", b"{}") for _ in range(10)))
    assert [(each.status, each.is_retryable) for each in replies] == [(None, True)] * 10
    assert stalling.count("a.stalls.test") == 1
    await http_client.close()


async def looked_up(found, hosts, caller=""):
    """Ask for names, and return those that no caller looks up now."""
    outcomes = await asyncio.gather(*(found.addresses_of(each, caller) for each in hosts), return_exceptions=True)
    return [host for host, each in zip(hosts, outcomes, strict=True) if "too many" in str(each)]


async def test_there_are_only_so_many_lookups_of_names_in_one_domain(stalling, monkeypatch):
    monkeypatch.setattr(ssrf, "LOOKUP_TIMEOUT_S", 0.05)
    hosts = ["a.x.stalls.test", "b.stalls.test", "c.stalls.test", "xstalls.test"]
    assert await looked_up(ssrf.Resolver(), hosts) == ["c.stalls.test"]
    assert stalling == ["a.x.stalls.test", "b.stalls.test", "xstalls.test"]


async def test_one_caller_has_only_so_many_lookups_and_takes_no_others(stalling, monkeypatch):
    monkeypatch.setattr(ssrf, "LOOKUP_TIMEOUT_S", 0.05)
    found = ssrf.Resolver()
    hosts = [f"{each}-stalls.test" for each in range(12)]
    assert await looked_up(found, hosts, "greedy") == hosts[ssrf.MAX_LOOKUPS_PER_CALLER :]
    assert await looked_up(found, ["other-stalls.test"], "another") == []


async def test_domains_that_stall_leave_room_for_those_that_answer(stalling, monkeypatch):
    found = ssrf.Resolver()
    answers = await found.addresses_of("localhost")
    with monkeypatch.context() as hurry:
        hurry.setattr(ssrf, "LOOKUP_TIMEOUT_S", 0.001)
        hurry.setattr(ssrf, "SLOW_LOOKUP_S", 0)
        for each in range(ssrf.MAX_UNPROVEN_LOOKUPS):
            assert await looked_up(found, [f"{each}-stalls.test"]) == []
        assert await looked_up(found, ["new-stalls.test"]) == ["new-stalls.test"]
    assert await found.addresses_of("localhost") == answers


SAFE = ["https://id.example.test/authorize?state=5b1c&scope=a%20b", "https://id.example.test:8443", "https://[::1]/a"]
UNSAFE = {
    "userinfo": "https://bank.example@evil.example/",
    "an empty user": "https://@evil.example/",
    "a password": "https://bank.example:443@evil.example/",
    "no host": "https:///authorize",
    "no host but a port": "https://:443/",
    "a line break": "https://id.example.test/\r\nlook",
    "an escape": "https://id.example.test/\x1b[2J",
    "a bell behind it": "https://id.example.test/\x07",
    "a space": "https://id.example.test/ a",
    "a space before it": " https://id.example.test/",
    "text that runs backwards": "https://id.example.test/\u202egnp",
    "letters that look like others": "https://p\u0430ypal.example/",
    "a backslash": "https://evil.example\\@bank.example/",
    "another scheme": "javascript:alert(1)//https://id.example.test",
    "data": "data:text/html,x",
    "a file": "file:///etc/passwd",
    "no scheme": "//id.example.test/",
    "a bad port": "https://id.example.test:99999/",
    "half an address": "https://[::1/",
    "without TLS": "http://id.example.test/",
    "too long": "https://id.example.test/" + "x" * MAX_AUTH_URL,
    "nothing": "",
}


@pytest.mark.parametrize("url", SAFE)
def test_a_plain_page_with_tls_is_shown(url):
    assert auth_url_error(url, allows_http=False) is None


@pytest.mark.requirement("RAP-414")
@pytest.mark.parametrize("what", UNSAFE)
def test_a_misleading_authorization_url_is_rejected(what):
    error = auth_url_error(UNSAFE[what], allows_http=True)
    assert error is not None
    assert not UNSAFE[what] or UNSAFE[what] not in error


@given(st.text())
def test_whatever_is_shown_is_plain_and_secure(text):
    for url in (text, f"https://{text}", f"https://h.example/{text}"):
        if auth_url_error(url, allows_http=False) is None:
            assert url.startswith("https://")
            assert url.isascii()
            assert url.isprintable()
            assert "@" not in url.split("/")[2]
