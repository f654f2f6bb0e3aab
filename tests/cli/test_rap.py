"""`agenttool rap serve`, as a program of its own."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import ExitStack, suppress

import pytest
from project_settings import write_settings

MODULE = '''
from agenttool.rap import Provider

provider = Provider("bells", allow=["127.0.0.1"])

@provider.tool
async def ring() -> str:
    """Ring."""
    return "rung"
'''


SHY = MODULE.replace(', allow=["127.0.0.1"]', "")
"""The same provider, but it posts to public addresses only, so that results are not seen here."""

EVERYWHERE = "0.0.0.0"  # noqa: S104 -- what one of these tests is about


@pytest.fixture
def serve(tmp_path):
    (tmp_path / "bells.py").write_text(MODULE)

    def serve(*words):
        program = [sys.executable, "-m", "agenttool", "rap", "serve", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(program, cwd=tmp_path, text=True, **pipes)

    return serve


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_port_and_stops_on_a_signal(serve, by):
    with serve("bells:provider", "--port", "0", "--json", "--store", "kept.db") as server:
        port = json.loads(server.stdout.readline())["port"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/.well-known/rap-toolset", timeout=60) as reply:
            manifest = json.load(reply)
        server.send_signal(by)
        out, err = server.communicate(timeout=90)
    assert (server.returncode, err) == (0, "")
    assert manifest["endpoint"] == f"http://127.0.0.1:{port}/invoke"
    assert [tool["name"] for tool in manifest["tools"]] == ["ring"]
    assert out == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bells:nothing"], "is not a Provider"),
        (["nowhere:provider"], "cannot be imported"),
        (["bells", "--store", "no/such/folder/kept.db"], "create its folder first"),
    ],
)
def test_a_provider_that_cannot_be_served_is_reported(serve, words, message):
    with serve(*words) as server:
        _, err = server.communicate(timeout=90)
    assert server.returncode == 2
    assert message in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_an_incomplete_request_is_dropped(tmp_path):
    """Both servers are tried at once, because each waits ten seconds for the rest."""
    (tmp_path / "bells.py").write_text(MODULE)
    with ExitStack() as stack:
        servers, connections = [], []
        for words in (["rap", "serve", "bells:provider"], ["serve", "--store", "calls.db"]):
            program = [sys.executable, "-m", "agenttool", *words, "--port", "0", "--json"]
            server = subprocess.Popen(program, cwd=tmp_path, text=True, stdout=subprocess.PIPE)
            servers.append(stack.enter_context(server))
            stack.callback(server.send_signal, signal.SIGINT)
            message = json.loads(server.stdout.readline())
            port = message["port"] if "port" in message else int(message["url"].rpartition(":")[2])
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=90))
            connection.sendall(b"POST /invoke HTTP/1.1\r\nHost: ")
            connections.append(connection)
        for connection in connections:
            with suppress(ConnectionError):
                assert connection.recv(1) == b""
        assert [server.poll() for server in servers] == [None, None]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_provider_can_be_checked_from_outside(serve, tmp_path, form):
    words = ["--json"] if form == "json" else []
    with serve("bells:provider", "--port", "0", "--json") as server:
        port = json.loads(server.stdout.readline())["port"]
        program = [sys.executable, "-m", "agenttool", "rap", "check", f"http://127.0.0.1:{port}", *words]
        checked = subprocess.run(program, cwd=tmp_path, text=True, capture_output=True, check=False, timeout=90)
        nobody = subprocess.run(
            [*program[: -1 - len(words)], f"http://127.0.0.1:{port}/x"], capture_output=True, check=False, timeout=90
        )
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=90)
    assert (checked.returncode, nobody.returncode) == (0, 1)
    if form == "json":
        assert {json.loads(line)["is_met"] for line in checked.stdout.splitlines()} == {True}
    else:
        assert "runs a repeated call once" in checked.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("host", "auth"), [(EVERYWHERE, ""), (EVERYWHERE, "set"), ("127.0.0.1", "")])
def test_serving_other_machines_without_credentials_prints_a_warning(serving, tmp_path, host, auth):
    given = MODULE.replace("Provider(", 'Provider(auth=Bearer({"s3cret" * 6: "a"}), url="https://gh.example", name=')
    text = given.replace("import Provider", "import Bearer, Provider") if auth else MODULE
    (tmp_path / "bells.py").write_text(text)
    with serving("rap", "serve", "bells:provider", "--host", host, "--port", "0") as (child, _):
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=90)
    assert ("every client that reaches this port may call" in said, "set url= of the provider" in said) == (
        (True, True) if host == EVERYWHERE and not auth else (False, False)
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_check_that_is_incomplete_has_its_own_exit_code(serving, tmp_path, words):
    (tmp_path / "bells.py").write_text(SHY)
    with serving("rap", "serve", "bells:provider", "--port", "0") as (_, line):
        program = [sys.executable, "-m", "agenttool", "rap", "check", f"http://127.0.0.1:{line['port']}", *words]
        checked = subprocess.run(program, cwd=tmp_path, text=True, capture_output=True, check=False, timeout=90)
    assert checked.returncode == 3
    assert ('"is_met":null' if words else "not checked") in checked.stdout
    assert ('"is_met":false' if words else "not met") not in checked.stdout


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_check_of_a_closed_port_is_incomplete_and_finds_nothing_broken(tmp_path, words):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    program = [sys.executable, "-m", "agenttool", "rap", "check", url, *words]
    checked = subprocess.run(program, cwd=tmp_path, text=True, capture_output=True, check=False, timeout=90)
    assert checked.returncode == 3
    assert ('"is_met":null' if words else "not checked") in checked.stdout
    assert "connection failed" in checked.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--token-env", "NOBODY_SET_THIS"], "--token-env names 'NOBODY_SET_THIS'"),
        (["--secret-env", "NOBODY_SET_THIS"], "--secret-env names 'NOBODY_SET_THIS'"),
        (["--secret-env", "A", "--token-env", "B"], "leave one of them out"),
    ],
)
def test_a_check_whose_secret_is_not_set_is_rejected(tmp_path, words, why):
    program = [sys.executable, "-m", "agenttool", "rap", "check", "http://127.0.0.1:1", *words]
    checked = subprocess.run(program, cwd=tmp_path, text=True, capture_output=True, check=False, timeout=90)
    assert checked.returncode == 2
    assert why in " ".join(checked.stderr.split())


SAYING = '''
from agenttool.rap import Provider

provider = Provider("weather", allow=["127.0.0.1"])

@provider.tool
async def say(text: str, times: int, also: str | None = None) -> str:
    """Say something."""
    return f"{text!r} {times!r} {also!r}"
'''
SOURCE = """
[sources.weather]
kind = "rap"
url = "{url}"
allow = ["127.0.0.1"]
attempts = 1

