"""The files of OAuth tokens: one for each server and actor, beside the user's settings, which only this user reads."""

import asyncio
import os
import re
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from mcp.client.auth import TokenStorage
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import BaseModel, ValidationError

from agenttool.adapters.mcp.settings import McpServer
from agenttool.config.layers import user_file
from agenttool.errors import ConfigError

FOLDER = "mcp-tokens"
"""The folder of the files, beside the user's settings file."""


class StoredLogin(BaseModel):
    """The content of one file."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None


class TokenFile(TokenStorage):
    """Stores the tokens of one server, for all callers or for one actor, and the registration of this client."""

    def __init__(self, server: McpServer, actor: str | None) -> None:
        """Take the server, and the actor that the tokens belong to."""
        self.path = path_of(server, actor)

    async def get_tokens(self) -> OAuthToken | None:
        """Return the stored tokens."""
        return (await asyncio.to_thread(self._read)).tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens in place of those before."""
        await asyncio.to_thread(self._change, {"tokens": tokens})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the stored registration."""
        return (await asyncio.to_thread(self._read)).client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a registration."""
        await asyncio.to_thread(self._change, {"client": client_info})

    def _read(self) -> StoredLogin:
        with suppress(FileNotFoundError, ValidationError):  # another version may have written it
            return StoredLogin.model_validate_json(self.path.read_bytes())
        return StoredLogin()

    def _change(self, members: dict[str, object]) -> None:
        """Replace the file by a new one, so that a reader never sees a part.

        Raises:
            ConfigError: the folder cannot be written.
        """
        stored = self._read().model_copy(update=members)
        unfinished = self.path.with_suffix(f".{os.getpid()}.new")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
                file.write(stored.model_dump_json(exclude_none=True).encode())
            unfinished.replace(self.path)
        except OSError as error:
            raise ConfigError(f"tokens cannot be stored in {str(self.path.parent)!r}: {error.strerror}") from error


def path_of(server: McpServer, actor: str | None) -> Path:
    """Return the file of the tokens of a server and an actor; two servers never share one, whatever their names."""
    digest = sha256("\0".join((server.name, server.url or "", actor or "")).encode()).hexdigest()[:16]
    return user_file().parent / FOLDER / f"{re.sub('[^A-Za-z0-9_-]', '_', server.name)}-{digest}.json"


class FixedClient(TokenStorage):
    """Stores tokens, and returns the registration of the settings."""

    def __init__(self, storage: TokenStorage, client: OAuthClientInformationFull) -> None:
        """Take the storage of the tokens, and the registration."""
        self.get_tokens, self.set_tokens = storage.get_tokens, storage.set_tokens
        self._storage = storage
        self._client = client

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registration of the settings, with the authorization server that it was used with."""
        stored = await self._storage.get_client_info()
        is_same = stored is not None and stored.client_id == self._client.client_id
        issuer = stored.issuer if stored is not None and is_same else None
        return self._client.model_copy(update={"issuer": self._client.issuer or issuer})

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store which authorization server the registration belongs to; the settings have its secret."""
        await self._storage.set_client_info(client_info.model_copy(update={"client_secret": None}))
