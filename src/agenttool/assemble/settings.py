"""Build the parts of a runtime from settings and options: policy, hooks, store, surfaces."""

import os.path
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import random
from typing import cast

from agenttool.adapters.embedding.bundled import open_bundled_index
from agenttool.adapters.embedding.embedding_index import EmbeddingIndex
from agenttool.adapters.embedding.model import open_model
from agenttool.adapters.hook_commands.command_hook import CommandHook, find_program
from agenttool.adapters.hook_commands.process import Program
from agenttool.agent.agent import World
from agenttool.assemble.approving import Approval, is_answered
from agenttool.assemble.checks import as_instance, as_list
from agenttool.assemble.credentials import make_credentials, secret_files
from agenttool.assemble.git_ignore import addable_to_git
from agenttool.assemble.sources import check_kinds
from agenttool.config import (
    SETTINGS_FILE,
    Config,
    ServerSetting,
    Setting,
    SurfaceSetting,
    environment,
    load_config,
    read_config,
    settings_layers,
)
from agenttool.config.reader import user_folder
from agenttool.errors import ConfigError
from agenttool.hooks.definition import Hook, read_hook
from agenttool.journal.steps import STEPS
from agenttool.policy.actors import ActorGroups
from agenttool.policy.decide import Policy
from agenttool.policy.paths import Workspace
from agenttool.policy.rule_settings import RuleOption, read_rules, rules_in
from agenttool.policy.rules import RuleBook
from agenttool.policy.verdict import IN_PROGRAM, Remedy, in_settings
from agenttool.policy.votes import PermissionMode
from agenttool.policy.wildcards import fits
from agenttool.ports.identity import DEFAULT_TENANT
from agenttool.ports.semantic_index import SemanticIndex
from agenttool.ports.surfacing import Circumstances, SurfacePolicy
from agenttool.results.redaction import compile_scrubber
from agenttool.stores.location import open_store, store_location
from agenttool.world import SystemClock, UniqueIds, format_crash, os_user

HOOK_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
"""The variables that every hook command gets. Others may be secret, so a hook names those that it needs."""

MIN_LEASE_S = 1.0
"""A process renews its lease a few times a second; a shorter lease could expire while the process still runs."""


def read_settings(
    config: str | Path | Config | None, rules: str | Path | Iterable[RuleOption]
) -> tuple[Config, Iterable[RuleOption]]:
    """Return the settings of the file that `config` or `rules` names, and the rules of the program.

    Raises:
        ConfigError: both name a file, or the file is invalid.
    """
    given = cast("object", config)
    if isinstance(config, Config) and not isinstance(rules, str | Path):
        return config, rules
    if not (given is None or isinstance(given, str | Path)):
        raise ConfigError(f'config must be the path of a settings file, or "auto", got {given!r}; pass one of them')
    if not isinstance(rules, str | Path):
        return load_config(cast("str | Path | None", config)), rules
    if config is not None:
        raise ConfigError(f"two settings files are named, {str(config)!r} and {str(rules)!r}; name one of them")
    return replace(read_config(rules), named_file=Path(rules)), ()


def make_policy(
    settings: Config,
    rules: Iterable[RuleOption],
    mode: str | None,
    *,
    approve: Approval | None,
    files: tuple[str, ...],
    tenant: str = DEFAULT_TENANT,
) -> Policy:
    """Return the policy of a tenant; the options of the program take precedence over the settings.

    `files` are patterns for the files of the store. No rule allows a call to read or write them, or the settings.

    Raises:
        ConfigError: a rule, the mode or `approve` is invalid.
    """
    # A tenant does not even see the rules of others.
    given = (*read_rules(settings.rules), *rules_in(as_list("rules", rules)))
    book = RuleBook(each for each in given if not each.tenants or any(fits(name, tenant) for name in each.tenants))
    user = settings.user
    own_groups = None if user is None else ActorGroups(user.roles, user.teams)
    groups = ActorGroups(settings.roles, settings.teams, own_groups)
    groups.check(book)
    return Policy(
        book=book,
        mode=_read_mode(settings, mode),
        interactive=is_answered(approve, setting=settings.interactive, is_durable=bool(files)),
        workspace=_workspace(settings, files),
        groups=groups,
        remedies=_remedies(settings, approve),
    )


def _remedies(settings: Config, approve: Approval | None) -> tuple[Remedy, ...]:
    if settings.named_file is None and not settings.is_layered:
        return IN_PROGRAM
    file = SETTINGS_FILE if settings.named_file is None else settings.named_file.name
    return in_settings(file, is_switched_off=settings.interactive is False if approve is None else None)


