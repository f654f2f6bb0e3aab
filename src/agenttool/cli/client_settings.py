"""MCP settings of other clients: secrets become credentials, and variables are resolved.

This module does no I/O: it takes texts and a lookup of variables, and returns what `agenttool.toml` would say.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from agenttool.config import ServerSetting
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
_READ = (
    *("type", "transport", "command", "args", "env", "envFile", "cwd"),
    *("url", "serverUrl", "httpUrl", "headers", "disabled", "enabled"),
)
"""The members of a server that are imported."""
_AUTH = {
    "auth": "a client that is registered for OAuth",
    "oauth": "settings of OAuth",
    "headersHelper": "a program that makes headers",
}
"""Members without which a server rejects requests, and that have no equal here."""
_OWN_PATH = re.compile("/mcp(/|$)")
_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"(?i:(bearer|basic|token|apikey) +)?(.+)", re.DOTALL)
_URL_SECRET = re.compile(r"(//[^/\s:@]*:)([^/\s@]+)(?=@)|([?&][^=&#]*=)([^&#]+)")
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_]\w*)(?::-(.*))?", re.DOTALL)
_JSON_PARTS = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[}\]])', re.DOTALL)


@dataclass(frozen=True, slots=True)
class ClientFile:
    """One settings file of a client.

    Attributes:
        folder: the project of the file, in which its servers start; none for a file of the user.
    """

    client: str
    path: Path
    folder: Path | None = None


def client_files(home: Path, here: Path, roaming: Path, platform: str) -> tuple[ClientFile, ...]:
    """Return where each client stores its settings, those of the project first; the files may not exist."""
    folders = {"darwin": home / "Library" / "Application Support", "win32": roaming}
    own = folders.get(platform, home / ".config")
    return (
        ClientFile("claude-code", here / ".mcp.json", here),
        ClientFile("claude-code", home / ".claude.json"),
        ClientFile("claude-desktop", own / "Claude" / "claude_desktop_config.json"),
        ClientFile("cursor", here / ".cursor" / "mcp.json", here),
        ClientFile("cursor", home / ".cursor" / "mcp.json"),
        ClientFile("vscode", here / ".vscode" / "mcp.json", here),
        ClientFile("vscode", own / "Code" / "User" / "mcp.json"),
    )


def named_file(path: Path, home: Path) -> ClientFile:
    """Return a file that the user names; its name says whether it belongs to a project."""
    folder = path.parent
    if path.name == ".mcp.json":
        return ClientFile("claude-code", path, folder)
    if path.name == "mcp.json" and folder.name in (".cursor", ".vscode") and folder.parent != home:
        return ClientFile(folder.name[1:], path, folder.parent)
    return ClientFile(NAMED_FILE, path)


def read_json(text: str, path: Path) -> JsonObject:
    """Return the JSON object in a text, which may have comments and commas at the end of lists.

    Raises:
        ConfigError: it is not a JSON object.
    """
    plain = _JSON_PARTS.sub(
        lambda found: found[0] if found[0].startswith('"') else "\n" * found[0].count("\n"), text.removeprefix("\ufeff")
    )
    try:
        found: object = json.loads(plain)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON: {error}; correct it, or name another file") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: must be a JSON object with mcpServers; name another file")
    return cast("JsonObject", found)


@dataclass(frozen=True, slots=True)
class ClientServer:
    """One server as a client has it.

    Attributes:
        members: what the client says about it.
        inputs: what the client asks the user for, by id.
        skipped: why it cannot be used here; none if it can.
    """

    name: str
    origin: ClientFile
    members: JsonObject
    inputs: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    skipped: str | None = None

    @property
    def note(self) -> str:
        """Which of its members are not imported; empty if all are."""
        ignored = ", ".join(name for name in self.members if name not in _READ)
        return f"not imported: {ignored}" if ignored else ""


def is_own_url(url: str, gateway: ServerSetting, machine: str) -> bool:
    """Return whether a URL is the MCP endpoint of a gateway on this machine, whose host name is `machine`."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:  # the port is no number
        return False
    host, public = parts.hostname or "", (gateway.url or "").rstrip("/")
    if public and url.startswith(public):
        return _OWN_PATH.match(url.removeprefix(public)) is not None
    is_here = host in ("localhost", machine.lower(), gateway.host) or host.endswith(".localhost")
    with suppress(ValueError):  # it is no address
        is_here = is_here or ip_address(host).is_loopback
    is_served = port in (ServerSetting().port, gateway.port) and _OWN_PATH.match(parts.path) is not None
    return is_here and is_served


