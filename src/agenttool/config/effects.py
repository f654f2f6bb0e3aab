"""What a settings file would do if it applied: the question of `agenttool trust` lists it, and errors summarize it."""

import re
import shlex
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from agenttool.config.reader import STARTER_FILE, SettingsFile, config_in
from agenttool.config.secret_words import masked_text
from agenttool.config.settings import Config, Setting
from agenttool.records import Json, JsonObject, RuleSource

_REFERENCE = re.compile(r"\$\{credentials\.([^}]*)\}")
_OWN_CREDENTIALS = ("mcp", "rap")
"""Kinds of sources whose settings name all credentials that they use; any other runs code that may ask for more."""

_PLACES = (("env", "variable"), ("file", "file"), ("keyring", "keyring entry"))
_GRANTS = {
    "trust": "to say which of its tools only read",
    "trusts_annotations": "to say which of its tools only read",
    "trusted": "to see sensitive fields",
    "shares_user": "to know who calls",
    "allow": "to be at the private addresses",
    "presents_to": "to pass its credential to",
    "roots": "to know the folders",
}
"""The settings of sources and hooks that lift a protection."""

_VERBS = ("start", "import", "connect to", "use", "read", "replace", "allow", "store", "serve", "load")
_SUMMARY = _VERBS[:4]
_MAX_SUMMARY = 300


class SettingsEffect(NamedTuple):
    """One thing that a settings file would do, such as `start` and `npx server`."""

    verb: str
    what: str


def effects_of(written: SettingsFile, user: Config) -> list[SettingsEffect]:
    """Return what a file would do with the settings of the user, the most dangerous first.

    Raises:
        ConfigError: a setting is unknown or invalid.
    """
    config = config_in(written, source=RuleSource.PROJECT_SETTINGS)
    found = dict.fromkeys(SettingsEffect(verb, _printable(what)) for verb, what in _effects(config, user))
    return sorted(found, key=lambda each: _VERBS.index(each.verb))


def effects_line(written: SettingsFile, user: Config) -> str:
    """Return the commands, the servers and the credentials of a file on one line, for an error that may be logged.

    Words that look like secrets are masked. The question of `agenttool trust` shows them: its user must see all.

    Raises:
        ConfigError: a setting is unknown or invalid.
    """
    found = effects_of(written, user)
    parts = [(verb, [masked_text(each.what) for each in found if each.verb == verb]) for verb in _SUMMARY]
    text = ", ".join(f"{verb} {' and '.join(things)}" for verb, things in parts if things)
    text = text if len(text) <= _MAX_SUMMARY else f"{text[:_MAX_SUMMARY]}…"
    return text or "start no command and use no credential"


def _effects(config: Config, user: Config) -> Iterator[tuple[str, str]]:
    tables = [(name, each.members) for name, each in config.sources.items()]
    tables += [(str(each.members.get("name")), {"command": [], **each.members}) for each in config.hooks]
    secrets = [*_credential_tables(config.credentials.values())]
    for name, members in tables:
        yield _main_effect(name, members)
        yield from (("allow", f"{name} {what}") for what in _grants(members))
    for members in secrets:
        if "command" in members:
            yield "start", _command(members)
        yield from (("read", f"the {place} {_text(members[key])}") for key, place in _PLACES if key in members)
    used = sorted({name for _, members in tables for text in _texts(members) for name in _REFERENCE.findall(text)})
    yield from (("use", f"the credential {name}{_whose(name, config, user)}") for name in used)
    runs_code = any(each.members["kind"] not in _OWN_CREDENTIALS for each in config.sources.values())
    if runs_code and user.credentials:
        yield "use", f"any credential that its tools ask for, also yours: {', '.join(sorted(user.credentials))}"
    for members in (*(members for _, members in tables), *secrets):
        yield from (("read", f"the variable {name}") for name in _variables(members))
    yield from (("replace", f"your {each}") for each in _replaced(config, user))
    yield from (*_permission_effects(config), *_place_effects(config))


