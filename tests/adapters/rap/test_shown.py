"""A person is sent only to pages whose URL says where it leads, the same to every reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.rap.shown import LONGEST, why_not_shown

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
    "too long": "https://id.example.test/" + "x" * LONGEST,
    "nothing": "",
}


@pytest.mark.parametrize("url", SAFE)
def test_a_plain_page_with_tls_is_shown(url):
    assert why_not_shown(url, allows_http=False) is None


@pytest.mark.requirement("RAP-414")
@pytest.mark.parametrize("what", UNSAFE)
def test_nobody_is_sent_where_a_url_may_mislead(what):
    told = why_not_shown(UNSAFE[what], allows_http=True)
    assert told is not None
    assert not UNSAFE[what] or UNSAFE[what] not in told


@given(st.text())
def test_whatever_is_shown_is_plain_and_secure(text):
    for url in (text, f"https://{text}", f"https://h.example/{text}"):
        if why_not_shown(url, allows_http=False) is None:
            assert url.startswith("https://")
            assert url.isascii()
            assert url.isprintable()
            assert "@" not in url.split("/")[2]
