"""MCP settings of other clients: secrets become credentials, and variables are resolved."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from agenttool.config import ServerSetting, environment
from agenttool.config.secret_words import looks_secret, replace_secrets
from agenttool.errors import ConfigError
from agenttool.records import Json, JsonObject

COMMAND_LINE = "command line"
"""Stands for a client where the user typed the server."""

NAMED_FILE = "file"
"""Stands for a client where the user names a file of no known client."""

MIN_CREDENTIAL_CHARS = 8
"""A shorter value cannot be a credential, because it could not be masked."""

_TRANSPORTS = {
    **dict.fromkeys(("stdio", "local"), "stdio"),
    **dict.fromkeys(("http", "streamable-http", "streamable_http", "streamablehttp", "remote"), "http"),
    "sse": "sse",
}
_LIMITS = ("timeout_s", "start_timeout_s")
_LISTS = ("args", "denied_tools", "allowed_tools")
_READ = ("type", "command", "env", "envFile", "cwd", "url", "headers", "disabled", "enabled", *_LISTS, *_LIMITS)
"""The members of a server that are imported, as `_common_members` names them."""
_RENAMED = {
    "environment": "env",
    "http_headers": "headers",
    "transport": "type",
    **dict.fromkeys(("serverUrl", "httpUrl"), "url"),
    **dict.fromkeys(("disabledTools", "excludeTools", "disabled_tools"), "denied_tools"),
    **dict.fromkeys(("includeTools", "enabled_tools"), "allowed_tools"),
    "tool_timeout_sec": "timeout_s",
    "startup_timeout_sec": "start_timeout_s",
}
"""The names of members that only some clients have, and their names here."""
_CODEX, _GEMINI, _OPENCODE = "codex", "gemini-cli", "opencode"
_FOREIGN_REFERENCES = {
    _GEMINI: re.compile(r"\$(?=([A-Za-z_]\w*))\1(?!\w)"),
    _OPENCODE: re.compile(r"\{((?:env|file):[^{}\x22]*)\}"),
}
"""The other forms in which clients write the reference `${NAME}`."""
_MILLISECONDS = 1_000
"""A `timeout` of at least this number is in milliseconds, as most clients write it; a smaller one is in seconds."""
_AUTH = {
    "auth": "a client that is registered for OAuth",
    "oauth": "settings of OAuth",
    "headersHelper": "a program that makes headers",
}
"""Members without which a server rejects requests, and that have no equal here."""
_OWN_PATH = re.compile("/mcp(/|$)")
_LOOPBACK = re.compile(r"127(\.\d{1,3}){3}")
_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"(?i:(bearer|basic|token|apikey) +)?(.+)", re.DOTALL)
_URL_SECRET = re.compile(r"(//[^/\s:@]*:)([^/\s@]+)(?=@)|([?&][^=&#]*=)([^&#]+)")
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_]\w*)(?::-(.*))?", re.DOTALL)
_JSON_PARTS = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[}\]])', re.DOTALL)


_FILES = (
    ("claude-code", "project", ".mcp.json"),
    ("claude-code", "home", ".claude.json"),
    ("claude-desktop", "applications", "Claude/claude_desktop_config.json"),
    ("cursor", "project", ".cursor/mcp.json"),
    ("cursor", "home", ".cursor/mcp.json"),
    ("vscode", "project", ".vscode/mcp.json"),
    ("vscode", "applications", "Code/User/mcp.json"),
    ("windsurf", "home", ".codeium/windsurf/mcp_config.json"),
    ("zed", "project", ".zed/settings.json"),
    ("zed", "home", ".config/zed/settings.json"),
    (_CODEX, "project", ".codex/config.toml"),
    (_CODEX, "home", ".codex/config.toml"),
    (_GEMINI, "project", ".gemini/settings.json"),
    (_GEMINI, "home", ".gemini/settings.json"),
    (_OPENCODE, "project", "opencode.json"),
    (_OPENCODE, "project", "opencode.jsonc"),
    (_OPENCODE, "home", ".config/opencode/opencode.json"),
    (_OPENCODE, "home", ".config/opencode/opencode.jsonc"),
)
"""The settings files of each client: the folder where it is, and its path there."""


@dataclass(frozen=True, slots=True)
class ClientFile:
    """One settings file of a client.

    Attributes:
        folder: the project of the file, in which its servers start; none for a file of the user.
    """

    client: str
    path: Path
    folder: Path | None = None


def client_files(here: Path, platform: str) -> tuple[ClientFile, ...]:
    """Return where each client stores its settings, those of the project first; the files may not exist."""
    home = Path.home()
    roaming = Path(environment(["APPDATA"]).get("APPDATA", home / "AppData" / "Roaming"))
    applications = {"darwin": home / "Library" / "Application Support", "win32": roaming}
    folders = {"project": here, "home": home, "applications": applications.get(platform, home / ".config")}
    return tuple(
        ClientFile(client, folders[base] / path, here if base == "project" else None) for client, base, path in _FILES
    )


def named_file(path: Path, known: tuple[ClientFile, ...]) -> ClientFile:
    """Return a file that the user names; its name says whether it belongs to a client and to a project."""
    if (own := next((each for each in known if each.folder is None and each.path == path), None)) is not None:
        return own
    for client, base, place in _FILES:
        if base == "project" and path.match(place):
            return ClientFile(client, path, path.parents[place.count("/")])
    return ClientFile(NAMED_FILE, path)


def read_text(path: Path) -> str:
    """Return the text of a file that the user or a client names.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path} cannot be read: {reason}; name another file") from error


