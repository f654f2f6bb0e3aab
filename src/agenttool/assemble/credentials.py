"""Make the credentials of a runtime from `[credentials.NAME]` tables and from values and functions of the program."""

import asyncio
import inspect
import os
import re
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias, cast

from agenttool.adapters.hook_commands.command_hook import find_program
from agenttool.adapters.hook_commands.process import Program, run_program
from agenttool.adapters.python.threads import LeftBehind, in_thread, runner_of
from agenttool.config import Config, Setting, environment
from agenttool.config.settings import CREDENTIAL_SOURCES, CredentialSource, CredentialTable, KeyringEntry
from agenttool.config.table import TableError, read_table
from agenttool.errors import ConfigError, CredentialMissing, ToolFailure
from agenttool.ports.credentials import CredentialProvider, FetchedCredential

_Found: TypeAlias = str | FetchedCredential | None
CredentialFunction: TypeAlias = Callable[..., _Found | Awaitable[_Found]]
"""Returns a credential, or none if the actor has none. It takes no argument, or the actor of the call.

The value is used for `DEFAULT_TTL_S`, unless the function returns a `FetchedCredential`.
"""

GivenCredential: TypeAlias = str | CredentialFunction
"""A credential that the program provides: its value, or a function that returns it."""

DEFAULT_TTL_S = 300.0
MIN_CHARS = 8
"""The minimum length of a secret; a shorter one would be masked in unrelated text, too."""

MAX_CHARS = 1 << 16

COMMAND_ENVIRONMENT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ")
"""The variables that every command gets, besides those of `pass_env`."""

_ACTOR = "{actor}"
_SAFE_ACTOR = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_@.:+-]*")
"""Actors that may be part of a path, a user name or an argument: they name no folder and no option."""

_PUBLIC_MODE = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class _Source:
    """One place that a secret is read from; texts with `{actor}` differ for each actor.

    Attributes:
        read: returns the secret for calls of an actor, or raises CredentialMissing.
        fault: returns why the secret cannot be read, and the remedy; None if it can, or if only `read` shows that.
    """

    read: Callable[[str | None], Awaitable[str | FetchedCredential]]
    fault: Callable[[], str | None] = lambda: None


def _in_thread(get: Callable[[str | None], str], fault: Callable[[], str | None]) -> _Source:
    """Return a source that is read by a function that blocks."""
    left_behind = LeftBehind()

    async def read(actor: str | None) -> str:
        return cast("str", await in_thread(partial(get, actor), left_behind))

    return _Source(read, fault)


def _fault_of(get: Callable[[str | None], str]) -> str | None:
    try:
        get(None)
    except CredentialMissing as error:
        return str(error)
    return None


def _variable(name: str, actor: str | None) -> str:
    found = environment([name]).get(name)
    if found is None:
        raise CredentialMissing(f"the environment variable {name!r} is not set; set it")
    return found


def _secret_file(path: str, folder: Path, actor: str | None) -> str:
    file = folder / Path(_with_actor(path, actor)).expanduser()
    try:
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise CredentialMissing(f"the file {str(file)!r} cannot be read: {error.strerror}; create it") from None
    with os.fdopen(opened, "rb") as stream:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            raise CredentialMissing(f"{str(file)!r} is not a regular file; name one")
        if found.st_mode & _PUBLIC_MODE:
            mode, remedy = f"{stat.S_IMODE(found.st_mode):04o}", f"type `chmod 600 {file}`"
            raise CredentialMissing(f"the file {str(file)!r} has the mode {mode}, so other users can use it; {remedy}")
        if found.st_uid not in {0, os.getuid()}:
            raise CredentialMissing(f"the file {str(file)!r} belongs to another user; use one of your own")
        return _decoded(stream.read(MAX_CHARS + 1), f"the file {str(file)!r}")


def _keyring_fault() -> str | None:
    if find_spec("keyring") is None:
        return "the package 'keyring' is not installed; type `pip install 'agenttool[keyring]'`"
    return None


def _keyring_entry(entry: KeyringEntry, actor: str | None) -> str:
    if (fault := _keyring_fault()) is not None:
        raise CredentialMissing(fault)
    service, username = _with_actor(entry.service, actor), _with_actor(entry.username, actor)
    try:
        found: object = import_module("keyring").get_password(service, username)
    except Exception as error:
        raise CredentialMissing(f"the keyring failed: {type(error).__name__}; unlock it, or try `keyring`") from error
    if not isinstance(found, str):
        remedy = f"type `keyring set {service} {username}`"
        raise CredentialMissing(f"the keyring has no password of {username!r} for {service!r}; {remedy}")
    return found