def check_file(written: Config) -> None:
    """Check rules, mode, hooks, credentials and kinds of sources of one file; programs and variables may be absent.

    Raises:
        ConfigError: one is invalid; the message has the file and the line.
    """
    read_rules(written.rules)
    _read_mode(written)
    make_credentials(written, None)
    check_kinds(written)
    for setting in written.hooks:
        try:
            read_hook(setting.members)
        except ValueError as error:
            raise ConfigError(f"{setting.place}: {error}") from error


def _read_mode(settings: Config, mode: str | None = None) -> PermissionMode:
    wanted = settings.mode or PermissionMode.DEFAULT if mode is None else mode
    if wanted not in list(PermissionMode):
        place = f"{settings.mode_place}: " if mode is None else ""
        raise ConfigError(f"{place}no permission mode is called {wanted!r}; use one of {', '.join(PermissionMode)}")
    return PermissionMode(wanted)


def _settings_files(settings: Config) -> tuple[str, ...]:
    """Return path patterns for the files that settings come from, and for secrets, keys and hooks that they name.

    The user's folder also has the tokens of sources and the trust of projects, whichever file applies.
    """
    files = () if settings.named_file is None else (settings.named_file, user_folder())
    if settings.is_layered:
        files = (*(each.file for each in settings_layers()), user_folder())
    jwt = None if settings.server is None else settings.server.jwt
    key = (jwt or {}).get("public_key_file")
    named = (*files, *secret_files(settings), *_hook_files(settings), key)
    return tuple(str(Path(each).absolute()) for each in named if isinstance(each, str | Path))


def _own_urls(settings: Config) -> tuple[str, ...]:
    """Return URL patterns of the settings' server on this machine; none for a program without settings."""
    if settings.named_file is None and not settings.is_layered:
        return ()
    port = (settings.server or ServerSetting()).port
    return tuple(f"{each}:{port}" for each in ("localhost", "*.localhost", "127.0.0.1", "0.0.0.0", "[::1]"))  # noqa: S104 -- clients may name it


def _hook_files(settings: Config) -> Iterator[Path]:
    """Yield the files that the commands of hooks name, such as a script; no programs of the PATH."""
    programs = {Path(each) for each in os.get_exec_path()}
    for setting in settings.hooks:
        folder = Path(setting.file or "").resolve().parent
        with suppress(ValueError):  # `add_command_hooks` reports it
            files = (folder / each for each in read_hook(setting.members).command)
            yield from (each for each in files if each.is_file() and each.parent not in programs)


def _workspace(config: Config, files: tuple[str, ...]) -> Workspace:
    """Return the folders that rules about paths refer to; rules of the user refer to those of the user's file.

    Projects share the files of settings and hooks, but a store and secrets do not belong in a repository.
    """
    workspace = Workspace(
        roots=tuple(os.path.realpath(root) for root in config.workspace or (".",)),
        cwd=os.path.realpath("."),
        home=str(Path.home()),
        resolve=os.path.realpath,
        protected=(*files, *_settings_files(config)),
        addable=partial(addable_to_git, (*files, *secret_files(config))),
        own_urls=_own_urls(config),
    )
    own = None if config.user is None else tuple(os.path.realpath(root) for root in config.user.workspace or (".",))
    return workspace if own in (None, workspace.roots) else replace(workspace, user=replace(workspace, roots=own))


def add_command_hooks(hooks: Iterable[Hook], config: Config) -> tuple[Hook, ...]:
    """Return the hooks of the program and then those of the settings.

    Raises:
        ConfigError: some are invalid; the message names each with its file and line.
    """
    found = list(hooks)
    problems: list[str] = []
    for setting in config.hooks:
        try:
            found += _command_hooks(setting, {hook.name for hook in found})
        except ValueError as error:
            problems.append(f"{setting.place}: {error}")
    if problems:
        raise ConfigError("\n".join(problems))
    return tuple(found)