def _read_content(path: Path) -> JsonObject:
    """Return the object of a TOML document, or of a JSON text, which may have comments and trailing commas.

    Raises:
        ConfigError: it is neither, or cannot be read.
    """
    text, is_toml = read_text(path), path.suffix == ".toml"
    plain = _JSON_PARTS.sub(lambda found: found[0] if found[0].startswith('"') else "\n" * found[0].count("\n"), text)
    try:
        found: object = tomllib.loads(text) if is_toml else json.loads(plain)
    except (ValueError, RecursionError) as error:
        form = "TOML" if is_toml else "JSON"
        raise ConfigError(f"{path}: not {form}: {error}; correct it, or name another file") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: must be a JSON object with mcpServers; name another file")
    return cast("JsonObject", found)


@dataclass(slots=True)
class ClientServer:
    """One server as a client has it, and what became of it.

    Attributes:
        members: what the client says about it.
        inputs: what the client asks the user for, by id.
        state: `ready`, `untried`, `skipped` or `failed`.
        reason: why it is not ready, or what of it is not imported.
        server: as it would be written; none if it cannot be.
    """

    name: str
    origin: ClientFile
    members: JsonObject
    inputs: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    state: str = "skipped"
    reason: str = ""
    server: "ImportedServer | None" = None
    tools: int | None = None
    tokens: int | None = None

    @property
    def transport(self) -> str:
        """The transport of the server; empty if it cannot be used."""
        members = {} if self.server is None else self.server.members
        return str(members.get("transport", "http" if "url" in members else "stdio")) if members else ""

    def as_json(self) -> JsonObject:
        """Return the server and its state for programs."""
        return {
            "server": self.name,
            "source": None if self.server is None else self.server.name,
            "client": self.origin.client,
            "file": str(self.origin.path),
            "transport": self.transport or None,
            "state": self.state,
            "reason": self.reason or None,
            "tools": self.tools,
            "tokens": self.tokens,
        }

    @property
    def note(self) -> str:
        """Which of its members are not imported; empty if all are."""
        ignored = ", ".join(name for name in self.members if name not in _READ)
        return f"not imported: {ignored}" if ignored else ""


def is_own_url(url: str, gateway: ServerSetting, machine: str) -> bool:
    """Return whether a URL is the MCP endpoint of a gateway on this machine, whose host name is `machine`."""
    public = (gateway.url or "").rstrip("/")
    if public and url.startswith(public):
        return _OWN_PATH.match(url.removeprefix(public)) is not None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme)
    except ValueError:  # the port is no number
        return False
    is_here = host in ("localhost", "::1", machine.lower(), gateway.host) or host.endswith(".localhost")
    is_here = is_here or _LOOPBACK.fullmatch(host) is not None
    return is_here and port in (ServerSetting().port, gateway.port) and _OWN_PATH.match(parts.path) is not None


