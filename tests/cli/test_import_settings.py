"""`agenttool import` and `agenttool sources add`, with a small MCP server that needs no SDK."""

import json
import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

FIXTURE = str(Path(__file__).parents[1] / "support" / "mcp_fixture_server.py")
TOKEN = "ghp_0123456789abcdefghij"  # noqa: S105 -- of no account
DOCS = "docs-0123456789"

pytestmark = pytest.mark.slow


def program(*options, **members):
    return {"command": sys.executable, "args": ["-I", "-S", FIXTURE, *options], **members}


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a command in a project, with a home folder of its own."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()

    def ran(*words, **variables):
        inherited = {name: value for name, value in os.environ.items() if "TOKEN" not in name}
        own = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "COLUMNS": "300", **variables}
        return subprocess.run(
            [sys.executable, "-m", "agenttool", *words],
            cwd=project, env={**inherited, **own}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip

    ran.project, ran.home = project, home
    return ran


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def settings_of(run):
    return tomllib.loads((run.project / "agenttool.toml").read_text())


def rows_of(done):
    return {row["server"]: row for row in json.loads(done.stdout)["servers"]}


def test_servers_that_answer_are_added_and_the_others_are_listed_with_the_reason(run):
    fail = "import sys; sys.exit('no license found')"
    servers = {
        "my files!": program("tools=3", env={"GITHUB_TOKEN": TOKEN, "LOG_LEVEL": "debug", "PASS": "abc"}),
        "hang": program("hang=1"),
        "broken": {"command": sys.executable, "args": ["-c", fail]},
        "off": program(disabled=True),
        "socket": {"type": "ws", "url": "ws://127.0.0.1/"},
        "unset": {"url": "https://${MISSING_HOST}/mcp"},
    }
    write(run.project / "servers.json", {"mcpServers": servers})
    before = "# mine\n[store]\nurl = 'sqlite:calls.db'  # here"
    write(run.project / "agenttool.toml", before)
    run("trust", "--yes")

    done = run("import", "servers.json", "--yes", "--timeout", "3", "--json")

    rows = rows_of(done)
    assert done.returncode == 1, done.stderr
    assert {name: row["state"] for name, row in rows.items()} == {
        "my files!": "ready", "hang": "failed", "broken": "failed", "off": "skipped", "socket": "skipped", "unset": "failed",
    }  # fmt: skip
    assert rows["my files!"]["tools"] >= 17
    assert rows["my files!"]["tokens"] > 300
    assert "did not start within 3 s" in rows["hang"]["reason"]
    assert rows["broken"]["reason"].endswith("it wrote: no license found")
    assert "'ws' is unknown" in rows["socket"]["reason"]
    assert "MISSING_HOST is not set" in rows["unset"]["reason"]
    assert json.loads(done.stdout)["set"] == ["GITHUB_TOKEN", "PASS"]
    text = (run.project / "agenttool.toml").read_text()
    assert text.startswith(before + "\n")
    assert TOKEN not in text + done.stdout
    assert settings_of(run)["sources"] == {
        "my_files": {
            "kind": "mcp",
            **program("tools=3"),
            "env": {"GITHUB_TOKEN": "${credentials.github_token}", "LOG_LEVEL": "debug"},
            "pass_env": ["PASS"],
        }
    }
    assert settings_of(run)["credentials"] == {"github_token": {"env": "GITHUB_TOKEN"}}


def test_an_imported_server_is_called_with_the_secret_of_the_environment(run):
    write(run.project / "servers.json", {"mcpServers": {"fx": program(env={"GITHUB_TOKEN": TOKEN})}})
    rule = "[[rules]]\nname = 'all'\nbehavior = 'allow'\ntool = 'fx.*'\n"
    write(run.project / "agenttool.toml", rule)
    assert run("trust", "--yes").returncode == 0
    assert run("import", "servers.json", "--yes").returncode == 0
    missing = run("call", "fx.env", "name=GITHUB_TOKEN")
    called = run("call", "fx.env", "name=GITHUB_TOKEN", GITHUB_TOKEN=TOKEN)
    assert missing.returncode != 0
    assert called.stdout == "[redacted]\n", called.stderr


def test_the_settings_of_each_client_are_found_and_a_server_is_added_once(run):
    write(run.project / ".mcp.json", {"mcpServers": {"code": program("tools=1")}})
    write(
        run.home / ".claude.json",
        {
            "mcpServers": {"again": program("tools=2")},
            "projects": {str(run.project): {"mcpServers": {"local": program("tools=3")}}},
        },
    )
    desktop = {"darwin": "Library/Application Support"}.get(sys.platform, ".config")
    write(run.home / desktop / "Claude" / "claude_desktop_config.json", {"mcpServers": {"desktop": program("tools=2")}})
    write(
        run.home / ".cursor" / "mcp.json",
        '// mine\n{"mcpServers": {"web": {"url": "http://127.0.0.1:9/sse", /* x */ },},}',
    )
    inputs = [{"id": "api-token", "type": "promptString", "password": True}]
    server = program("${input:api-token}", "${workspaceFolder}/x", env={"HERE": "${env:USER_NAME}"}, type="stdio")
    write(run.project / ".vscode" / "mcp.json", {"inputs": inputs, "servers": {"code": server}})

    done = run("import", "--no-try", "--yes", "--json", USER_NAME="ada")

    assert done.returncode == 0, done.stdout
    assert rows_of(done)["desktop"]["reason"] == "the source 'again' is the same server"
    found = settings_of(run)
    assert found["sources"] == {
        "code": {"kind": "mcp", **program("tools=1"), "cwd": "."},
        "again": {"kind": "mcp", **program("tools=2")},
        "local": {"kind": "mcp", **program("tools=3")},
        "web": {"kind": "mcp", "url": "http://127.0.0.1:9/sse", "transport": "sse"},
        "code_2": {
            "kind": "mcp",
            **program("${credentials.api_token}", f"{run.project}/x", env={"HERE": "ada"}),
            "cwd": ".",
        },
    }
    assert found["credentials"] == {"api_token": {"env": "API_TOKEN"}}
    assert json.loads(done.stdout)["set"] == ["API_TOKEN"]


def test_no_secret_of_a_url_a_header_or_an_argument_is_written(run):
    servers = {
        "url": {"url": f"https://mcp.example.com/mcp?api_key={TOKEN}&mode=full"},
        "header": {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": f"Bearer {TOKEN}", "X-Mode": "full"}},
        "variable": {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer ${DOCS_TOKEN:-}"}},
        "option": {"command": "npx", "args": ["-y", "task-master-ai", "--api-key", TOKEN, f"--token={TOKEN}x"]},
        "database": {"command": "npx", "args": ["server-postgres", "postgres://ada:secret-word@db/x"]},
        "remote": {
            "command": "npx",
            "args": ["mcp-remote", "https://x.example/mcp", "--header", "Authorization:${AUTH_HEADER}"],
            "env": {"AUTH_HEADER": f"Bearer {TOKEN}"},
        },
    }  # fmt: skip
    write(run.project / "servers.json", {"mcpServers": servers})

    done = run("import", "servers.json", "--no-try", "--yes", DOCS_TOKEN=DOCS)

    text, found = (run.project / "agenttool.toml").read_text(), settings_of(run)["sources"]
    assert done.returncode == 0, done.stderr
    for secret in (TOKEN, "secret-word", DOCS):
        assert secret not in text + done.stdout
    assert found["url"]["url"] == "https://mcp.example.com/mcp?api_key=${credentials.url_api_key}&mode=full"
    assert found["header"]["headers"] == {
        "Authorization": "Bearer ${credentials.header_authorization}",
        "X-Mode": "full",
    }
    assert found["variable"]["headers"] == {"Authorization": "Bearer ${credentials.docs_token}"}
    assert found["option"]["args"] == [
        "-y", "task-master-ai", "--api-key", "${credentials.option_api_key}", "--token=${credentials.option_token}",
    ]  # fmt: skip
    assert found["database"]["args"] == ["server-postgres", "${credentials.database_arg}"]
    assert found["remote"]["args"][-1] == "Authorization:${AUTH_HEADER}"
    assert found["remote"]["env"] == {"AUTH_HEADER": "Bearer ${credentials.auth_header}"}


def test_a_secret_in_an_argument_reaches_the_program(run, tmp_path):
    log = tmp_path / f"{TOKEN}.txt"
    write(run.project / "servers.json", {"mcpServers": {"fx": program(f"log={tmp_path}/${{LOG_TOKEN}}.txt")}})
    done = run("import", "servers.json", "--yes", "--json", LOG_TOKEN=TOKEN)
    assert rows_of(done)["fx"]["state"] == "ready", done.stdout
    assert settings_of(run)["sources"]["fx"]["args"][-1] == f"log={tmp_path}/${{credentials.log_token}}.txt"
    assert log.exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Bearer ${credentials.github}", "has a meaning only in the client"),
        (f"{TOKEN} ${{DOCS_TOKEN}}", "has a secret beside a variable"),
        ("${command:pick}", "has a meaning only in the client"),
    ],
)
def test_a_header_that_cannot_be_translated_is_not_imported(run, text, says):
    server = {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": text}}
    write(run.project / "servers.json", {"mcpServers": {"fx": server}})
    done = run("import", "servers.json", "--yes", "--no-try", "--json")
    assert done.returncode == 1
    assert says in rows_of(done)["fx"]["reason"]
    assert not (run.project / "agenttool.toml").exists()


def test_nothing_is_started_or_written_without_a_confirmation(run, tmp_path):
    log = tmp_path / "log.txt"
    write(run.project / "servers.json", {"mcpServers": {"fx": program(f"log={log}")}})
    refused = run("import", "servers.json")
    shown = run("import", "servers.json", "--dry-run", "--no-try")
    assert refused.returncode == 2
    assert "pass --yes" in refused.stderr
    assert shown.returncode == 0
    assert '[sources.fx]\nkind = "mcp"\n' in shown.stdout
    assert not log.exists()
    assert not (run.project / "agenttool.toml").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"mcpServers": ', "servers.json: not JSON"),
        ("[]", "must be a JSON object with mcpServers"),
        ('{"theme": "dark"}', "has neither mcpServers nor servers"),
        ('{"mcpServers": ["npx"]}', "must be an object of names and servers"),
    ],
)
def test_a_file_that_lists_no_servers_is_rejected_with_the_reason(run, content, says):
    write(run.project / "servers.json", content)
    done = run("import", "servers.json", "--yes")
    assert done.returncode == 2
    assert says in done.stderr


