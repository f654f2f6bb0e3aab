"""A settings file, as far as other rooms have to read it: rules, hooks, places, sources, surfaces."""

import os.path
from collections.abc import Iterable
from pathlib import Path

from agenttool.adapters.hook_commands.command_hook import CommandHook, find_program
from agenttool.adapters.hook_commands.process import Program
from agenttool.config import Config, Setting, StoreSetting, SurfaceSetting, environment, read_config
from agenttool.errors import ConfigError
from agenttool.hooks.definition import Hook, read_hook
from agenttool.policy.paths import Workspace
from agenttool.policy.rule_settings import read_rules
from agenttool.policy.rules import Rule
from agenttool.ports.surfacing import Circumstances, SurfacePolicy
from agenttool.results.redaction import compile_scrubber
from agenttool.stores.location import store_path

HOOK_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
"""What every hook command finds in its environment. Anything else could be a secret, and is passed on by name only."""


def settings_of(config: str | Path | None, rules: str | Path | Iterable[Rule]) -> tuple[Config, Iterable[Rule]]:
    """Read the settings file, by whichever of the two words it was named; the rules are those given beside it."""
    if not isinstance(rules, str | Path):
        return (Config() if config is None else read_config(config)), rules
    if config is not None:
        raise ConfigError(f"two settings files are named, {str(config)!r} and {str(rules)!r}; name one of them")
    return read_config(rules), ()


def rules_of(config: Config) -> tuple[Rule, ...]:
    """Read the rules, each with its file and line.

    Raises:
        ConfigError: one is wrong, or does not do what its examples say.
    """
    return read_rules(config.rules)


def with_commands(hooks: Iterable[Hook], config: Config) -> tuple[Hook, ...]:
    """Add the hooks of settings after the others.

    Raises:
        ConfigError: some are wrong; the message names each with its file and line.
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
    """Make the hooks of one table, one for each place where it stands.

    Raises:
        ValueError: it is wrong, or another hook has its name, by which a rule may let a hook decide.
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


def workspace_of(config: Config) -> Workspace:
    """Name the folders that paths are judged by."""
    roots = config.workspace or (".",)
    return Workspace(
        roots=tuple(os.path.realpath(root) for root in roots),
        cwd=os.path.realpath("."),
        home=str(Path.home()),
        resolve=os.path.realpath,
    )


def place_of(settings: Config, store: str | None, payloads: str | None) -> tuple[str, str | None]:
    """Choose where things are kept: what the program says stands before what settings say."""
    if store is not None or settings.store is None:
        return store or "memory:", payloads
    place, folder = kept_at(settings.store)
    return place, payloads or folder


def kept_at(setting: StoreSetting) -> tuple[str, str | None]:
    """Give the places that settings name, wherever the program was started.

    Raises:
        ConfigError: it is no place for a store; says in which file and line.
    """
    try:
        file = store_path(setting.url)
    except ConfigError as error:
        raise ConfigError(f"{setting.place}: {error}") from error
    if file is None:
        return "memory:", setting.payloads
    payloads = setting.payloads
    if payloads is not None and "://" not in payloads:
        payloads = str(setting.folder / payloads)
    return f"sqlite:{setting.folder / file}", payloads


def circumstances_of(setting: SurfaceSetting | None) -> Circumstances:
    """Read what is there for tools: what settings do not say is as if nobody had said anything."""
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


def surface_policy(setting: SurfaceSetting | None) -> SurfacePolicy:
    """Read how much surfaces show; what settings do not say is as if there were none."""
    usual = SurfacePolicy()
    if setting is None:
        return usual

    def limit(said: int | None, otherwise: int | None) -> int | None:
        return otherwise if said is None else None if said is False else said

    return SurfacePolicy(
        max_tools=limit(setting.max_tools, usual.max_tools),
        max_tokens=limit(setting.max_tokens, usual.max_tokens),
        hide_denied=bool(setting.hide_denied),
    )
