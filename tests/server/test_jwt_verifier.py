"""JSON Web Tokens as credentials: real keys, and an issuer on this machine that publishes them."""

import base64
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from starlette.testclient import TestClient

from agenttool import Runtime, tool
from agenttool.cli.serve import server_options
from agenttool.config import JwtTable, ServerSetting, load_config
from agenttool.errors import ConfigError
from agenttool.server.jwt_verifier import FRESH_S, MIN_PAUSE_S, STALE_S, JwtVerifier

HERE = {"base_url": "http://127.0.0.1:8642", "client": ("127.0.0.1", 50_000)}
ISSUER, AUDIENCE = "https://login.example", "agenttool"
RSA_KEY, OTHER_KEY = (rsa.generate_private_key(65_537, 2048) for _ in range(2))
EC_KEY = ec.generate_private_key(ec.SECP256R1())


@tool(namespace="math", read_only=True, open_world=False)
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


class Issuer:
    """Publishes keys; `status` can make it fail."""

    def __init__(self):
        self.keys, self.status, self.reads = {"one": RSA_KEY}, 200, 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.reads += 1
                body = json.dumps({"keys": [public_jwk(name, key) for name, key in issuer.keys.items()]}).encode()
                self.send_response(issuer.status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *parts):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys.json"


def public_jwk(name, key):
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": name, "use": "sig"}


@pytest.fixture
def issuer():
    issuer = Issuer()
    thread = threading.Thread(target=issuer.server.serve_forever, args=(0.02,))
    thread.start()
    yield issuer
    issuer.server.shutdown()
    thread.join()
    issuer.server.server_close()


class Clock:
    """The time of the cached keys."""

    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def open_http(make_app, issuer, clock):
    """Open a server that accepts the issuer's tokens; keywords are settings."""
    opened = []

    def open_http(**setting):
        places = {} if "public_key_file" in setting else {"jwks_url": issuer.url}
        table = JwtTable(issuer=ISSUER, audience=(AUDIENCE,), **places, **setting)
        client = TestClient(make_app(Runtime.open, verify_jwt=JwtVerifier(table, clock)), **HERE)
        opened.append(client)
        return client.__enter__()

    yield open_http
    for each in opened:
        each.__exit__(None, None, None)


def signed(key=RSA_KEY, algorithm="RS256", kid="one", **claims):
    given = {"iss": ISSUER, "aud": AUDIENCE, "sub": "user:ada", "exp": int(time.time()) + 600, **claims}
    members = {name: value for name, value in given.items() if value is not None}
    return jwt.encode(members, key, algorithm, headers={} if kid is None else {"kid": kid})


def me(http, token):
    answer = http.get("/v1/me", headers={"authorization": f"Bearer {token}"})
    return answer.status_code, answer.json()


def identity(http, token):
    status, found = me(http, token)
    assert status == 200, found
    return found["kind"], found["subject"], found["tenant"], found["roles"]


def test_a_valid_token_names_its_subject_and_roles(open_http):
    http = open_http()
    assert identity(http, signed()) == ("jwt", "user:ada", "default", ["caller"])
    found = identity(http, signed(roles=["approver", "auditor", "emperor"]))
    assert found == ("jwt", "user:ada", "default", ["approver", "auditor"])
    assert identity(http, signed(roles="operator other"))[-1] == ["operator"]


def test_a_token_may_expire_later_than_a_timestamp_can_say(open_http):
    for late in (10**18, 1e300):
        assert me(open_http(), signed(exp=late))[1]["expires_at"].startswith("9999-12-3")


def test_a_token_has_what_its_roles_permit_and_no_more(open_http):
    http = open_http()
    caller, auditor = ({"authorization": f"Bearer {signed(roles=each)}"} for each in (["emperor"], ["auditor"]))
    assert http.get("/v1/approvals", headers=caller).status_code == 403
    assert http.get("/v1/approvals", headers=auditor).status_code == 200
    assert http.get("/v1/keys", headers=auditor).status_code == 403


def test_the_settings_name_the_claims(open_http):
    http = open_http(subject_claim="email", roles_claim="realm_access.roles", tenant_claim="org")
    token = signed(email="ada@example.org", realm_access={"roles": ["operator"]}, org="default")
    assert identity(http, token) == ("jwt", "ada@example.org", "default", ["operator"])
    for wrong in ({"org": None}, {"org": "../x"}, {"org": 7}, {"email": None}, {"email": "local"}, {"email": ["a"]}):
        status, problem = me(http, signed(**{"email": "ada@example.org", "org": "default"} | wrong))
        assert (status, "claim" in problem["detail"]) == (401, True)


