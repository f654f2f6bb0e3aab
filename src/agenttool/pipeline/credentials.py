"""The credentials of a runtime: fetched when a call needs one, and cached for a limited time."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from agenttool.errors import CredentialMissing
from agenttool.ports.credentials import CredentialProvider, Secret
from agenttool.ports.surfacing import Circumstances
from agenttool.ports.world import Clock, Moment

MAX_CACHED = 1000
"""With more entries than this, expired ones are removed. There is one per credential, or per credential and actor."""


class LeasedCredentials(Mapping[str, Secret]):
    """The credentials that are leased to one call, by name."""

    def __init__(self, secrets: Mapping[str, Secret]) -> None:
        self._secrets = secrets

    def __getitem__(self, name: str) -> Secret:
        """Return a secret.

        Raises:
            KeyError: the call has no lease of this name; the message has the remedy.
        """
        if name not in self._secrets:
            raise KeyError(
                f"the credential {name!r} is not leased to this call; declare it with @tool(credentials=[{name!r}]), "
                f"and configure it as [credentials.{name}]"
            )
        return self._secrets[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._secrets)

    def __len__(self) -> int:
        return len(self._secrets)

    def __repr__(self) -> str:
        return f"LeasedCredentials({', '.join(map(repr, self._secrets))})"

    def revoke(self) -> None:
        """Forget all values, because the call has ended."""
        for secret in self._secrets.values():
            secret.revoke()


NO_CREDENTIALS: Final = LeasedCredentials({})


@dataclass(slots=True, eq=False)
class _Cached:
    """A fetched value, or why there is none; `fetches` counts the attempts, and `until` is none without a value."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    fetches: int = 0
    until: Moment | None = None
    value: str | None = field(default=None, repr=False)
    fault: str = ""


class CredentialVault:
    """Fetches credentials by name, once at a time for each actor, and caches each for its `ttl_s`."""

    def __init__(self, providers: Mapping[str, CredentialProvider], clock: Clock) -> None:
        self.providers = providers
        self._clock = clock
        self._entries: dict[tuple[str, str | None], _Cached] = {}

    def extend(self, circumstances: Circumstances) -> Circumstances:
        """Return the circumstances with the credentials that can be had now, and why others cannot."""
        faults = {name: fault for name, each in self.providers.items() if (fault := each.fault()) is not None}
        return circumstances.with_credentials(self.providers.keys() - faults.keys(), faults)

    def refusal(self, names: tuple[str, ...], actor: str | None) -> str | None:
        """Return why calls of an actor cannot have one of the credentials; none if they may, or it is not known yet."""
        for name in names:
            provider = self.providers.get(name)
            reason = None if provider is None else provider.refusal(actor)
            if reason is not None:
                return missing(name, reason)
        return None

    async def fetch(self, names: tuple[str, ...], actor: str | None) -> dict[str, str]:
        """Return the values of the named credentials that this vault has.

        Raises:
            CredentialMissing: one of them cannot be had.
        """
        return {name: await self._value(self.providers[name], actor) for name in names if name in self.providers}

    async def _value(self, provider: CredentialProvider, actor: str | None) -> str:
        key = provider.name, actor if provider.is_per_actor else None
        cached = self._entries.get(key) or self._add(key)
        if not self._is_fresh(cached):
            before = cached.fetches
            async with cached.lock:
                if cached.fetches == before:  # otherwise the call before fetched it, or failed to, for this one as well
                    await self._refresh(cached, provider, actor)
        if cached.value is None:
            raise CredentialMissing(missing(provider.name, cached.fault))
        return cached.value

    def _is_fresh(self, cached: _Cached) -> bool:
        return cached.until is not None and self._clock.moment().is_before(cached.until)

    def _add(self, key: tuple[str, str | None]) -> _Cached:
        if len(self._entries) >= MAX_CACHED:
            used = {name: each for name, each in self._entries.items() if self._is_fresh(each) or each.lock.locked()}
            self._entries = used
        return self._entries.setdefault(key, _Cached())

    async def _refresh(self, cached: _Cached, provider: CredentialProvider, actor: str | None) -> None:
        try:
            fetched = await provider.fetch(actor)
            cached.value, cached.until = fetched.value, self._clock.moment().after(int(fetched.ttl_s * 1e9))
        except CredentialMissing as error:
            cached.value, cached.until, cached.fault = None, None, str(error)
        cached.fetches += 1


def missing(name: str, reason: str) -> str:
    """Return the message about a credential that cannot be had."""
    return f"the credential {name!r} is missing: {reason}"