def _command(argv: tuple[str, ...], folder: Path, pass_env: tuple[str, ...]) -> _Source:
    def program(words: tuple[str, ...]) -> Program:
        variables = environment((*COMMAND_ENVIRONMENT, *pass_env))
        found = find_program(words, folder=str(folder), path=variables.get("PATH"))
        return Program(argv=found, folder=str(folder), environment=variables)

    def fault() -> str | None:
        try:
            program(argv)
        except ValueError as error:
            return str(error)
        return None

    async def read(actor: str | None) -> str:
        words = tuple(_with_actor(each, actor) for each in argv)
        try:
            ended = await run_program(program(words), b"")
        except (OSError, ValueError) as error:  # a program that wrote too much is an OSError, too
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise CredentialMissing(f"the command {argv[0]!r} failed: {reason}; run it by hand") from None
        if ended.code != 0:
            reason = f"ended with the exit code {ended.code}; run it by hand to see why"
            raise CredentialMissing(f"the command {argv[0]!r} {reason}")
        return _decoded(ended.out, f"the output of the command {argv[0]!r}")

    return _Source(read, fault)


def _function(function: CredentialFunction, *, takes_actor: bool) -> _Source:
    """Return a function of the program. The text of its exceptions may hold a secret, so only their class is shown."""
    run = runner_of(function)

    async def read(actor: str | None) -> str | FetchedCredential:
        try:
            found = await run(*((actor,) if takes_actor else ()))
        except (CredentialMissing, ToolFailure):
            raise
        except Exception as error:
            remedy = "raise CredentialMissing('why; what to do') to explain it"
            raise CredentialMissing(f"its function raised {type(error).__name__}; {remedy}") from error
        if found is None:
            whose = f"the actor {actor!r} has none" if takes_actor else "there is none"
            raise CredentialMissing(f"its function says that {whose}; provide one")
        if not isinstance(found, str | FetchedCredential):
            raise CredentialMissing(f"its function returned a {type(found).__name__}; return a text, or None")
        return found

    return _Source(read)


def _fixed_text(text: str) -> _Source:
    async def read(actor: str | None) -> str:
        return text

    return _Source(read)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCredential:
    """A credential with one source for all actors, or with one for each; it implements `CredentialProvider`."""

    name: str
    kind: str
    place: str
    ttl_s: float
    timeout_s: float
    is_per_actor: bool
    source: _Source | None = None
    by_actor: Mapping[str, _Source] = field(default_factory=dict[str, _Source])

    def fault(self) -> str | None:
        """Return why no call can have the credential, its place and the remedy; None if some call may have it."""
        sources = [*self.by_actor.values()] if self.source is None else [self.source]
        faults = [each.fault() for each in sources]
        return self._with_place(faults[0]) if faults and faults[0] is not None and None not in faults else None

    def refusal(self, actor: str | None, /) -> str | None:
        """Return why calls of an actor cannot have the credential, as far as that is known without a fetch."""
        try:
            self._source_for(actor)
        except CredentialMissing as error:
            return self._with_place(str(error))
        return None

    async def fetch(self, actor: str | None, /) -> FetchedCredential:
        """Return the secret for calls of an actor, within `timeout_s`.

        Raises:
            CredentialMissing: it cannot be read in time.
        """
        try:
            async with asyncio.timeout(self.timeout_s):
                found = await self._source_for(actor).read(actor)
            fetched = found if isinstance(found, FetchedCredential) else FetchedCredential(found, self.ttl_s)
            return replace(fetched, value=_check_secret(fetched.value))
        except TimeoutError:
            reason = f"it was not there after {self.timeout_s:g} s; try it by hand, or raise timeout_s"
            raise CredentialMissing(self._with_place(reason)) from None
        except CredentialMissing as error:
            raise CredentialMissing(self._with_place(str(error))) from error.__cause__
        except ToolFailure as failure:  # too many threads hang in it
            raise CredentialMissing(self._with_place(str(failure))) from failure

    def _source_for(self, actor: str | None) -> _Source:
        if self.is_per_actor and actor is None:
            raise CredentialMissing("each actor has its own, and the call names none; pass actor_ref")
        if self.source is not None:
            return self.source
        found = self.by_actor.get(actor or "")
        if found is None:
            raise CredentialMissing(f"the actor {actor!r} has none; add it to [credentials.{self.name}.actors]")
        return found

    def _with_place(self, reason: str) -> str:
        cause, mark, remedy = reason.partition("; ")
        return f"{cause} ({self.place}){mark}{remedy}"


def _with_actor(text: str, actor: str | None) -> str:
    """Return a text with the name of the actor in the place of `{actor}`.

    Raises:
        CredentialMissing: the actor is none, or must not be part of a path, a user name or an argument.
    """
    if _ACTOR not in text:
        return text
    if actor is None or not _SAFE_ACTOR.fullmatch(actor):
        raise CredentialMissing(f"the actor {actor!r} cannot stand for {{actor}}; list it in the table of actors")
    return text.replace(_ACTOR, actor)


def _decoded(data: bytes, what: str) -> str:
    try:
        return data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise CredentialMissing(f"{what} is not UTF-8; write text") from None