def client_servers(
    content: JsonObject, origin: ClientFile, here: Path, is_own: Callable[[str], bool]
) -> Iterator[ClientServer]:
    """Yield the servers in the settings of a client.

    Raises:
        ConfigError: a file that the user names has no list of servers, or the list is not an object.
    """
    nested = _object(content.get("mcp"))
    project = _object(_object(content.get("projects")).get(str(here)))
    keys = ("mcpServers", "servers", "context_servers")
    tables = [each[key] for each in (content, nested, project) for key in keys if key in each]
    if not tables and origin.client == NAMED_FILE:
        raise ConfigError(f"{origin.path}: has neither mcpServers nor servers; name the file that lists MCP servers")
    if not all(isinstance(each, dict) for each in tables):
        raise ConfigError(f"{origin.path}: the list of servers must be an object of names and servers; correct it")
    listed = [*_objects(content.get("inputs")), *_objects(nested.get("inputs"))]
    inputs = {str(each.get("id")): each for each in listed}
    disabled = _texts(project.get("disabledMcpServers")) or ()
    for table in tables:
        for name, members in _object(table).items():
            reason = "disabled in the client" if name in disabled else None
            if not isinstance(members, dict):
                reason, members = "its settings are not an object", {}  # noqa: PLW2901 -- the value is unusable
            yield ClientServer(name, origin, members, inputs, reason or _reason_to_skip(members, is_own))


def _reason_to_skip(members: JsonObject, is_own: Callable[[str], bool]) -> str | None:
    return _unusable(members) or _own_gateway(members, is_own) or _foreign_login(members)


def _unusable(members: JsonObject) -> str | None:
    if members.get("disabled") is True or members.get("enabled") is False:
        return "disabled in the client"
    kind = members.get("type", members.get("transport"))
    if kind is not None and str(kind).lower() not in _TRANSPORTS:
        return f"its transport {kind!r} is unknown; stdio, http and sse are known"
    place = next((key for key in ("command", "url", "serverUrl", "httpUrl") if members.get(key) is not None), None)
    if place is None or not isinstance(members[place], str):
        return "it has neither command nor url" if place is None else f"{place} is not a text"
    for key in ("env", "headers"):
        if not isinstance(members.get(key) or {}, dict):
            return f"{key} is not an object"
    return None if _texts(members.get("args") or []) is not None else "args is not a list of texts"


def _own_gateway(members: JsonObject, is_own: Callable[[str], bool]) -> str | None:
    """Return why an entry that `export-config` made is skipped; None if it is another server."""
    given = [members.get(key) for key in ("command", "url", "serverUrl", "httpUrl")]
    words = [str(each) for each in (*given, *(_texts(members.get("args")) or ())) if each is not None]
    starts_us = ("agenttool", "mcp") in pairwise(Path(each).stem for each in words)
    if starts_us or any(map(is_own, words)):
        return "it is agenttool itself, which cannot be its own source; import the servers behind it"
    return None


def _foreign_login(members: JsonObject) -> str | None:
    """Return why a server that the client logs in to is skipped; None if the client needs no login."""
    name = next((each for each in _AUTH if members.get(each)), None)
    if name is None:
        return None
    return f"it has {_AUTH[name]} ({name}), which is not imported; add the server by hand, with oauth or headers"


@dataclass(slots=True)
class Credentials:
    """The credentials of all servers: each has an environment variable, and a value if it is known.

    Attributes:
        lookup: returns the value of an environment variable.
        names: the credential of each variable, those of the settings file included.
    """

    lookup: Callable[[str], str | None]
    names: dict[str, str] = field(default_factory=dict[str, str])
    values: dict[str, str] = field(default_factory=dict[str, str])

    def of_variable(self, variable: str) -> str:
        """Return the name of the credential that is read from a variable."""
        if variable not in self.names:
            self.names[variable] = unique_name(variable.lower(), set(self.names.values()))
        name = self.names[variable]
        value = self.lookup(variable)
        if value is not None:
            self.values.setdefault(name, value)
        return name

    def of_value(self, variable: str, server: str, value: str) -> str:
        """Return the credential of a value; if its variable has another value, a new variable is named."""
        for each in (variable, f"{variable_name(server)}_{variable}"):
            known = self.values.get(self.names.get(each, ""), self.lookup(each))
            if known in (None, value):
                break
        else:
            each = unique_name(f"{variable_name(server)}_{variable}", set(self.names))
        name = self.of_variable(each)
        self.values[name] = value
        return name


@dataclass(slots=True)
class ImportedServer:
    """One server as `agenttool.toml` has it.

    Attributes:
        credentials: the environment variable of each credential that it refers to.
        missing: variables without a value.
        trial_env: values for a trial only, which are too short for credentials.
    """

    name: str
    members: JsonObject
    credentials: dict[str, str]
    missing: list[str]
    trial_env: dict[str, str]


def import_server(
    given: ClientServer, name: str, credentials: Credentials, files: Callable[[Path], str], home: Path
) -> ImportedServer:
    """Return a usable server of a client as settings of ours.

    Raises:
        ConfigError: it refers to something that only the client has.
    """
    return _Translation(given, name, credentials, home).server(files)