def test_a_broken_file_of_one_client_is_listed_and_the_servers_of_the_others_are_added(run):
    write(run.project / ".cursor" / "mcp.json", '{"mcpServers": ')
    write(run.home / ".cursor" / "mcp.json", {"theme": "dark"})
    write(run.project / ".mcp.json", {"mcpServers": {"code": program("tools=1")}})
    done = run("import", "--no-try", "--yes", "--json")
    rows = rows_of(done)
    assert done.returncode == 1
    assert {name: row["state"] for name, row in rows.items()} == {"code": "untried", "mcp.json": "failed"}
    assert "not JSON" in rows["mcp.json"]["reason"]
    assert list(settings_of(run)["sources"]) == ["code"]


def test_what_a_client_has_and_agenttool_does_not_is_listed(run):
    url = {"url": "https://service.example/mcp"}
    servers = {
        "cursor": {**url, "auth": {"CLIENT_ID": "agent"}},
        "code": {**url, "headersHelper": "/opt/headers.sh"},
        "files": program("tools=1", disabledTools=["write"], timeout=5, alwaysAllow=["read"]),
    }
    write(run.project / "servers.json", {"mcpServers": servers})
    done = run("import", "servers.json", "--no-try", "--yes", "--json")
    rows = rows_of(done)
    assert {name: row["state"] for name, row in rows.items()} == {
        "cursor": "skipped", "code": "skipped", "files": "untried",
    }  # fmt: skip
    assert "(auth), which is not imported" in rows["cursor"]["reason"]
    assert "(headersHelper), which is not imported" in rows["code"]["reason"]
    assert rows["files"]["reason"] == "not imported: alwaysAllow"
    settings = settings_of(run)
    assert settings["sources"]["files"]["timeout_s"] == 5
    assert settings["rules"][0]["operation"] == ["write"]