[[rules]]
behavior = "allow"
tool = "*"
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weather.say", "say"])
def test_arguments_are_read_by_the_schema_that_a_server_declares(serving, tmp_path, name):
    (tmp_path / "bells.py").write_text(SAYING)
    with serving("rap", "serve", "bells:provider", "--port", "0") as (_, line):
        write_settings(tmp_path / "agenttool.toml", SOURCE.format(url=f"http://127.0.0.1:{line['port']}"))
        program = [sys.executable, "-m", "agenttool", "call", name, "text=5", "times=6", "also=null"]
        called = subprocess.run(program, cwd=tmp_path, text=True, capture_output=True, check=False, timeout=90)
    assert "'5' 6 None" in called.stdout, called.stderr


@pytest.mark.slow
def test_a_call_to_a_server_that_is_down_fails_with_that_reason(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    write_settings(tmp_path / "agenttool.toml", SOURCE.format(url=url))
    program = [sys.executable, "-m", "agenttool", "call", "weather.say", "text=5", "--json"]
    called = subprocess.run(program, cwd=tmp_path, text=True, capture_output=True, check=False, timeout=90)
    assert called.returncode == 1
    error = json.loads(called.stdout)["error"]
    assert (error["error_class"], error["error_code"]) == ("unknown_tool", "pending_provider")
    assert error["next_action"] == "wait_for_provider"
    assert error["retry_after"] >= 1


BURNING = """
from agenttool.rap import Provider

provider = Provider("greenhouse")

@provider.tool
async def burn(bed: int) -> str:
    "Burn a bed.\\x1b[2J"
    return "burnt"
"""


@pytest.mark.requirement("RAP-344")
def test_a_description_of_a_provider_cannot_control_the_terminal(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "burning.py").write_text(BURNING)
    page = run("rap", "describe", "burning:provider").stdout
    assert page.startswith("# Security of the toolset greenhouse\n")
    assert "may change and destroy data" in page
    assert "\x1b" not in page
    message = json.loads(run("rap", "describe", "burning:provider", "--json").stdout)
    assert (message["toolset"], message["page"]) == ("greenhouse", page)


def test_an_unknown_provider_is_rejected(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("rap", "describe", "nowhere:provider").exit_code == 2