def _check_secret(value: str) -> str:
    """Check that a secret can be masked, and return it.

    Raises:
        CredentialMissing: it is empty, too short or too long.
    """
    if not value.strip():
        raise CredentialMissing("it is empty; provide a value")
    if len(value) < MIN_CHARS:
        raise CredentialMissing(f"it has fewer than {MIN_CHARS} characters, too few to be masked; use a longer one")
    if len(value) > MAX_CHARS:
        raise CredentialMissing(f"it has more than {MAX_CHARS} characters; provide the secret alone")
    return value


def make_credentials(config: Config, given: Mapping[str, GivenCredential] | None) -> dict[str, CredentialProvider]:
    """Return the credentials of the settings and of the program by name; those of the program take precedence.

    Raises:
        ConfigError: one is invalid; the message names the place, and never a value.
    """
    found: dict[str, CredentialProvider] = {
        name: _from_settings(name, setting) for name, setting in config.credentials.items()
    }
    for name, each in (given or {}).items():
        found[name] = _from_program(name, each)
    return found


def _from_program(name: str, given: GivenCredential) -> NamedCredential:
    options = {"name": name, "place": f"Runtime.open(credentials={{{name!r}: …}})", "timeout_s": 30.0}
    if isinstance(given, str):
        try:
            value = _fixed_text(_check_secret(given))
        except CredentialMissing as error:
            raise ConfigError(f"the credential {name!r} cannot be used: {error}") from None
        return NamedCredential(**options, kind="value", ttl_s=0.0, is_per_actor=False, source=value)  # pyright: ignore[reportArgumentType] -- a text and a number
    if not callable(cast("object", given)):
        kind = type(given).__name__
        raise ConfigError(f"the credential {name!r} must be a text or a function, got a {kind}; pass one of them")
    takes_actor = any(
        each.default is each.empty and each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}
        for each in inspect.signature(given).parameters.values()
    )
    source = _function(given, takes_actor=takes_actor)
    return NamedCredential(**options, kind="function", ttl_s=DEFAULT_TTL_S, is_per_actor=takes_actor, source=source)  # pyright: ignore[reportArgumentType] -- a text and a number


def secret_files(settings: Config) -> Iterator[str]:
    """Return path patterns for the files of the `[credentials.NAME]` tables, which may be invalid."""
    for setting in settings.credentials.values():
        actors = setting.members.get("actors")
        for table in (setting.members, *(actors.values() if isinstance(actors, dict) else ())):
            file = table.get("file") if isinstance(table, dict) else None
            if isinstance(file, str):
                yield str(Path(setting.file or "").resolve().parent / Path(file.replace(_ACTOR, "*")).expanduser())


def _from_settings(name: str, setting: Setting) -> NamedCredential:
    """Return the credential of a `[credentials.NAME]` table.

    Raises:
        ConfigError: the table is invalid.
    """
    folder = Path(setting.file or "").resolve().parent
    what = f"[credentials.{name}]"
    try:
        table = read_table(setting.members, CredentialTable, what, shows_values=False)
        kind = _source_kind(table, what, (*CREDENTIAL_SOURCES, "actors"))
        source = None if kind == "actors" else _make_source(table, folder)
        by_actor: dict[str, _Source] = {}
        for actor, members in (table.actors or {}).items():
            whose = f"[credentials.{name}.actors] {actor!r}"
            own = read_table(members, CredentialSource, whose, shows_values=False)
            _source_kind(own, whose, CREDENTIAL_SOURCES)
            by_actor[actor] = _make_source(own, folder)
    except TableError as error:
        raise ConfigError(f"{setting.place}: {error}") from error
    return NamedCredential(
        name=name,
        kind=kind,
        place=setting.place,
        ttl_s=table.ttl_s,
        timeout_s=table.timeout_s,
        is_per_actor=source is None or _ACTOR in str(setting.members),
        source=source,
        by_actor=by_actor,
    )


def _source_kind(table: CredentialSource, what: str, allowed: tuple[str, ...]) -> str:
    """Return the name of the one source that a table has.

    Raises:
        TableError: it has none, or several.
    """
    found = [each for each in allowed if getattr(table, each) is not None]
    if len(found) != 1:
        got = " and ".join(found) or "none of them"
        raise TableError(f"{what} must have one of {', '.join(allowed)}, got {got}; write one")
    return found[0]


def _make_source(table: CredentialSource, folder: Path) -> _Source:
    """Create the source of a table.

    Raises:
        TableError: the name of a variable has `{actor}`, which two actors could spell alike.
    """
    if table.env is not None:
        if _ACTOR in table.env:
            raise TableError("env cannot contain {actor}; list the actors in a table of actors", "env")
        get = partial(_variable, table.env)
        return _in_thread(get, partial(_fault_of, get))
    if table.file is not None:
        get = partial(_secret_file, table.file, folder)
        return _in_thread(get, (lambda: None) if _ACTOR in table.file else partial(_fault_of, get))
    if table.keyring is not None:
        return _in_thread(partial(_keyring_entry, table.keyring), _keyring_fault)
    return _command(table.command or (), folder, table.pass_env)
