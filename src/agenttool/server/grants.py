"""API keys, console sessions and login links; a store has only the digests of their secrets."""

import hmac
import secrets
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from hashlib import sha256

from agenttool.codec import read_stored, write_own
from agenttool.errors import ConfigError, StoreError
from agenttool.ports.identity import DEFAULT_TENANT, AccessRole, IdentityKind, Principal
from agenttool.ports.quota import PER_CALLER
from agenttool.ports.stores import DocumentStore
from agenttool.records import ClosedEnum, Part, replace

DOCUMENT_KIND = "access_grant"
MAX_LISTED = 10_000
MAX_SUBJECT = 200

_USE_RECORDED_EVERY_S = 600
_ID_BYTES, _SECRET_BYTES = 8, 32

_SERVER_KIND, _URL = "server", "url"
"""The kind and the key of the document with the URL of the server."""


class GrantKind(ClosedEnum):
    """The kinds of grants; the value is the prefix of the token."""

    KEY = "atk"
    SESSION = "ats"
    LOGIN = "atl"
    """A login link, which can be exchanged for a session once."""


class Grant(Part, frozen=True, kw_only=True):
    """A stored grant.

    Attributes:
        digest: SHA-256 of the secret part of the token.
        key_id: the API key that a session was created with, if any.
        expires_at_s: when it expires, in seconds since 1970; None if it does not.
        used_at_s: when it was used last; updated every ten minutes at most.
    """

    grant_id: str
    kind: GrantKind
    digest: bytes
    subject: str
    tenant: str
    roles: tuple[AccessRole, ...]
    created_at_s: float
    created_by: str
    key_id: str | None = None
    expires_at_s: float | None = None
    revoked_at_s: float | None = None
    used_at_s: float | None = None

    def is_valid(self, now_s: float) -> bool:
        """Return whether it is neither revoked nor expired."""
        return self.revoked_at_s is None and (self.expires_at_s is None or now_s < self.expires_at_s)

    @property
    def principal(self) -> Principal:
        """The identity that it grants."""
        return Principal(
            subject=self.subject,
            tenant=self.tenant,
            roles=frozenset(self.roles),
            kind=IdentityKind.KEY if self.kind is GrantKind.KEY else IdentityKind.SESSION,
            key_id=self.grant_id if self.kind is GrantKind.KEY else self.key_id,
        )


def is_subject(name: str) -> bool:
    """Return whether a name can be a subject: printable, without surrounding spaces."""
    return 0 < len(name) <= MAX_SUBJECT and name.isprintable() and name == name.strip()


