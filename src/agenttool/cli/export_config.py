"""`agenttool export-config`: print the settings with which an MCP client uses this gateway."""

import json
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agenttool.cli.client_settings import client_files
from agenttool.cli.options import StoreToolOptions, option, required
from agenttool.cli.output import hint, is_json
from agenttool.config import load_config
from agenttool.config.writer import toml_key, toml_table
from agenttool.records import Json, JsonObject


class ConfiguredClient(StrEnum):
    """An MCP client whose settings are known."""

    CLAUDE_CODE = "claude-code"
    CLAUDE_DESKTOP = "claude-desktop"
    CURSOR = "cursor"
    VSCODE = "vscode"
    WINDSURF = "windsurf"
    ZED = "zed"
    CODEX = "codex"
    GEMINI_CLI = "gemini-cli"
    OPENCODE = "opencode"
    FILE = "file"


_KEYS = {
    ConfiguredClient.VSCODE: "servers",
    ConfiguredClient.ZED: "context_servers",
    ConfiguredClient.CODEX: "mcp_servers",
    ConfiguredClient.OPENCODE: "mcp",
}
"""The member with the servers in the settings of each client; most call it `mcpServers`."""

_URLS = {ConfiguredClient.WINDSURF: "serverUrl", ConfiguredClient.GEMINI_CLI: "httpUrl"}
_TYPES = {
    ConfiguredClient.CLAUDE_CODE: "http",
    ConfiguredClient.VSCODE: "http",
    ConfiguredClient.OPENCODE: "remote",
    ConfiguredClient.FILE: "http",
}
"""The `type` of a server with a URL; the other clients have none."""

_TOKEN = {
    ConfiguredClient.CURSOR: "${env:%s}",
    ConfiguredClient.VSCODE: "${env:%s}",
    ConfiguredClient.WINDSURF: "${env:%s}",
    ConfiguredClient.OPENCODE: "{env:%s}",
}
"""How a client writes an environment variable in a header; most write `${NAME}`."""


def export_config(
    client: Annotated[ConfiguredClient, required("", "The client; `file` is a plain mcpServers file")],
    *,
    name: str = option("--name NAME", "The name of the server in the client", default="agenttool"),
    url: str | None = option("--url URL", "Use a running gateway, such as http://127.0.0.1:8000/mcp"),
    token_env: str | None = option("--token-env NAME", "The variable that has the bearer token for the URL"),
    profile: str = option(
        "--profile NAME", "Use the tools of the table [mcp.NAME] in the settings of the gateway", default=""
    ),
    options: StoreToolOptions,
) -> None:
    """Print the settings with which an MCP client uses this gateway.

    Without --url the client starts `agenttool mcp` in the folder in which this command runs.
    """
    here = Path.cwd()
    if url is None:
        if profile:
            load_config(options.config).check_profile(profile)
        given = (
            ("--profile", profile or None),
            ("--store", options.store),
            *(("--from", each) for each in options.from_ or ()),
            ("--settings", options.settings),
        )
        entry = _program(client, here, given)
    else:
        entry = _address(client, f"{url.rstrip('/')}/{profile}" if profile else url, token_env)
    key = _KEYS.get(client, "mcpServers")
    if client is ConfiguredClient.CODEX and not is_json():
        typer.echo(toml_table(f"[{key}.{toml_key(name)}]", entry).rstrip())
    else:
        typer.echo(json.dumps({key: {name: entry}}, indent=2, ensure_ascii=False))
    if not is_json():
        hint(_place(client, here))


def _program(client: ConfiguredClient, here: Path, options: Iterable[tuple[str, str | Path | None]]) -> JsonObject:
    """Return the entry of a client that starts `agenttool mcp`; clients start programs in a folder of their own."""
    script = Path(sys.executable).with_name("agenttool")
    args: list[Json] = [*(() if script.is_file() else ("-m", "agenttool")), "mcp", "--directory", str(here)]
    for name, value in options:
        args += [name, str(value)] if value is not None else []
    command = str(script) if script.is_file() else sys.executable
    if client is ConfiguredClient.OPENCODE:
        return {"type": "local", "command": [command, *args]}
    return {"command": command, "args": args}


def _address(client: ConfiguredClient, url: str, token_env: str | None) -> JsonObject:
    # The file of Claude Desktop has no servers with a URL, and that of Zed has no variables.
    is_bridged = client is ConfiguredClient.CLAUDE_DESKTOP or (client is ConfiguredClient.ZED and token_env is not None)
    if is_bridged:
        header = [f"Authorization: Bearer ${{{token_env}}}"] if token_env else []
        args: list[Json] = ["-y", "mcp-remote", url, *(word for each in header for word in ("--header", each))]
        return {"command": "npx", "args": args}
    entry: JsonObject = {"type": _TYPES[client]} if client in _TYPES else {}
    entry[_URLS.get(client, "url")] = url
    if token_env is not None and client is ConfiguredClient.CODEX:
        entry["bearer_token_env_var"] = token_env
    elif token_env is not None:
        entry["headers"] = {"Authorization": "Bearer " + _TOKEN.get(client, "${%s}") % token_env}
    return entry


def _place(client: ConfiguredClient, here: Path) -> str:
    files = [str(each.path) for each in client_files(here, sys.platform) if each.client == client]
    return f"add this to {' or '.join(files)}" if files else "add this to the settings of the client"
