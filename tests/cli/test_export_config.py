"""`agenttool export-config`: a client with the printed settings reaches the tools."""

import json
import os
import subprocess
import sys

import pytest
from project_settings import write_settings

pytestmark = pytest.mark.slow

TOOLS = """
from agenttool import tool

@tool(read_only=True)
def double(number: int) -> int:
    "Double a number."
    return 2 * number
"""


def run(*words, cwd, **variables):
    command, env = [sys.executable, "-m", "agenttool", *words], {**os.environ, **variables}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_the_printed_command_serves_the_tools_from_any_folder(tmp_path):
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    (project / "mytools.py").write_text(TOOLS)
    done = run("export-config", "claude-desktop", "--from", "mytools", "--name", "tools", cwd=project)
    assert "claude_desktop_config.json" in done.stderr
    entry = json.loads(done.stdout)["mcpServers"]["tools"]
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    messages = (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    )
    with subprocess.Popen(
        [entry["command"], *entry["args"]], cwd=other, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        for message in messages:
            server.stdin.write(json.dumps(message) + "\n")
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(2)]
        server.stdin.close()
    assert "double" in [each["name"] for each in answers[1]["result"]["tools"]]
    assert not list(other.iterdir())


BEARER = {"Authorization": "Bearer ${env:GATEWAY_TOKEN}"}


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("vscode", {"servers": {"agenttool": {"type": "http", "url": "http://127.0.0.1:8000/mcp", "headers": BEARER}}}),
        ("windsurf", {"mcpServers": {"agenttool": {"serverUrl": "http://127.0.0.1:8000/mcp", "headers": BEARER}}}),
        (
            "gemini-cli",
            {
                "mcpServers": {
                    "agenttool": {
                        "httpUrl": "http://127.0.0.1:8000/mcp",
                        "headers": {"Authorization": "Bearer ${GATEWAY_TOKEN}"},
                    }
                }
            },
        ),
        (
            "codex",
            {
                "mcp_servers": {
                    "agenttool": {"url": "http://127.0.0.1:8000/mcp", "bearer_token_env_var": "GATEWAY_TOKEN"}
                }
            },
        ),
        (
            "opencode",
            {
                "mcp": {
                    "agenttool": {
                        "type": "remote",
                        "url": "http://127.0.0.1:8000/mcp",
                        "headers": {"Authorization": "Bearer {env:GATEWAY_TOKEN}"},
                    }
                }
            },
        ),
        ("cursor", {"mcpServers": {"agenttool": {"url": "http://127.0.0.1:8000/mcp", "headers": BEARER}}}),
    ],
)
def test_a_client_is_given_the_url_of_a_gateway_without_its_token(tmp_path, client, expected):
    words = ("--url", "http://127.0.0.1:8000/mcp", "--token-env", "GATEWAY_TOKEN", "--json")
    done = run("export-config", client, *words, cwd=tmp_path)
    assert (json.loads(done.stdout), done.stderr) == (expected, "")


def test_what_is_printed_for_a_client_can_be_imported_from_its_file(tmp_path):
    home = tmp_path / "home"
    files = {
        "windsurf": ".codeium/windsurf/mcp_config.json",
        "zed": ".config/zed/settings.json",
        "codex": ".codex/config.toml",
        "gemini-cli": ".gemini/settings.json",
        "opencode": ".config/opencode/opencode.json",
    }
    for client, place in files.items():
        done = run("export-config", client, "--name", client, cwd=tmp_path)
        assert place in done.stderr
        (home / place).parent.mkdir(parents=True)
        (home / place).write_text(done.stdout)
    imported = run("import", "--no-try", "--yes", "--json", cwd=tmp_path, HOME=str(home))
    reasons = {row["server"]: row["reason"] for row in json.loads(imported.stdout)["servers"]}
    assert reasons.keys() == files.keys()
    assert all("it is agenttool itself" in each for each in reasons.values()), reasons


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    done = run("mcp", "--directory", "gone", cwd=tmp_path)
    assert done.returncode == 2
    assert "'gone' cannot be used: No such file or directory" in done.stderr


def test_a_profile_is_part_of_the_command_or_of_the_url(tmp_path):
    write_settings(tmp_path / "agenttool.toml", '[mcp.support]\ntools = ["double"]\n')
    entry = json.loads(run("export-config", "file", "--profile", "support", "--json", cwd=tmp_path).stdout)
    args = entry["mcpServers"]["agenttool"]["args"]
    assert args[args.index("--profile") + 1] == "support"
    url = ("--url", "http://127.0.0.1:8642/mcp")
    entry = json.loads(run("export-config", "cursor", *url, "--profile", "support", "--json", cwd=tmp_path).stdout)
    assert entry["mcpServers"]["agenttool"] == {"url": "http://127.0.0.1:8642/mcp/support"}
    wrong = run("export-config", "file", "--profile", "suport", cwd=tmp_path)
    assert (wrong.returncode, "did you mean 'support'?" in wrong.stderr) == (2, True)


def test_the_command_prints_the_names_of_a_profile_and_refuses_a_profile_without_tools(tmp_path):
    (tmp_path / "mytools.py").write_text(TOOLS)
    write_settings(tmp_path / "agenttool.toml", '[mcp.support]\ntools = ["double"]\n')
    words = ("mcp", "--from", "mytools", "--profile", "support", "--names", "--json")
    listed = json.loads(run(*words, cwd=tmp_path).stdout)["tools"]
    assert listed == [
        {"name": "double", "tool": "local.double", "is_deferred": False},
        {"name": "read_result", "tool": "agenttool.read_result", "is_deferred": False},
    ]
    write_settings(tmp_path / "agenttool.toml", '[mcp.support]\ntools = ["doubel"]\n')
    wrong = run(*words[:-1], cwd=tmp_path)
    assert (wrong.returncode, "did you mean 'double'?" in wrong.stderr) == (2, True)