def read_servers(origin: ClientFile, here: Path, is_own: Callable[[str], bool]) -> Iterator[ClientServer]:
    """Yield the servers in a settings file of a client.

    Raises:
        ConfigError: the file cannot be read; a file that the user names has no list of servers; or a list of servers is
            not an object.
    """
    content = _read_content(origin.path)
    nested = object_in(content.get("mcp"))
    project = object_in(object_in(content.get("projects")).get(str(here)))
    keys = ("mcpServers", "servers", "context_servers", "mcp_servers")
    tables = [each[key] for each in (content, nested, project) for key in keys if key in each]
    if origin.client == _OPENCODE and nested:
        tables.append(nested)
    if not tables and origin.client == NAMED_FILE:
        raise ConfigError(f"{origin.path}: has neither mcpServers nor servers; name the file that lists MCP servers")
    if not all(isinstance(each, dict) for each in tables):
        raise ConfigError(f"{origin.path}: the list of servers must be an object of names and servers; correct it")
    listed = [*_objects(content.get("inputs")), *_objects(nested.get("inputs"))]
    inputs = {str(each.get("id")): each for each in listed}
    disabled: JsonObject = {key: {"disabled": True} for key in _texts(project.get("disabledMcpServers")) or ()}
    if origin.client == _GEMINI:
        allowed, excluded = _texts(nested.get("allowed")), _texts(nested.get("excluded")) or ()
        names = (name for table in tables for name in object_in(table))
        disabled = {each: {"disabled": True} for each in names if each in excluded or each not in (allowed or (each,))}
    for table in tables:
        for name, members in object_in(table).items():
            off: list[Json] = [*_denied_by_opencode(name, content)] if origin.client == _OPENCODE else []
            given: Json = {**members, "denied_tools": off} if off and isinstance(members, dict) else members
            yield client_server(name, disabled.get(name, given), origin, is_own, inputs)


def _denied_by_opencode(name: str, content: JsonObject) -> Iterator[str]:
    """Yield patterns for the tools of a server that opencode does not use; there each begins with the server's name.

    A pattern that begins before the name of the tool covers at least the tools that it covers in opencode.
    """
    prefix = f"{name}_"
    switches = {**object_in(content.get("tools")), **object_in(content.get("permission"))}
    for pattern in (each for each, value in switches.items() if value in (False, "deny")):
        head, star, rest = pattern.partition("*")
        if pattern.startswith(prefix):
            yield pattern.removeprefix(prefix)
        elif star and prefix.startswith(head):
            yield f"*{rest.lstrip('*_')}"


def client_server(
    name: str,
    members: Json,
    origin: ClientFile,
    is_own: Callable[[str], bool],
    inputs: Mapping[str, JsonObject] | None = None,
) -> ClientServer:
    """Return one server of a client; `is_own` returns whether a URL is that of this gateway."""
    if not isinstance(members, dict):
        return ClientServer(name, origin, {}, reason="its settings are not an object")
    common = _common_members(members, origin.client)
    return ClientServer(name, origin, common, inputs or {}, reason=next(_reasons(common, is_own), ""))


