"""Commands against a server: `--url` or `AGENTTOOL_URL` names it, and the key comes from the environment or a file."""

import os
import shlex
import stat
from pathlib import Path

from agenttool.cli.options import KEY, KEY_FILE
from agenttool.client import AsyncClient, Client
from agenttool.config import environment
from agenttool.errors import ConfigError


def open_server(url: str) -> Client:
    """Return a client of a server, with the key of the environment."""
    return Client(url, key=_read_key())


def async_client(url: str) -> AsyncClient:
    """Return the same for code with an event loop."""
    return AsyncClient(url, key=_read_key())


def _read_key() -> str | None:
    """Return the key of the environment, or of the file that it names.

    Raises:
        ConfigError: the file cannot be read, or other users can read it.
    """
    found = environment([KEY, KEY_FILE])
    if key := found.get(KEY):
        return key.strip()
    if not (name := found.get(KEY_FILE)):
        return None
    try:
        with Path(name).expanduser().open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise ConfigError(
                    f"other users can use the key file {name!r} (mode {mode:04o}); run: chmod 600 {shlex.quote(name)}"
                )
            return file.read(1000).decode("ascii", "replace").strip()
    except OSError as error:
        raise ConfigError(f"the key file {name!r} cannot be read: {error.strerror}; correct {KEY_FILE}") from error