class AccessGrants:
    """The grants of all tenants of a server, in the documents of its default tenant.

    Every process on the store may add and revoke them.
    """

    def __init__(self, documents: DocumentStore, now_s: Callable[[], float]) -> None:
        """Take the documents, and a function that returns the time."""
        self._documents = documents
        self._now_s = now_s

    async def add(  # noqa: PLR0913 -- the members of a grant
        self,
        kind: GrantKind,
        *,
        subject: str,
        roles: Collection[AccessRole],
        created_by: str,
        tenant: str = DEFAULT_TENANT,
        lifetime_s: float | None = None,
        key_id: str | None = None,
    ) -> tuple[str, Grant]:
        """Store a new grant; return its token, which is not stored, and the grant.

        Raises:
            ConfigError: the subject or the lifetime is invalid.
            StoreError: it could not be stored.
        """
        if not is_subject(subject):
            raise ConfigError(f"a subject is a name of 1 to {MAX_SUBJECT} printable characters, got {subject!r}")
        if lifetime_s is not None and not 0 < lifetime_s < 1e10:  # noqa: PLR2004 -- some hundred years
            raise ConfigError(f"the lifetime of a key must be a positive number of seconds, got {lifetime_s!r}")
        now_s, secret = self._now_s(), secrets.token_urlsafe(_SECRET_BYTES)
        grant = Grant(
            grant_id=secrets.token_hex(_ID_BYTES),
            kind=kind,
            digest=_digest(secret),
            subject=subject,
            tenant=tenant,
            roles=tuple(sorted(roles)),
            created_at_s=now_s,
            created_by=created_by,
            expires_at_s=None if lifetime_s is None else now_s + lifetime_s,
            key_id=key_id,
        )
        await self._documents.put(DOCUMENT_KIND, _key(grant.kind, grant.grant_id), write_own(grant))
        return f"{_key(kind, grant.grant_id)}_{secret}", grant

    async def find(self, token: str, kind: GrantKind) -> Grant | None:
        """Return the valid grant of a token; None if there is none. Digests are compared in constant time.

        Raises:
            StoreError: the store could not be read.
        """
        prefix, _, rest = token.partition("_")
        grant_id, _, secret = rest.partition("_")
        if prefix != kind.value or not grant_id.isascii() or not grant_id.isalnum():
            return None
        body = await self._documents.get(DOCUMENT_KIND, _key(kind, grant_id))
        grant = read_stored(body, Grant)
        known = b"" if grant is None else grant.digest
        if not hmac.compare_digest(known, _digest(secret)) or grant is None or body is None:
            return None
        if not grant.is_valid(self._now_s()) or not await self._is_key_valid(grant):
            return None
        return await self._record_use(grant, body)

    async def is_still_valid(self, grant: Grant) -> bool:
        """Return whether a grant is stored and valid now, and the key behind a session, too."""
        current = await self.get(grant.kind, grant.grant_id)
        return current is not None and current.is_valid(self._now_s()) and await self._is_key_valid(current)

    async def _is_key_valid(self, grant: Grant) -> bool:
        """Return whether the key behind a session is valid; also true without such a key."""
        if grant.key_id is None or grant.kind is GrantKind.KEY:
            return True
        key = await self.get(GrantKind.KEY, grant.key_id)
        return key is not None and key.is_valid(self._now_s())

    async def _record_use(self, grant: Grant, body: bytes) -> Grant:
        now_s = self._now_s()
        if grant.kind is not GrantKind.KEY or now_s - (grant.used_at_s or 0) < _USE_RECORDED_EVERY_S:
            return grant
        used = replace(grant, used_at_s=now_s)
        with suppress(StoreError):  # a full disk does not lock operators out; a later use is recorded
            key = _key(grant.kind, grant.grant_id)
            await self._documents.swap(DOCUMENT_KIND, key, before=body, after=write_own(used))
        return used

    async def consume(self, token: str) -> Grant | None:
        """Return the grant of a login link and delete it; None if it is not valid or another client was first."""
        grant = await self.find(token, GrantKind.LOGIN)
        if grant is None:
            return None
        key = _key(grant.kind, grant.grant_id)
        body = await self._documents.get(DOCUMENT_KIND, key)
        if body is None or not await self._documents.withdraw(DOCUMENT_KIND, key, before=body, after=None):
            return None
        return grant

    async def get(self, kind: GrantKind, grant_id: str) -> Grant | None:
        """Return a grant by its id, also a revoked one."""
        body = await self._documents.get(DOCUMENT_KIND, _key(kind, grant_id))
        return read_stored(body, Grant)

    async def list(self, kind: GrantKind, tenant: str | None = None) -> Sequence[Grant]:
        """Return the grants of a kind, of one tenant or of all."""
        page = await self._documents.page(DOCUMENT_KIND, prefix=f"{kind.value}_", limit=MAX_LISTED)
        found = (read_stored(body, Grant) for _, body in page)
        listed = [each for each in found if each is not None and tenant in (None, each.tenant)]
        return sorted(listed, key=lambda each: each.created_at_s)

    async def revoke(self, kind: GrantKind, grant_id: str, tenant: str | None = None) -> bool:
        """Revoke a grant, in every process on the store; return whether there was a valid one.

        A session is deleted. A key remains listed as revoked.
        """
        key = _key(kind, grant_id)
        while (body := await self._documents.get(DOCUMENT_KIND, key)) is not None:
            grant = read_stored(body, Grant)
            if grant is None or tenant not in (None, grant.tenant) or grant.revoked_at_s is not None:
                return False
            after = write_own(replace(grant, revoked_at_s=self._now_s())) if kind is GrantKind.KEY else None
            if await self._documents.withdraw(DOCUMENT_KIND, key, before=body, after=after):
                return True
        return False

    async def store_url(self, url: str) -> None:
        """Store the URL of the server that runs, for the login links that other processes make."""
        await self._documents.put(_SERVER_KIND, _URL, url.encode())

    async def url(self) -> str | None:
        """Return the URL of the server that started last; None if there was none."""
        body = await self._documents.get(_SERVER_KIND, _URL)
        return None if body is None else body.decode()

    async def delete_surplus(self, newest: Grant) -> None:
        """Delete expired sessions and login links, and the oldest sessions of a caller that has too many."""
        sessions, own = await self.list(GrantKind.SESSION), (newest.tenant, newest.subject)
        owned = [each for each in sessions if (each.tenant, each.subject) == own and each.grant_id != newest.grant_id]
        surplus = owned[: max(len(owned) + 1 - PER_CALLER["console sessions"], 0)]
        for grant in surplus:
            await self.revoke(grant.kind, grant.grant_id)
        for grant in (*sessions, *await self.list(GrantKind.LOGIN)):
            if not grant.is_valid(self._now_s()):
                await self._documents.put(DOCUMENT_KIND, _key(grant.kind, grant.grant_id), None)


def _key(kind: GrantKind, grant_id: str) -> str:
    return f"{kind.value}_{grant_id}"


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