def _common_members(members: JsonObject, client: str) -> JsonObject:
    """Return the settings of a server with the names and units that most clients use."""
    found: JsonObject = {_RENAMED.get(key, key): value for key, value in members.items()}
    words = _texts(found.get("command"))
    if words:
        found |= {"command": words[0], "args": [*words[1:], *(_texts(found.get("args")) or ())]}
    for key, scale, limit in (
        ("timeout", None, "start_timeout_s" if client == _OPENCODE else "timeout_s"),
        ("startup_timeout_ms", _MILLISECONDS, "start_timeout_s"),
    ):
        value = found.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[limit] = float(value) / (scale or (_MILLISECONDS if value >= _MILLISECONDS else 1))
            del found[key]
    if variables := _texts(found.pop("env_vars", None)):
        found["env"] = {**{each: f"${{{each}}}" for each in variables}, **object_in(found.get("env"))}
    headers: JsonObject = {key: f"${{{each}}}" for key, each in _pairs(found.pop("env_http_headers", None)).items()}
    if isinstance(bearer := found.pop("bearer_token_env_var", None), str):
        headers["Authorization"] = f"Bearer ${{{bearer}}}"
    if headers:
        found["headers"] = {**object_in(found.get("headers")), **headers}
    if client == _GEMINI and "url" in members and "type" not in found:
        found["type"] = "sse"
    reference = _FOREIGN_REFERENCES.get(client)
    return found if reference is None else json.loads(reference.sub(r"${\1}", json.dumps(found, ensure_ascii=False)))


def _reasons(members: JsonObject, is_own: Callable[[str], bool]) -> Iterator[str]:
    """Yield why a server cannot be used here, such as a login that only the client has."""
    if members.get("disabled") is True or members.get("enabled") is False:
        yield "disabled in the client"
    kind = members.get("type", "stdio")
    if str(kind).lower() not in _TRANSPORTS:
        yield f"its transport {kind!r} is unknown; stdio, http and sse are known"
    places = {key: members[key] for key in ("command", "url") if members.get(key) is not None}
    if not places:
        yield "it has neither command nor url"
    yield from (f"{key} is not a text" for key, each in places.items() if not isinstance(each, str))
    yield from (f"{key} is not an object" for key in ("env", "headers") if not isinstance(members.get(key) or {}, dict))
    yield from (f"{key} is not a list of texts" for key in _LISTS if _texts(members.get(key) or []) is None)
    words = [*map(str, places.values()), *(_texts(members.get("args")) or ())]
    starts_us = ("agenttool", "mcp") in pairwise(Path(each).stem for each in words)
    if starts_us or any(map(is_own, words)):
        yield "it is agenttool itself, which cannot be its own source; import the servers behind it"
    for name, what in _AUTH.items():
        if members.get(name) not in (None, False, ""):  # an empty `oauth` switches it on
            yield f"it has {what} ({name}), which is not imported; add the server by hand, with oauth or headers"


@dataclass(slots=True)
class Credentials:
    """The credentials of all servers: each has an environment variable, and a value if it is known.

    Attributes:
        names: the credential of each variable, those of the settings file included.
    """

    names: dict[str, str] = field(default_factory=dict[str, str])
    values: dict[str, str] = field(default_factory=dict[str, str])

    def of_variable(self, variable: str) -> str:
        """Return the name of the credential that is read from a variable."""
        if variable not in self.names:
            self.names[variable] = unique_name(variable.lower(), set(self.names.values()))
        name = self.names[variable]
        value = _lookup(variable)
        if value is not None:
            self.values.setdefault(name, value)
        return name

    def of_value(self, variable: str, server: str, value: str) -> str:
        """Return the credential of a value; if its variable has another value, a new variable is named."""
        for each in (variable, f"{variable_name(server)}_{variable}"):
            known = self.values.get(self.names.get(each, ""), _lookup(each))
            if known in (None, value):
                break
        else:
            each = unique_name(f"{variable_name(server)}_{variable}", set(self.names))
        name = self.of_variable(each)
        self.values[name] = value
        return name