def _main_effect(name: str, members: JsonObject) -> tuple[str, str]:
    kind, url = members.get("kind"), members.get("url")
    if "command" in members:
        return "start", _command(members)
    if kind == "python":
        return "import", f"the module {_text(members.get('module'))}"
    if isinstance(url, str):
        return "connect to", _origin(url)
    return "start", f"the source {name} of the kind {kind}"


def _origin(url: str) -> str:
    """Return the scheme and the host of a URL; the rest may be a secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that is not valid"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _grants(members: JsonObject) -> Iterator[str]:
    """Return what a source or a hook may do more than others."""
    for key, what in _GRANTS.items():
        value = members.get(key)
        if value is True:
            yield what
        elif value:
            yield f"{what} {', '.join(map(str, value)) if isinstance(value, list) else value}"


def _permission_effects(config: Config) -> Iterator[tuple[str, str]]:
    for each in config.rules:
        if each.members.get("behavior") == "allow" and each.file != STARTER_FILE:
            conditions = ("tool", "namespace", "kind", "operation")
            named = ", ".join(_text(each.members[name]) for name in conditions if name in each.members)
            yield "allow", f"calls of {named or 'any tool'} (rule {each.members.get('name') or each.place})"
    if config.mode == "accept_edits":
        yield "allow", "changes to files of the workspace without a question (mode accept_edits)"
    if config.workspace:
        yield "allow", f"paths below {', '.join(config.workspace)} (workspace)"


def _place_effects(config: Config) -> Iterator[tuple[str, str]]:
    if config.store is not None:
        places = (config.store.url, config.store.payloads)
        yield "store", f"calls in {' and '.join(each for each in places if each is not None)}"
    if config.server is not None:
        yield "serve", f"on {config.server.host}:{config.server.port}"
        yield from (("serve", f"web pages of {each}") for each in config.server.origins)
        if jwt := config.server.jwt:
            yield "allow", f"requests with tokens of {_text(jwt.get('issuer'))}"
            if "jwks_url" in jwt:
                yield "connect to", _origin(str(jwt["jwks_url"]))
    yield from (("serve", f"the profile {name} to MCP clients") for name in config.mcp)
    if config.search_model is not None:
        yield "load", f"the search model {config.search_model}"


def _replaced(config: Config, user: Config) -> Iterator[str]:
    """Return the settings of the user that a project replaces."""
    if user.store is not None and config.store is not None:
        yield "[store]"
    if user.server is not None and config.server is not None:
        both = (key for key in ("token_env", "jwt") if getattr(user.server, key) and getattr(config.server, key))
        yield from (f"[server] {key}" for key in both)
    for table in ("sources", "credentials", "mcp"):
        yield from (f"[{table}.{name}]" for name in getattr(config, table) if name in getattr(user, table))


def _command(members: JsonObject) -> str:
    """Return a command with its arguments; of its variables only the names, because the values may be secrets."""
    given = (members.get("command"), members.get("args"))
    words = [str(word) for part in given if part for word in (part if isinstance(part, list) else [part])]
    text = shlex.join(words) if len(words) > 1 else "".join(words) or "a command"
    env = members.get("env")
    return text + (f" (sets {', '.join(env)})" if isinstance(env, dict) and env else "")


def _credential_tables(settings: Iterable[Setting]) -> Iterator[JsonObject]:
    """Return the tables that name where a secret is, also those of single actors."""
    for each in settings:
        yield each.members
        actors = each.members.get("actors")
        yield from (own for own in (actors.values() if isinstance(actors, dict) else ()) if isinstance(own, dict))


def _variables(members: JsonObject) -> Iterator[str]:
    """Return the variables of this process that a table uses."""
    for key, value in members.items():
        if key == "pass_env" or key.endswith("_env"):
            yield from (str(each) for each in (value if isinstance(value, list) else [value]))


def _whose(name: str, config: Config, user: Config) -> str:
    return " (yours)" if name not in config.credentials and name in user.credentials else ""


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _text(value: Json) -> str:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return " ".join(map(str, parts))


def _printable(text: str) -> str:
    """Return a text in which control and invisible characters are escaped, so that it cannot hide a command."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
