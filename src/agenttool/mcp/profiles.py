"""Profiles: the sets of tools that a runtime serves to MCP clients, and how each is served."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from agenttool.catalog.snapshot import in_any_namespace
from agenttool.config import Config, Setting
from agenttool.config.program import program_name
from agenttool.config.settings import McpProfileTable
from agenttool.config.table import TableError, read_table, suggestion
from agenttool.errors import ConfigError
from agenttool.policy.wildcards import fits
from agenttool.ports.surfacing import Role
from agenttool.runtime import Runtime

ALL_TOOLS = ""
"""The name of the profile that has all tools, and is served without a name in its path."""

log = logging.getLogger("agenttool.mcp")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """How a runtime is served.

    Attributes:
        name: the name that clients show.
        profile: the name of the endpoint's profile; empty for all tools.
        title: the title that clients show.
        instructions: what a model reads about the tools of this profile.
        role: the tools of the profile.
        subjects: the subjects of tokens that may use the profile, with wildcards; empty for all callers.
        actor: the actor of calls without a token, for rules and the journal; None if it is not known.
        answer_command: the command by which a person answers open questions.
        approvals_url: the page of open questions, below which each has its own; None if there is none.
        asks_client: whether an approval may be given in the client. Nothing proves that a person gives it there.
        approves_own_calls: whether callers over HTTP may approve their own calls; with a token they need the role.
    """

    name: str = "agenttool"
    profile: str = ALL_TOOLS
    title: str = "agenttool"
    instructions: str | None = None
    role: Role | None = None
    subjects: tuple[str, ...] = ()
    actor: str | None = None
    answer_command: str = "agenttool approvals"
    approvals_url: str | None = None
    asks_client: bool = True
    approves_own_calls: bool = False


def approvals_url(server_url: str | None) -> str | None:
    """Return the page of open questions on a server; None if its URL is not known."""
    return None if server_url is None else f"{server_url.rstrip('/')}/approvals"


def read_profiles(config: Config, base: McpOptions | None = None) -> dict[str, McpOptions]:
    """Return the options of all profiles by name: that of all tools, and one for each table `[mcp.NAME]`.

    Raises:
        ConfigError: a table is invalid; the message names the file and line.
    """
    base = base or McpOptions()
    return {ALL_TOOLS: base, **{name: _read(name, setting, base) for name, setting in config.mcp.items()}}


def _read(name: str, setting: Setting, base: McpOptions) -> McpOptions:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{setting.place}: the profile {name!r} is part of a URL; use up to 64 letters, digits, - and _"
        )
    try:
        table = read_table(setting.members, McpProfileTable, f"[mcp.{name}]")
    except TableError as error:
        raise ConfigError(f"{setting.place}: {error}") from error
    patterns = (*(f"{each}.*" for each in table.sources), *table.tools)
    return replace(
        base,
        profile=name,
        title=table.title or base.title,
        instructions=table.instructions or base.instructions,
        role=Role(name=f"mcp.{name}", tools=patterns or ("*",), without=table.without),
        subjects=table.subjects,
    )


async def check_profiles(runtime: Runtime, config: Config) -> None:
    """Check that each pattern of each profile matches a tool; only warn if its source is not connected yet.

    Raises:
        ConfigError: some match none; the message names the file and line of each.
    """
    if not config.mcp:
        return
    names = runtime.surfaces.tool_names()
    statuses = await runtime.sources.status()
    missing = [each.source for each in statuses if not each.is_ready]
    errors: list[str] = []
    for name, setting in config.mcp.items():
        for key, pattern, problem in _unmatched(read_table(setting.members, McpProfileTable, name), names):
            message = f"{setting.place}: {pattern!r} in {key} of [mcp.{name}] {problem}"
            if any(fits(pattern.partition(".")[0], each) for each in missing):
                log.warning("%s; a source that is not connected yet may have it", message.partition(";")[0])
            else:
                errors.append(message)
    if errors:
        raise ConfigError("\n".join(errors))


def _unmatched(table: McpProfileTable, names: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the key, the pattern and the problem of each pattern that matches no tool."""
    namespaces = sorted({each.partition(".")[0] for each in names})
    for each in table.sources:
        if not any(fits(each, namespace) for namespace in namespaces):
            yield "sources", each, f"is no source with tools; {suggestion(each, namespaces)}"
    for key, patterns in (("tools", table.tools), ("without", table.without)):
        for each in patterns:
            wanted = each if "." in each or "*" in each else f"*.{each}"
            if not any(fits(wanted, name) for name in names):
                close = get_close_matches(each, [*names, *(name.partition(".")[2] for name in names)], 1)
                advice = f"did you mean {close[0]!r}?" if close else f"`{program_name()} tools` lists the tools"
                yield key, each, f"matches no tool; {advice}"


def has_tool(role: Role | None, name: str) -> bool:
    """Return whether a role has a tool, by its qualified name; without a role, all tools are there."""
    if role is None:
        return True
    included, excluded = in_any_namespace(role.tools), in_any_namespace(role.without)
    return any(fits(each, name) for each in included) and not any(fits(each, name) for each in excluded)


def has_source(role: Role | None, name: str) -> bool:
    """Return whether a role may have tools of a source."""
    return role is None or any(fits(each.partition(".")[0], name) for each in in_any_namespace(role.tools))


def admits(options: McpOptions, profiles: Mapping[str, McpOptions], subject: str | None) -> bool:
    """Return whether a caller may use a profile.

    A profile with subjects is for these alone. A subject that some profile names may use only the profiles that name
    it, so that its token has a subset of the tools.
    """
    if options.subjects:
        return subject is not None and _names(options, subject)
    return subject is None or not any(_names(each, subject) for each in profiles.values())


def _names(options: McpOptions, subject: str) -> bool:
    return any(fits(each, subject) for each in options.subjects)