class ImportedServer:
    """One usable server as `agenttool.toml` has it: its texts with references resolved and secrets replaced.

    Attributes:
        members: the settings of the source.
        credentials: the environment variable of each credential that it refers to.
        missing: variables without a value.
        trial_env: values for a trial only, which are too short for credentials.
        denied: the tools that the client excludes.
        allowed: the only tools that the client uses; None if it uses all that are not excluded.
    """

    def __init__(self, given: ClientServer, name: str, known: Credentials) -> None:
        """Translate the settings of a client.

        Raises:
            ConfigError: they refer to something that only the client has.
        """
        self._given = given
        self._known = known
        self.name = name
        self.credentials: dict[str, str] = {}
        self.missing: list[str] = []
        self.trial_env: dict[str, str] = {}
        members = given.members
        self.members = self._program(members) if "command" in members else self._address(members)
        self.members |= {key: members[key] for key in _LIMITS if key in members}
        self.denied = _texts(members.get("denied_tools")) or ()
        self.allowed = _texts(members.get("allowed_tools"))
        if self.allowed is not None:
            self.members["new_tools"] = "review"  # a tool that the server adds later is not one of these either

    @property
    def deny_rule(self) -> JsonObject:
        """The rule that denies the tools that the client does not use."""
        return {
            "behavior": "deny",
            "namespace": self.name,
            "operation": [*self.denied],
            "because": "the client from which the server was imported does not use this tool",
            "optional": True,
        }

    def _program(self, given: JsonObject) -> JsonObject:
        members: JsonObject = {"command": self._text("command", str(given["command"]))}
        if given.get("args"):
            members["args"] = [*replace_secrets(_texts(given["args"]) or (), self._secret)]
        members |= self._environment(self._file_variables() | _pairs(given.get("env")))
        folder = given.get("cwd") or self._given.origin.folder
        return members if folder is None else {**members, "cwd": self._text("cwd", str(folder))}

    def _address(self, given: JsonObject) -> JsonObject:
        members: JsonObject = {}
        if isinstance(url := given.get("url"), str):
            members["url"] = self._url(url)
            ends_so = "type" not in given and url.partition("?")[0].rstrip("/").endswith("/sse")
            if ends_so or _TRANSPORTS[str(given.get("type", "http")).lower()] == "sse":
                members["transport"] = "sse"
        headers: JsonObject = {key: self._secret(key, text) for key, text in _pairs(given.get("headers")).items()}
        return {**members, "headers": headers} if headers else members

    def _environment(self, given: Mapping[str, str]) -> JsonObject:
        env: JsonObject = {}
        passed: list[Json] = []
        for key, text in given.items():
            is_own = text in (f"${{{key}}}", f"${{env:{key}}}")
            value = _lookup(key) if is_own else text
            is_secret = looks_secret(key, value or "")
            is_short = value is not None and len(value) < MIN_CREDENTIAL_CHARS
            if is_own and value is not None and (is_short or not is_secret):
                passed.append(key)
            elif value and not is_own and is_secret and is_short and "${" not in text:
                passed.append(key)
                self.trial_env[key] = value
            else:
                env[key] = self._secret(key, text, variable=key)
        return {**({"env": env} if env else {}), **({"pass_env": passed} if passed else {})}

    def _file_variables(self) -> dict[str, str]:
        """Return the variables of the file that `envFile` names."""
        named = self._given.members.get("envFile")
        if not isinstance(named, str):
            return {}
        path = (self._given.origin.folder or Path.home()) / self._text("envFile", named)
        found: dict[str, str] = {}
        for line in read_text(path).splitlines():
            key, is_pair, value = line.strip().removeprefix("export ").partition("=")
            if is_pair and not key.startswith("#"):
                found[key.strip()] = value.strip().strip("\"'")
        return found

    def _url(self, url: str) -> str:
        def hidden(found: re.Match[str]) -> str:
            start, value = (found[1], found[2]) if found[1] else (found[3], found[4])
            key = "url_password" if found[1] else start[1:-1]
            is_secret = "${" not in value and (found[1] or looks_secret(key, value))
            return start + (self._credential_of(key, value) if is_secret else value)

        return _URL_SECRET.sub(hidden, self._text("url", url))

    def _secret(self, key: str, text: str, variable: str | None = None) -> str:
        """Return a text with its references resolved; a text that is a secret becomes a credential.

        Raises:
            ConfigError: the text has a secret beside references.
        """
        rest = _REFERENCE.sub(" ", text)
        if rest != text and any(looks_secret("", each) for each in (rest, *rest.split())):
            raise ConfigError(f"{key} has a secret beside a variable; put the secret into a variable, too")
        if rest != text or not looks_secret(key, text):
            return self._text(key, text)
        scheme = _SCHEME.fullmatch(text)
        prefix = text[: scheme.start(2)] if scheme is not None else ""
        return prefix + self._credential_of(key, text[len(prefix) :], variable)

    def _credential_of(self, key: str, value: str, variable: str | None = None) -> str:
        wanted = variable or f"{variable_name(self.name)}_{variable_name(key)}"
        return self._refer(self._known.of_value(wanted, self.name, value))

    def _refer(self, name: str) -> str:
        variables = {credential: variable for variable, credential in self._known.names.items()}
        self.credentials[name] = variables[name]
        return f"${{credentials.{name}}}"

    def refer(self, variable: str) -> str:
        """Return a reference to the credential that is read from a variable."""
        return self._refer(self._known.of_variable(variable))

    def _text(self, key: str, text: str) -> str:
        return _REFERENCE.sub(lambda found: self._resolved(key, found[0], found[1]), text)

    def _resolved(self, key: str, whole: str, reference: str) -> str:
        """Return the value of one reference of the client, or a reference to a credential."""
        if reference.startswith("credentials.") and self._given.origin.client == COMMAND_LINE:
            return whole  # a file must not name the credentials of the user
        folder = self._given.origin.folder
        places = {"userHome": str(Path.home()), "pathSeparator": "/", "/": "/"}
        if folder is not None:
            places |= {"workspaceFolder": str(folder), "workspaceFolderBasename": folder.name}
        if reference in places:
            return places[reference]
        if reference.startswith("input:"):
            described = self._given.inputs.get(reference[6:], {})
            default = described.get("default")
            is_secret = described.get("password") is True or looks_secret(reference[6:], "")
            plain = None if is_secret or default is None else str(default)
            return self._variable(key, variable_name(reference[6:]), plain, is_secret=is_secret)
        found = _VARIABLE.fullmatch(reference)
        if found is None or reference.startswith("workspaceFolder"):
            raise ConfigError(f"{whole} in {key} has a meaning only in the client; replace it there")
        own = _pairs(self._given.members.get("env"))
        if found[1] in own and key not in own:
            return whole  # the program resolves it with its own environment, as `mcp-remote` does
        return self._variable(key, found[1], found[2], is_secret=looks_secret(key, "") or looks_secret(found[1], ""))

    def _variable(self, key: str, variable: str, default: str | None, *, is_secret: bool) -> str:
        value = _lookup(variable)
        if value is None and default is not None:
            return self._credential_of(key, default) if looks_secret(key, default) else default
        if value is None:
            self.missing.append(variable)
        elif not is_secret and not looks_secret(variable, value):
            return value
        if key in ("command", "cwd", "envFile"):
            raise ConfigError(f"the variable {variable} in {key} has no value that can be written; set it")
        return self.refer(variable)