def _command_hooks(setting: Setting, taken: set[str]) -> list[Hook]:
    """Return the hooks of one table, one for each of its events.

    Raises:
        ValueError: it is invalid, or another hook has its name, which rules refer to.
    """
    written = read_hook(setting.members)
    if written.name in taken:
        raise ValueError(f"another hook is called {written.name!r}; rename one of them")
    passed = environment(written.pass_env)
    unset = [name for name in written.pass_env if name not in passed]
    if unset:
        raise ValueError(f"pass_env names {unset[0]!r}, which is not set; set it, or take it out")
    variables = {**environment(HOOK_ENVIRONMENT), **passed, **written.env}
    folder = str(Path(setting.file or "").resolve().parent)
    argv = find_program(written.command, folder=folder, path=variables.get("PATH"))
    secrets = compile_scrubber(passed.values())
    runner = CommandHook(
        program=Program(argv=argv, folder=folder, environment=variables),
        clean=str if secrets is None else secrets.text,
    )
    return [
        Hook(
            name=written.name,
            event=event,
            runner=runner,
            tools=written.tools,
            timeout_s=written.timeout_s,
            is_trusted=written.is_trusted,
        )
        for event in dict.fromkeys(written.events)
    ]


WORDS_ONLY = "none"
"""The search model that switches search by meaning off."""


def open_world(
    settings: Config,
    *,
    place: str,
    payloads: str | None,
    lease_s: float,
    thread: str | None,
    search_model: str | Path | None,
) -> World:
    """Open the store and the search model, and return them with the system's clock and ids.

    Raises:
        ConfigError: `lease_s`, the store or the search model cannot be used.
        StoreError: the store cannot be opened.
    """
    if not isinstance(cast("object", lease_s), int | float) or not lease_s >= MIN_LEASE_S:
        raise ConfigError(
            f"lease_s must be a number of seconds from {MIN_LEASE_S} on, got {lease_s!r}; leave it out for 6.0"
        )
    semantic_index = _semantic_index(search_model or settings.search_model)
    opened, closing = open_store(place, STEPS, payloads), AsyncExitStack()
    if opened.close is not None:
        closing.push_async_callback(opened.close)
    if semantic_index is not None:
        closing.callback(semantic_index.close)
    return World(
        clock=SystemClock(),
        ids=UniqueIds(),
        os_user=os_user,
        format_crash=format_crash,
        log=opened.log,
        payloads=opened.payloads,
        open_calls=opened.open_calls,
        documents=opened.documents,
        close=closing.aclose,
        random=random,
        lease_s=lease_s,
        thread=thread or "thr_" + UniqueIds().unique(),
        semantic_index=semantic_index,
    )


def _semantic_index(model: str | Path | None) -> SemanticIndex | None:
    """Load the embedding model that search uses: the configured one, else that of the optional extra, if installed.

    Raises:
        ConfigError: it cannot be used, or the optional extra is not installed.
    """
    if model == WORDS_ONLY:
        return None
    if model is None:
        return open_bundled_index()
    return EmbeddingIndex(open_model(Path(model)), Path(model))


def find_store(settings: Config, store: str | Path | None, payloads: str | None) -> tuple[str, str | None]:
    """Return the locations of the store and the payloads; options take precedence over the settings.

    Raises:
        ConfigError: the setting is invalid.
    """
    if store is not None or settings.store is None:
        return "memory:" if store is None else str(store), payloads
    place, folder = store_location(settings.store)
    return place, payloads or folder


def make_circumstances(setting: SurfaceSetting | None, given: Circumstances | None = None) -> Circumstances:
    """Return the given circumstances, or else those of a `[surface]` table; a missing key has its default.

    Raises:
        ConfigError: something else is given.
    """
    if given is not None:
        return as_instance(given, Circumstances)
    if setting is None:
        return Circumstances()
    return Circumstances(
        credentials=frozenset(setting.credentials or ()),
        gates=frozenset(setting.gates or ()),
        skills=None if setting.skills is None else frozenset(setting.skills),
        peers=None if setting.peers is None else frozenset(setting.peers),
        has_browser=setting.has_browser,
        allows_shell=setting.allows_shell,
    )


def make_surface_policy(setting: SurfaceSetting | None, given: SurfacePolicy | None = None) -> SurfacePolicy:
    """Return the given limits, or else those of a `[surface]` table: without a key the default, `false` is no limit.

    Raises:
        ConfigError: something else is given.
    """
    if given is not None:
        return as_instance(given, SurfacePolicy)
    default = SurfacePolicy()
    if setting is None:
        return default

    def limit(given: int | None, otherwise: int | None) -> int | None:
        return otherwise if given is None else None if given is False else given

    return SurfacePolicy(
        max_tools=limit(setting.max_tools, default.max_tools),
        max_tokens=limit(setting.max_tokens, default.max_tokens),
        hide_denied=bool(setting.hide_denied),
    )
