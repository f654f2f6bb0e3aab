"""A signature holds for one request: by one side, to one server, within its time, and once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.rap.credentials import (
    SIGNATURE_HEADER,
    CredentialRequest,
    Signed,
    SigningSide,
    origin_of,
)
from agenttool.adapters.rap.settings import read_source
from agenttool.errors import ConfigError

WORD = "a-secret-of-a-fair-length"
URL = "https://gh.example/rap/invoke?k=1"
NOW = 1_790_000_000.0


def signed(now=NOW, **options):
    return Signed(WORD, clock=lambda: now, **options)


def request(headers, url=URL, method="POST", body=b"{}"):
    return CredentialRequest(
        method=method, url=url, headers={name.lower(): value for name, value in headers.items()}, body=body
    )


def test_a_request_is_admitted_where_it_was_signed_for_and_has_a_nonce():
    checks, asked = signed(), request(signed().headers("POST", URL, b"{}"))
    assert checks.caller_of(asked) == "signed"
    nonce, expires_at = checks.nonce_of(asked)
    assert (len(nonce), expires_at) == (32, NOW + 300)
    assert "received before" in checks.rejection_reason(asked)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"url": "https://other.example/rap/invoke?k=1"}, "signed for https://gh.example"),
        ({"url": "http://gh.example/rap/invoke?k=1"}, "signed for https://gh.example"),
        ({"url": "https://gh.example:8443/rap/invoke?k=1"}, "signed for https://gh.example"),
        ({"url": "https://gh.example/invoke?k=1"}, "the signature is wrong"),
        ({"url": "https://gh.example/rap/invoke"}, "the signature is wrong"),
        ({"method": "PUT"}, "the signature is wrong"),
        ({"body": b"[]"}, "the signature is wrong"),
        ({"url": None}, "does not know its own address"),
    ],
)
def test_a_request_that_differs_from_the_signed_one_is_rejected_with_a_reason(change, why):
    asked = request(**{"headers": signed().headers("POST", URL, b"{}"), **change})
    assert signed().caller_of(asked) is None
    assert why in signed().rejection_reason(asked)


@pytest.mark.parametrize("url", ["https://gh.example:443/rap/invoke?k=1", "https://GH.example./rap/invoke?k=1"])
def test_one_server_has_one_name_however_it_is_written(url):
    assert signed().caller_of(request(signed().headers("POST", URL, b"{}"), url)) == "signed"


@pytest.mark.parametrize(("speaks", "listens"), [(*SigningSide,), (*reversed(SigningSide),)])
def test_what_one_side_signs_the_other_cannot_send_as_its_own(speaks, listens):
    asked = request(signed().for_sender(speaks).headers("POST", URL, b"{}"))
    assert signed(sender=speaks).caller_of(asked) == "signed"
    assert signed(sender=listens).caller_of(asked) is None
    assert f"signed by a {speaks.value}" in signed(sender=listens).rejection_reason(asked)


@pytest.mark.parametrize("late", [-301, 301])
def test_a_request_out_of_its_time_is_refused(late):
    asked = request(signed().headers("POST", URL, b"{}"))
    assert signed(NOW + late).caller_of(asked) is None
    assert "clocks" in signed(NOW + late).rejection_reason(asked)


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (None, "not signed"),
        (f"v=3,from=runtime,to=https://gh.example,t=1,n={'0' * 32},s={'0' * 64}", "not a signature of version 2"),
        ("", "not a signature of version 2"),
    ],
)
def test_an_outdated_signature_is_rejected_with_a_reason(header, why):
    asked = request({} if header is None else {SIGNATURE_HEADER: header})
    assert signed().caller_of(asked) is None
    assert why in signed().rejection_reason(asked)


def test_a_caller_without_the_secret_learns_no_further_reason():
    asked = request(
        Signed("another-secret-of-length", sender=SigningSide.PROVIDER).headers("POST", "https://x.example", b"")
    )
    assert signed().rejection_reason(asked).startswith("the signature is wrong")


@given(position=st.integers(min_value=0), letter=st.sampled_from("0123456789abcdefx,=:"))
def test_a_header_that_was_changed_anywhere_is_refused(position, letter):
    header = signed().headers("POST", URL, b"{}")[SIGNATURE_HEADER]
    at = position % len(header)
    changed = header[:at] + letter + header[at + 1 :]
    is_same = changed == header
    assert (signed().caller_of(request({SIGNATURE_HEADER: changed})) is not None) == is_same


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://127.0.0.1:80/x", "http://127.0.0.1"),
        ("http://[::1]:8123", "http://[::1]:8123"),
        ("https://Gh.Example:8443/?q", "https://gh.example:8443"),
    ],
)
def test_an_origin_is_written_in_one_way(url, origin):
    assert origin_of(url) == origin


def test_a_source_signs_with_the_secret_that_its_settings_name():
    source = read_source("gh", {"url": "https://gh.example", "secret_env": "S"}, {"S": WORD}.get)
    assert Signed(WORD).caller_of(request(source.headers("POST", URL, b"{}"))) == "signed"
    assert WORD not in repr(source)


@pytest.mark.parametrize(
    ("members", "why"),
    [({"secret_env": "S", "token_env": "T"}, "one of them"), ({"secret_env": "X"}, "secret_env names 'X'")],
)
def test_settings_that_say_no_secret_or_two_are_refused(members, why):
    with pytest.raises(ConfigError, match=why):
        read_source("gh", {"url": "https://gh.example", **members}, {"S": WORD, "T": WORD}.get)


def test_a_short_secret_is_refused():
    with pytest.raises(ConfigError, match="16 characters"):
        Signed("short")