def _lookup(variable: str) -> str | None:
    return environment([variable]).get(variable)


def variable_name(text: str) -> str:
    """Return the name of an environment variable for a text."""
    return re.sub(r"\W+", "_", text.strip("-")).strip("_").upper() or "VALUE"


def source_name(text: str, used: set[str]) -> str:
    """Return a valid name of a source that is not used yet."""
    return unique_name(re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")[:60] or "server", used)


def unique_name(name: str, used: set[str]) -> str:
    """Return a name, with a number if it is used."""
    found, number = name, 1
    while found in used:
        number += 1
        found = f"{name}_{number}"
    return found


def object_in(value: Json | None) -> JsonObject:
    """Return a value that is an object, and an empty object for any other."""
    return value if isinstance(value, dict) else {}


def _objects(value: Json | None) -> list[JsonObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _pairs(value: Json | None) -> dict[str, str]:
    """Return the texts by name; clients pass numbers and booleans as texts."""
    given = {key: each for key, each in object_in(value).items() if each is not None}
    return {key: each if isinstance(each, str) else json.dumps(each) for key, each in given.items()}


def _texts(value: Json | None) -> tuple[str, ...] | None:
    if not isinstance(value, list) or not all(isinstance(each, str | int | float) for each in value):
        return None
    return tuple(map(str, value))
