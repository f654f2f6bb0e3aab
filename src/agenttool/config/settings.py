"""The records of a settings file."""

from dataclasses import dataclass
from pathlib import Path

from agenttool.records import JsonObject, RuleSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One table of a settings file, as written, and where it stands."""

    members: JsonObject
    file: str
    line: int
    source: RuleSource

    @property
    def place(self) -> str:
        """Return its file and line for a message."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSetting:
    """Where the journal and the payloads are stored, as written; relative paths begin in the folder of the file.

    The retention times default to unlimited.
    """

    url: str
    payloads: str | None
    folder: Path
    place: str
    payload_days: float | None = None
    journal_days: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SurfaceSetting:
    """The limits and capabilities of surfaces; a limit of `false` means no limit."""

    max_tools: int | bool | None = None
    max_tokens: int | bool | None = None
    hide_denied: bool | None = None
    credentials: tuple[str, ...] | None = None
    gates: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    peers: tuple[str, ...] | None = None
    has_browser: bool | None = None
    allows_shell: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSetting:
    """A source of tools, as written."""

    name: str
    kind: str
    members: JsonObject
    place: str


_ALL = ("", "0.0.0.0", "::")  # noqa: S104 -- nothing is bound here


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSetting:
    """The listening address of the server, and its public URL.

    Attributes:
        token_env: the variable with the token that all endpoints but callbacks and health require; None requires none.
    """

    host: str = "127.0.0.1"
    port: int = 8642
    url: str | None = None
    token_env: str | None = None

    @property
    def reached(self) -> str | None:
        """The public URL, if the settings determine it: not with port 0 or a wildcard address."""
        if self.url is not None or self.port == 0 or self.host in _ALL:
            return self.url
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The contents of a settings file."""

    rules: tuple[Setting, ...] = ()
    hooks: tuple[Setting, ...] = ()
    mode: str | None = None
    mode_place: str = ""
    interactive: bool | None = None
    workspace: tuple[str, ...] = ()
    store: StoreSetting | None = None
    surface: SurfaceSetting | None = None
    search_model: Path | None = None
    sources: tuple[SourceSetting, ...] = ()
    server: ServerSetting | None = None
