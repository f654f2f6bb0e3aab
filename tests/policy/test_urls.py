import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.policy.urls import canonical_host, url_of, url_pattern


@pytest.mark.parametrize(
    ("spelling", "host"),
    [
        ("EXAMPLE.com", "example.com"),
        ("example.com.", "example.com"),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
        ("\uff45xample.com", "example.com"),
        ("example\u3002com", "example.com"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("example.%63om", None),
        ("fa\u00df.example", None),
        ("{good,evil}.example", None),
        ("a..b", None),
        ("256.1.1.1", None),
        ("1.2.3.4.5", None),
        ("fe80::1%eth0", None),
        ("1::2::3", None),
        ("x" * 70 + "\u00fc.example", None),
        ("example.09", None),
        ("", None),
    ],
)
def test_a_host_has_one_spelling_or_none(spelling, host):
    assert canonical_host(spelling) == host


@given(st.integers(0, 2**32 - 1))
def test_every_notation_of_an_ip_address_is_the_same_host(number):
    dotted = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
    heads = f"{number >> 24 & 255:#o}".replace("0o", "0")
    spellings = {str(number), hex(number), dotted, f"{heads}.{number & 0xFFFFFF}", f"[::ffff:{dotted}]"}
    assert {url_of(f"http://{each}/").host for each in spellings} == {dotted}


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/",
        "https://EVIL.example",
        "https://evil.example./x",
        "https://good.example@evil.example/",
        "https://good.example:pw@evil.example/",
        "http://evil.example:8080/",
        "https://sub.evil.example/",
        "https://evil.example\\@good.example/",
        "https://good.example\t.evil.example/",
        "https:evil.example",
        "//evil.example/x",
        "evil.example/x",
        "https://ev%69l.example/",
        "http://[::1",
        "https://good.example/%ff",
        "https://good.example/%2525252e",
    ],
)
def test_a_deny_catches_an_address_that_may_be_meant(address):
    patterns = [url_pattern("evil.example"), url_pattern("*.evil.example")]
    assert any(pattern.hits(url_of(address)) for pattern in patterns)
    assert not url_pattern("https://good.example").covers(url_of(address))


def test_an_allow_covers_exactly_its_scheme_host_port_and_path():
    pattern = url_pattern("https://api.example.com/v1")
    assert pattern.covers(url_of("https://api.example.com/v1/users?id=1#x"))
    assert pattern.covers(url_of("https://API.example.com.:443/v1//users"))
    for other in (
        "http://api.example.com/v1",
        "https://api.example.com:8443/v1",
        "https://api.example.com/v2",
        "https://api.example.com/v1x",
        "https://api.example.com/v1/../v2",
        "https://api.example.com/v1/%2e%2e/v2",
        "https://api.example.com/v1/%252e%252e/v2",
        "https://user@api.example.com/v1",
        "https://x.api.example.com/v1",
        "https://api.example.com.evil.org/v1",
    ):
        assert not pattern.covers(url_of(other)), other


def test_a_deny_on_a_path_catches_it_in_every_encoding():
    pattern = url_pattern("https://example.com/admin")
    for spelling in ("/admin", "/%61dmin/x", "/x/../admin", "/x/%2e%2e/admin", "//admin", "/%2561dmin"):
        assert pattern.hits(url_of("https://example.com" + spelling)), spelling
    assert not pattern.hits(url_of("https://example.com/administrator"))


def test_a_star_stands_for_the_names_below_a_domain_and_not_for_the_domain():
    pattern = url_pattern("*.example.com")
    assert pattern.covers(url_of("https://a.b.example.com/"))
    assert not pattern.covers(url_of("https://example.com/"))
    assert not pattern.covers(url_of("https://evilexample.com/"))
    assert url_pattern("*").hits(url_of("ftp://anything/"))


def test_wildcards_in_a_path_reach_as_far_as_they_say():
    assert url_pattern("https://e.org/*/x").covers(url_of("https://e.org/a/x"))
    assert not url_pattern("https://e.org/*/x").covers(url_of("https://e.org/a/x/y"))
    assert url_pattern("https://e.org/**").covers(url_of("https://e.org/a/x/y"))


def test_a_port_of_a_pattern_is_that_port_only():
    pattern = url_pattern("http://localhost:8080")
    assert pattern.covers(url_of("http://localhost:8080/x"))
    assert not pattern.hits(url_of("http://localhost/x"))
    assert url_pattern("http://[::1]:80").hits(url_of("http://[0:0::1]/"))


@pytest.mark.parametrize(
    "text",
    ["", "https://", "https://a@b/", "https://e.org/?q=1", "https://e.org/#x", "a*b.org", "https://e.org:x/", "a b"],
)
def test_what_is_no_pattern_is_refused_with_advice(text):
    with pytest.raises(ValueError, match="a url pattern"):
        url_pattern(text)
