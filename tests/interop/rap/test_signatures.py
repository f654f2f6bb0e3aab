"""A signer and a checker written from the page about signatures alone, and ours: each takes what the other signs."""

import subprocess

import pytest

from agenttool.adapters.rap.credentials import SIGNATURE_HEADER, CredentialRequest, Signed, SigningSide

WORD = "a-secret-that-both-sides-have"
BODY = '{"operation": "read_probe", "arguments": {"crop": "Öl"}}'.encode()
URLS = ["https://gh.example/rap/invoke?k=1", "http://127.0.0.1:8123/invoke", "https://gh.example:443", "http://[::1]/x"]


@pytest.fixture
def in_node(node, node_programs):
    """Give what the program in Node says."""

    def ask(task, speaker, url, *more, body=BODY):
        command = [node, str(node_programs / "signing.mjs"), task, WORD, speaker.value, "POST", url, *more]
        done = subprocess.run(command, input=body, capture_output=True, check=True, timeout=60)
        return done.stdout.decode().strip()

    return ask


@pytest.mark.parametrize("url", URLS)
def test_we_take_what_node_signs(in_node, url):
    header = in_node("sign", SigningSide.RUNTIME, url)
    asked = CredentialRequest(method="POST", url=url, headers={SIGNATURE_HEADER.lower(): header}, body=BODY)
    assert Signed(WORD).caller_of(asked) == "signed"
    assert Signed(WORD, sender=SigningSide.PROVIDER).caller_of(asked) is None


@pytest.mark.parametrize("url", URLS)
def test_node_takes_what_we_sign(in_node, url):
    header = Signed(WORD).for_sender(SigningSide.PROVIDER).headers("POST", url, BODY)[SIGNATURE_HEADER]
    assert in_node("check", SigningSide.PROVIDER, url, header) == "true"


def test_node_refuses_what_we_signed_for_others(in_node):
    header = Signed(WORD).headers("POST", URLS[0], BODY)[SIGNATURE_HEADER]
    assert in_node("check", SigningSide.PROVIDER, URLS[0], header) == "false"
    assert in_node("check", SigningSide.RUNTIME, "https://other.example/rap/invoke?k=1", header) == "false"
    assert in_node("check", SigningSide.RUNTIME, URLS[0], header, body=b"{}") == "false"
