"""JSON Web Tokens (RFC 7519) as credentials, signed by the issuer in the settings with a public-key algorithm."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import TypeAlias, cast
from urllib.parse import urlsplit

import msgspec

from agenttool.codec import list_of, object_of
from agenttool.config import JwtTable
from agenttool.errors import ConfigError
from agenttool.http.client import HttpClient
from agenttool.http.ssrf import SsrfPolicy
from agenttool.ports.identity import DEFAULT_TENANT, LOCAL, AccessRole, IdentityKind, Principal
from agenttool.records import Json, JsonObject
from agenttool.server.authentication import Identity, unauthorized
from agenttool.server.grants import is_subject
from agenttool.server.problem import Problem
from agenttool.server.tenants import is_tenant_name

try:
    import jwt
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
except ImportError as error:
    raise ConfigError(
        f"[server.jwt] needs the package {error.name!r}; install it with: pip install 'agenttool[jwt]'"
    ) from error

FRESH_S = 600.0
"""How long keys are used before they are read again; a key that the issuer deleted is accepted as long."""

STALE_S = 3600.0
"""How long keys are used while the issuer cannot be reached."""

MIN_PAUSE_S = 10.0
"""The minimum time between two reads of the keys, which tokens with invented key ids cannot shorten."""

LAST_MOMENT_S = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""A token that expires later is treated as expiring then: a timestamp cannot name a later time."""

MAX_KEYS_BYTES = 1_000_000
MAX_KEYS = 100
MIN_RSA_BITS = 2048
_TIMEOUT_S = 10.0
_REQUIRED = ["exp", "iss", "aud"]

log = logging.getLogger("agenttool.server")

PublicKey: TypeAlias = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey


class JwtVerifier:
    """Returns the identity of a token whose signature, issuer, audience and times are valid."""

    def __init__(self, setting: JwtTable, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the settings; read the file of the public key if they name one.

        Raises:
            ConfigError: the file has no usable public key.
        """
        self._setting = setting
        file, url = setting.public_key_file, setting.jwks_url or ""
        self._keys = IssuerKeys(url, clock) if file is None else _read_key_file(Path(file))

    async def __call__(self, token: str) -> Identity:
        """Return the identity of a token.

        Raises:
            Problem: 401, because the token is not valid; 503, because the keys of the issuer cannot be read.
        """
        try:
            header = object_of(jwt.get_unverified_header(token))
        except jwt.PyJWTError:
            raise unauthorized("the token is not a signed JSON Web Token; get a new one") from None
        algorithm = header.get("alg")
        if algorithm not in self._setting.algorithms:
            wanted = ", ".join(self._setting.algorithms)
            raise unauthorized(f"the token is signed with {algorithm!r}; this server accepts {wanted}")
        keys = self._keys
        key = await keys.find(header.get("kid"), algorithm) if isinstance(keys, IssuerKeys) else keys
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=self._setting.issuer,
                audience=self._setting.audience,
                leeway=self._setting.leeway_s,
                options={"require": _REQUIRED},
            )
        except jwt.PyJWTError as error:
            raise unauthorized(f"the token is not valid: {error}; get a new one") from None
        except (TypeError, ValueError):  # a key of another kind than the algorithm needs
            raise unauthorized("the token is not valid: its key does not fit its algorithm; get a new one") from None
        return self._identity(object_of(claims))

    def _identity(self, claims: JsonObject) -> Identity:
        setting = self._setting
        subject, expires = _claim(claims, setting.subject_claim), claims["exp"]
        if not isinstance(subject, str) or not is_subject(subject) or subject == LOCAL:
            raise unauthorized(
                f"the claim {setting.subject_claim!r} of the token is no usable name; correct the issuer"
            )
        tenant = DEFAULT_TENANT if setting.tenant_claim is None else _claim(claims, setting.tenant_claim)
        if not isinstance(tenant, str) or not is_tenant_name(tenant):
            detail = f"the claim {setting.tenant_claim!r} of the token names no tenant; correct the issuer"
            raise unauthorized(detail)
        return Identity(
            principal=Principal(
                subject=subject,
                tenant=tenant,
                roles=_roles(_claim(claims, setting.roles_claim)),
                kind=IdentityKind.JWT,
            ),
            expires_at_s=min(float(cast("float", expires)) + setting.leeway_s, LAST_MOMENT_S),
        )


def _claim(claims: JsonObject, name: str) -> Json:
    """Return a claim; `a.b` is the member `b` of the claim `a`, unless a claim has this name."""
    if name in claims:
        return claims[name]
    found: Json = claims
    for each in name.split("."):
        found = object_of(found).get(each)
    return found


def _roles(listed: Json) -> frozenset[AccessRole]:
    names = listed.split() if isinstance(listed, str) else list_of(listed)
    return frozenset(each for each in AccessRole if each.value in names) or frozenset({AccessRole.CALLER})


class IssuerKeys:
    """The public keys of an issuer, read from its URL when they are needed, and again when they are old."""

    def __init__(self, url: str, clock: Callable[[], float]) -> None:
        """Take the URL of the keys; the owner of the server wrote it, so its host may have a private address."""
        self._url, self._clock = url, clock
        self._client = HttpClient(SsrfPolicy.parse([urlsplit(url).hostname or ""]), timeout_s=_TIMEOUT_S)
        self._keys: list[tuple[JsonObject, PublicKey]] = []
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._fault: str | None = None
        self._reading = asyncio.Lock()

    async def find(self, key_id: Json, algorithm: str) -> PublicKey:
        """Return the key of an id; without an id, the only key. For an unknown id, the keys are read again.

        Raises:
            Problem: 401, because the issuer has no such key; 503, because the keys cannot be read.
        """
        found = self._known(key_id, algorithm, FRESH_S)
        if found is None:
            await self._refresh(has_key=self._known(key_id, algorithm, STALE_S) is not None)
            found = self._known(key_id, algorithm, STALE_S)
        if found is not None:
            return found
        if self._fault is None:
            raise unauthorized(f"the issuer of the token has no key {key_id!r} for {algorithm}; get a new token")
        detail = f"the public keys of the issuer of tokens cannot be read: {self._fault}; send the request again"
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers={"retry-after": str(round(MIN_PAUSE_S))})

    def _known(self, key_id: Json, algorithm: str, max_age_s: float) -> PublicKey | None:
        if self._read_at is None or self._clock() - self._read_at > max_age_s:
            return None
        fitting = [
            key
            for members, key in self._keys
            if members.get("alg") in (None, algorithm) and key_id in (None, members.get("kid"))
        ]
        return fitting[0] if len(fitting) == 1 else None

    async def _refresh(self, *, has_key: bool) -> None:
        """Read the keys, unless that was tried within `MIN_PAUSE_S`; with a key, do not wait for a running read."""
        if has_key and self._reading.locked():
            return
        async with self._reading:
            now = self._clock()
            if self._tried_at is not None and now - self._tried_at < MIN_PAUSE_S:
                return
            self._tried_at = now
            try:
                self._keys = await self._read()
            except ValueError as error:
                self._fault = str(error)
                log.warning("the public keys at %s cannot be read: %s", self._url, error)
            else:
                self._read_at, self._fault = now, None

    async def _read(self) -> list[tuple[JsonObject, PublicKey]]:
        """Return the usable keys.

        Raises:
            ValueError: they cannot be read, or none is usable.
        """
        try:
            reply = await self._client.get(self._url, max_bytes=MAX_KEYS_BYTES)
        finally:
            await self._client.close()
        if reply.status != HTTPStatus.OK:
            raise ValueError(reply.fault or f"the issuer answered {reply.status}")
        try:
            document = msgspec.json.decode(reply.body, type=dict[str, object])
        except msgspec.MsgspecError:
            raise ValueError("the document is not a JSON object") from None
        members = map(object_of, list_of(document.get("keys"))[:MAX_KEYS])
        found = [(each, key) for each in members if (key := _public_key(each)) is not None]
        if not found:
            raise ValueError("the document has no usable public key")
        return found


def _public_key(members: JsonObject) -> PublicKey | None:
    """Return the key of a JSON Web Key; None if it is secret, is not for signatures, or is not supported."""
    if members.get("kty") not in ("RSA", "EC", "OKP") or "d" in members or members.get("use") not in (None, "sig"):
        return None
    try:
        return _usable(jwt.PyJWK(cast("Mapping[str, str]", members)).key)  # pyright: ignore[reportArgumentType] -- a dict
    except (jwt.PyJWTError, TypeError, ValueError):
        return None


def _usable(key: object) -> PublicKey | None:
    if isinstance(key, RSAPublicKey):
        return key if key.key_size >= MIN_RSA_BITS else None
    return key if isinstance(key, EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey) else None


def _read_key_file(file: Path) -> PublicKey:
    try:
        key = _usable(load_pem_public_key(file.read_bytes()))
    except OSError as error:
        raise ConfigError(
            f"public_key_file of [server.jwt] cannot be read: {str(file)!r}: {error.strerror}; name another file"
        ) from error
    except (ValueError, TypeError):
        key = None
    if key is None:
        raise ConfigError(
            f"public_key_file of [server.jwt] has no usable public key: {str(file)!r}; write a PEM file with an RSA key"
            f" of {MIN_RSA_BITS} bits or more, or an EC or Ed25519 key"
        )
    return key