RULES = """
[roles]
intern = ["user:kim"]

[[rules]]
name = "interns-do-not-add"
behavior = "deny"
tool = "math.add"
role = "intern"
"""


def test_rules_by_role_match_the_subject_of_a_token(make_app, issuer, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(RULES)
    verifier = JwtVerifier(JwtTable(issuer=ISSUER, audience=(AUDIENCE,), jwks_url=issuer.url))
    app = make_app(lambda: Runtime.open(config=file, tools=[add]), verify_jwt=verifier)
    with TestClient(app, **HERE) as http:
        made = [
            http.post(
                "/v1/calls",
                json={"tool": "add", "arguments": {"a": 1, "b": 2}},
                headers={"authorization": f"Bearer {signed(sub=subject)}"},
            ).json()
            for subject in ("user:ada", "user:kim")
        ]
    assert [each["status"] for each in made] == ["succeeded", "denied"]


def forged(header, key_text=b""):
    """A token whose header names an algorithm without a public key."""
    parts = [header, {"iss": ISSUER, "aud": AUDIENCE, "sub": "user:ada", "exp": int(time.time()) + 600}]
    text = ".".join(base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in parts)
    return f"{text}.{base64.urlsafe_b64encode(key_text).rstrip(b'=').decode()}"


WRONG = {
    "expired": (lambda: signed(exp=int(time.time()) - 60), "expired"),
    "not yet valid": (lambda: signed(nbf=int(time.time()) + 300), "not yet valid"),
    "without expiry": (lambda: signed(exp=None), "exp"),
    "of another audience": (lambda: signed(aud="elsewhere"), "udience"),
    "without audience": (lambda: signed(aud=None), "aud"),
    "of another issuer": (lambda: signed(iss="https://evil.example"), "ssuer"),
    "signed by another key": (lambda: signed(OTHER_KEY), "ignature"),
    "of an unknown key": (lambda: signed(kid="two"), "no key 'two'"),
    "of another algorithm": (lambda: signed(algorithm="RS512"), "signed with 'RS512'"),
    "of a key of another kind": (lambda: signed(EC_KEY, "ES256"), "not valid"),
    "signed with a shared secret": (lambda: signed("0123456789abcdef" * 4, "HS256"), "signed with 'HS256'"),
    "unsigned": (lambda: forged({"alg": "none", "kid": "one"}), "signed with 'none'"),
    "with an empty signature": (lambda: forged({"alg": "RS256", "kid": "one"}), "ignature"),
    "with critical extensions": (lambda: forged({"alg": "RS256", "kid": "one", "crit": ["x"]}, b"x"), "token"),
    "no token": (lambda: "a.b.c", "not a signed JSON Web Token"),
}


@pytest.mark.parametrize(("make", "reason"), WRONG.values(), ids=WRONG)
def test_a_wrong_token_is_refused_with_the_reason(open_http, make, reason):
    status, problem = me(open_http(), make())
    assert (status, reason in problem["detail"]) == (401, True), problem


def test_clocks_may_differ_by_the_leeway(open_http):
    late = signed(exp=int(time.time()) - 60)
    assert me(open_http(leeway_s=0), late)[0] == 401
    assert me(open_http(leeway_s=300), late)[0] == 200


def test_a_new_key_is_read_when_a_token_names_it_and_a_deleted_one_expires(open_http, issuer, clock):
    http = open_http()
    assert me(http, signed())[0] == 200
    issuer.keys = {"two": EC_KEY}
    clock.now += MIN_PAUSE_S
    assert me(http, signed(EC_KEY, "ES256", "two"))[0] == 200
    assert me(http, signed(exp=int(time.time()) + 601))[0] == 401
    assert issuer.reads == 2


def test_invented_key_ids_do_not_make_the_keys_be_read_each_time(open_http, issuer, clock):
    http = open_http()
    assert [me(http, signed(kid=f"invented-{number}"))[0] for number in range(5)] == [401] * 5
    assert issuer.reads == 1
    clock.now += MIN_PAUSE_S
    assert me(http, signed(kid="invented-6"))[0] == 401
    assert (me(http, signed())[0], issuer.reads) == (200, 2)


def test_keys_are_used_for_a_while_when_the_issuer_is_down(open_http, issuer, clock):
    http = open_http()
    assert me(http, signed(roles=["caller"]))[0] == 200
    issuer.status = 500
    clock.now += FRESH_S + 1
    assert me(http, signed(roles=["auditor"]))[0] == 200
    clock.now += STALE_S
    status, problem = me(http, signed(roles=["operator"]))
    assert (status, "answered 500" in problem["detail"]) == (503, True)
    issuer.status = 200
    clock.now += MIN_PAUSE_S
    assert me(http, signed(roles=["operator"]))[0] == 200


def test_an_issuer_that_was_never_reached_makes_tokens_wait_and_harms_no_other_request(open_http, issuer):
    issuer.status = 404
    http = open_http()
    assert me(http, signed())[0] == 503
    assert http.get("/v1/me").json()["kind"] == "local"


def test_secret_weak_and_encryption_keys_of_the_issuer_are_not_used(open_http, issuer, monkeypatch):
    weak = rsa.generate_private_key(65_537, 1024)  # noqa: S505 -- it must be refused
    published = {"one": {"use": "enc"}, "private": {"d": "AQAB"}, "weak": {}}
    issuer.keys = {"one": RSA_KEY, "private": RSA_KEY, "weak": weak, "good": EC_KEY}
    plain = public_jwk
    monkeypatch.setitem(globals(), "public_jwk", lambda name, key: {**plain(name, key), **published.get(name, {})})
    http = open_http()
    assert me(http, signed(EC_KEY, "ES256", "good"))[0] == 200
    assert [me(http, signed(kid=each))[0] for each in ("one", "private")] == [401, 401]
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        token = signed(weak, kid="weak")
    assert me(http, token)[0] == 401


def test_one_public_key_can_be_a_file(open_http, tmp_path):
    file = tmp_path / "issuer.pem"
    file.write_bytes(RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    http = open_http(public_key_file=str(file), algorithms=("RS256",))
    assert identity(http, signed(kid=None))[1] == "user:ada"
    assert [me(http, each)[0] for each in (signed(OTHER_KEY), signed(EC_KEY, "ES256"))] == [401, 401]


def test_a_file_without_a_public_key_is_an_error_at_start(tmp_path):
    file = tmp_path / "issuer.pem"
    for data in (None, b"no key", RSA_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())):
        if data is not None:
            file.write_bytes(data)
        with pytest.raises(ConfigError, match="public_key_file"):
            JwtVerifier(JwtTable(issuer=ISSUER, audience=(AUDIENCE,), public_key_file=str(file)))


INVALID = {
    'jwks_url = "http://login.example/keys"': "must use https",
    "": "needs jwks_url or public_key_file",
    'jwks_url = "https://x.example"\npublic_key_file = "x"': "needs jwks_url or public_key_file",
    'jwks_url = "https://x.example"\nalgorithms = ["HS256"]': "settings.toml:5: algorithms must be",
    'jwks_url = "https://x.example"\nalgorithms = ["none"]': "settings.toml:5: algorithms must be",
    'jwks_url = "https://x.example"\naudiences = "x"': "did you mean 'audience'",
}


@pytest.mark.parametrize(("lines", "message"), INVALID.items(), ids=range(len(INVALID)))
def test_invalid_settings_are_refused_at_start(tmp_path, lines, message):
    file = tmp_path / "settings.toml"
    file.write_text(f'[server.jwt]\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"\n{lines}\n')
    with pytest.raises(ConfigError) as raised:
        load_config(file)
    assert message in str(raised.value)


def test_settings_make_a_verifier_and_a_missing_extra_is_named(monkeypatch, issuer):
    setting = ServerSetting(jwt={"issuer": ISSUER, "audience": [AUDIENCE], "jwks_url": issuer.url})
    assert isinstance(server_options(setting, "http://127.0.0.1:8642").verify_jwt, JwtVerifier)
    monkeypatch.delitem(sys.modules, "agenttool.server.jwt_verifier")
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(ConfigError, match=r"pip install 'agenttool\[jwt\]'"):
        server_options(setting, "http://127.0.0.1:8642")