def test_agenttool_does_not_import_itself_and_no_source_has_the_name_of_the_built_in_tools(run):
    write(run.project / ".cursor" / "mcp.json", run("export-config", "cursor").stdout)
    write(
        run.home / ".cursor" / "mcp.json", run("export-config", "cursor", "--url", "http://127.0.0.1:8642/mcp").stdout
    )
    done = run("import", "cursor", "--yes", "--json")
    assert [each["state"] for each in json.loads(done.stdout)["servers"]] == ["skipped", "skipped"]
    assert "it is agenttool itself" in done.stdout
    write(run.project / "servers.json", {"mcpServers": {"agenttool": program()}})
    assert rows_of(run("import", "servers.json", "--yes", "--json"))["agenttool"]["source"] == "agenttool_2"
    added = run("sources", "add", "agenttool", "--", *program()["args"])
    assert added.returncode != 0
    assert "'agenttool' is the namespace of the built-in tools" in added.stderr


def test_the_gateway_of_the_settings_is_not_imported_under_any_of_its_names(run):
    write(run.project / "agenttool.toml", '[server]\nport = 9000\nurl = "https://tools.example/gateway"\n')
    run("trust", "--yes")
    own = ("http://localhost:9000/mcp", "http://127.0.1.1:9000/mcp/ops", f"http://{socket.gethostname()}:9000/mcp",
           "http://[::1]:8642/mcp", "https://tools.example/gateway/mcp")  # fmt: skip
    others = ("http://127.0.0.1:8000/mcp", "https://tools.example/mcp", "http://127.0.0.1:9000/api", "http://x:y/mcp")
    servers = {url: {"url": url} for url in (*own, *others)}
    servers["remote"] = {"command": "npx", "args": ["-y", "mcp-remote", own[0]]}
    write(run.project / "servers.json", {"mcpServers": servers})
    rows = rows_of(run("import", "servers.json", "--no-try", "--yes", "--json", "--dry-run"))
    skipped = {name for name, row in rows.items() if "it is agenttool itself" in (row["reason"] or "")}
    assert skipped == {*own, "remote"}