class _Translation:
    """The texts of one server, with references and secrets replaced."""

    def __init__(self, given: ClientServer, name: str, credentials: Credentials, home: Path) -> None:
        self._given = given
        self._name = name
        self._credentials = credentials
        self._home = home
        self._used: dict[str, str] = {}
        self._missing: list[str] = []

    def server(self, files: Callable[[Path], str]) -> ImportedServer:
        given = self._given.members
        kind = _TRANSPORTS[str(given.get("type", given.get("transport", "stdio"))).lower()]
        trial_env: dict[str, str] = {}
        members: JsonObject = {}
        if isinstance(given.get("command"), str):
            members["command"] = self._text("command", str(given["command"]))
            if given.get("args"):
                members["args"] = [*replace_secrets(_texts(given["args"]) or (), self._secret)]
            members |= self._environment(self._file_variables(files) | _pairs(given.get("env")), trial_env)
            folder = given.get("cwd") or self._given.origin.folder
            if folder is not None:
                members["cwd"] = self._text("cwd", str(folder))
        else:
            url = next(str(given[key]) for key in ("url", "serverUrl", "httpUrl") if isinstance(given.get(key), str))
            members["url"] = self._url(url)
            if kind == "sse" or ("type" not in given and url.partition("?")[0].rstrip("/").endswith("/sse")):
                members["transport"] = "sse"
            headers = {key: self._secret(key, text) for key, text in _pairs(given.get("headers")).items()}
            if headers:
                members["headers"] = cast("JsonObject", headers)
        return ImportedServer(self._name, members, self._used, self._missing, trial_env)

    def _environment(self, given: Mapping[str, str], trial_env: dict[str, str]) -> JsonObject:
        env: JsonObject = {}
        passed: list[Json] = []
        for key, text in given.items():
            is_own = text in (f"${{{key}}}", f"${{env:{key}}}")
            value = self._credentials.lookup(key) if is_own else text
            is_secret = looks_secret(key, value or "")
            is_short = value is not None and len(value) < MIN_CREDENTIAL_CHARS
            if is_own and value is not None and (is_short or not is_secret):
                passed.append(key)
            elif value and not is_own and is_secret and is_short and "${" not in text:
                passed.append(key)
                trial_env[key] = value
            else:
                env[key] = self._secret(key, text, variable=key)
        return {**({"env": env} if env else {}), **({"pass_env": passed} if passed else {})}

    def _file_variables(self, files: Callable[[Path], str]) -> dict[str, str]:
        """Return the variables of the file that `envFile` names."""
        named = self._given.members.get("envFile")
        if not isinstance(named, str):
            return {}
        path = (self._given.origin.folder or self._home) / self._text("envFile", named)
        found: dict[str, str] = {}
        for line in files(path).splitlines():
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
        wanted = variable or f"{variable_name(self._name)}_{variable_name(key)}"
        return self._refer(self._credentials.of_value(wanted, self._name, value))

    def _refer(self, name: str) -> str:
        variables = {credential: variable for variable, credential in self._credentials.names.items()}
        self._used[name] = variables[name]
        return f"${{credentials.{name}}}"

    def _text(self, key: str, text: str) -> str:
        return _REFERENCE.sub(lambda found: self._resolved(key, found[0], found[1]), text)

    def _resolved(self, key: str, whole: str, reference: str) -> str:
        """Return the value of one reference of the client, or a reference to a credential."""
        if reference.startswith("credentials.") and self._given.origin.client == COMMAND_LINE:
            return whole  # a file must not name the credentials of the user
        folder = self._given.origin.folder
        places = {"userHome": str(self._home), "pathSeparator": "/", "/": "/"}
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
        value = self._credentials.lookup(variable)
        if value is None and default is not None:
            return self._credential_of(key, default) if looks_secret(key, default) else default
        if value is None:
            self._missing.append(variable)
        elif not is_secret and not looks_secret(variable, value):
            return value
        if key in ("command", "cwd", "envFile"):
            raise ConfigError(f"the variable {variable} in {key} has no value that can be written; set it")
        return self._refer(self._credentials.of_variable(variable))


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


def _object(value: Json | None) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _objects(value: Json | None) -> list[JsonObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _pairs(value: Json | None) -> dict[str, str]:
    """Return the texts by name; clients pass numbers and booleans as texts."""
    words = {True: "true", False: "false"}
    return {
        key: words[each] if isinstance(each, bool) else str(each)
        for key, each in _object(value).items()
        if each is not None
    }


def _texts(value: Json | None) -> tuple[str, ...] | None:
    if not isinstance(value, list) or not all(isinstance(each, str | int | float) for each in value):
        return None
    return tuple(map(str, value))