def test_an_unknown_client_is_rejected_with_a_suggestion(run):
    done = run("import", "cursr", "--yes")
    assert done.returncode == 2
    assert "did you mean 'cursor'?" in done.stderr


def test_settings_that_tables_cannot_be_appended_to_stay_as_they_are(run):
    write(run.project / "agenttool.toml", "sources = {}\n")
    run("trust", "--yes")
    done = run("sources", "add", "fx", "--no-try", "--", "npx", "server")
    assert done.returncode == 2
    assert "add them by hand" in done.stderr
    assert (run.project / "agenttool.toml").read_text() == "sources = {}\n"


def test_one_server_is_tried_and_added_by_its_command(run):
    words = (sys.executable, "-I", "-S", FIXTURE, "tools=2")
    done = run("sources", "add", "fx", "--env", f"API_KEY={TOKEN}", "--", *words)
    again = run("sources", "add", "fx", "--", *words)
    broken = run("sources", "add", "gone", "--", "no-such-program-at-all")
    assert done.returncode == 0, done.stderr
    assert "added 1 server to agenttool.toml" in done.stdout
    assert "API_KEY  (for fx)" in done.stdout
    assert settings_of(run)["sources"] == {
        "fx": {"kind": "mcp", **program("tools=2"), "env": {"API_KEY": "${credentials.api_key}"}}
    }
    assert (again.returncode, broken.returncode) == (2, 1)
    assert "there is a source 'fx' already" in again.stderr
    assert "was not found" in broken.stdout


def test_a_server_is_added_by_its_url(run):
    done = run(
        "sources",
        "add",
        "docs",
        "https://mcp.example.com/mcp",
        "--no-try",
        "--header",
        "Authorization: Bearer ${DOCS_TOKEN}",
    )
    assert done.returncode == 0, done.stderr
    assert settings_of(run) == {
        "sources": {
            "docs": {
                "kind": "mcp",
                "url": "https://mcp.example.com/mcp",
                "headers": {"Authorization": "Bearer ${credentials.docs_token}"},
            }
        },
        "credentials": {"docs_token": {"env": "DOCS_TOKEN"}},
    }


def test_the_toml_settings_of_codex_are_imported_with_their_limits_and_restrictions(run):
    write(
        run.home / ".codex" / "config.toml",
        f"""
model = "any"
[mcp_servers.fx]
command = {json.dumps(sys.executable)}
args = {json.dumps(["-I", "-S", FIXTURE])}
env_vars = ["LOG_LEVEL"]
startup_timeout_sec = 20
tool_timeout_sec = 45.5
disabled_tools = ["die", "env"]
[mcp_servers.far]
url = "https://mcp.example.com/mcp"
bearer_token_env_var = "FAR_TOKEN"
enabled = false
""",
    )
    done = run("import", "codex", "--yes", "--json", LOG_LEVEL="debug")
    assert {name: row["state"] for name, row in rows_of(done).items()} == {"fx": "ready", "far": "skipped"}, done.stderr
    settings = settings_of(run)
    source = settings["sources"]["fx"]
    assert (source["pass_env"], source["start_timeout_s"], source["timeout_s"]) == (["LOG_LEVEL"], 20, 45.5)
    (rule,) = settings["rules"]
    assert (rule["behavior"], rule["namespace"], rule["operation"]) == ("deny", "fx", ["die", "env"])
    tried = run("policy", "try", "fx.die", "--settings", "agenttool.toml")
    assert "deny" in tried.stdout, tried


def test_the_settings_of_opencode_are_imported(run):
    servers = {
        "fx": {
            "type": "local",
            "command": [sys.executable, "-I", "-S", FIXTURE],
            "environment": {"GITHUB_TOKEN": "{env:GITHUB_TOKEN}"},
            "timeout": 9000,
        },
        "off": {"type": "remote", "url": "https://mcp.example.com/mcp", "enabled": False},
        "file": {"type": "local", "command": ["x"], "environment": {"KEY": "{file:~/.key}"}},
    }
    write(run.project / "opencode.json", {"mcp": servers})
    done = run("import", "opencode", "--yes", "--json", GITHUB_TOKEN=TOKEN)
    assert {name: row["state"] for name, row in rows_of(done).items()} == {
        "fx": "ready",
        "off": "skipped",
        "file": "failed",
    }, done.stderr
    source = settings_of(run)["sources"]["fx"]
    assert (source["command"], source["args"]) == (sys.executable, ["-I", "-S", FIXTURE])
    assert (source["env"], source["start_timeout_s"]) == ({"GITHUB_TOKEN": "${credentials.github_token}"}, 9)


@pytest.mark.parametrize(("oauth", "state"), [({}, "skipped"), ({"clientId": "x"}, "skipped"), (False, "untried")])
def test_a_server_with_which_opencode_logs_in_is_skipped(run, oauth, state):
    far = {"type": "remote", "url": "https://mcp.example.com/mcp", "oauth": oauth}
    write(run.project / "opencode.json", {"mcp": {"far": far}})
    done = run("import", "opencode", "--yes", "--no-try", "--json")
    assert rows_of(done)["far"]["state"] == state, done.stderr


def test_tools_that_opencode_does_not_use_are_denied_by_a_rule(run):
    fx = {"type": "local", "command": [sys.executable, "-I", "-S", FIXTURE]}
    off = {"fx_die": False, "fx_en*": False, "fx_echo": True, "other_*": False, "*id": False}
    write(run.project / "opencode.json", {"mcp": {"fx": fx}, "tools": off, "permission": {"fx_add": "deny"}})
    done = run("import", "opencode", "--yes", "--json")
    assert rows_of(done)["fx"]["state"] == "ready", done.stderr
    (rule,) = settings_of(run)["rules"]
    assert (rule["behavior"], rule["operation"]) == ("deny", ["die", "en*", "*id", "add"])
    tried = {
        each: run("policy", "try", f"fx.{each}", "--settings", "agenttool.toml").stdout for each in ("env", "echo")
    }
    assert {name: "deny" in text for name, text in tried.items()} == {"env": True, "echo": False}, tried


def test_servers_that_gemini_excludes_are_skipped(run):
    servers = {name: program() for name in ("used", "excluded", "other")}
    mcp = {"allowed": ["used", "excluded"], "excluded": ["excluded"]}
    write(run.home / ".gemini" / "settings.json", {"mcpServers": servers, "mcp": mcp})
    done = run("import", "gemini-cli", "--yes", "--json", "--no-try")
    states = {name: row["state"] for name, row in rows_of(done).items()}
    assert states == {"used": "untried", "excluded": "skipped", "other": "skipped"}


def test_variables_and_allowed_tools_of_gemini_become_credentials_and_rules(run):
    server = program(env={"GITHUB_TOKEN": "$GITHUB_TOKEN"}, includeTools=["echo", "add"], timeout=30_000)
    write(run.home / ".gemini" / "settings.json", {"theme": "dark", "mcpServers": {"fx": server}})
    done = run("import", "gemini-cli", "--yes", "--json", GITHUB_TOKEN=TOKEN)
    assert rows_of(done)["fx"]["state"] == "ready", done.stderr
    assert "agenttool sources review fx" in rows_of(done)["fx"]["reason"]
    settings = settings_of(run)
    source, (rule,) = settings["sources"]["fx"], settings["rules"]
    assert source["env"] == {"GITHUB_TOKEN": "${credentials.github_token}"}
    assert (source["timeout_s"], source["new_tools"]) == (30, "review")
    assert {"die", "env", "pid"} <= {*rule["operation"]}
    assert not {"echo", "add"} & {*rule["operation"]}
    untried = run("import", "gemini-cli", "--yes", "--json", "--no-try", "--dry-run", GITHUB_TOKEN=TOKEN)
    assert "toml" not in json.loads(untried.stdout)
