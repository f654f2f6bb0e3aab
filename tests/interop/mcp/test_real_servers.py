"""Servers that others wrote, from npm and PyPI; they are installed once into a folder that git ignores."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mcp_clients import NEW, OLD, Person, connected, text_of
from npm_packages import BUILD, install_packages, node_22
from programs import find_program
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route
from waiting import wait_until

from agenttool import McpServer, ProviderState, Runtime
from agenttool.records import ContentClass, ToolProgress

NPM = ("server-everything", "server-filesystem", "server-memory", "server-sequential-thinking")
PYPI = ("mcp<2", "mcp-server-git", "mcp-server-time", "mcp-server-fetch", "mcp-server-sqlite")

pytestmark = pytest.mark.soak


@pytest.fixture(scope="session")
def npm_servers() -> Path:
    """Return the folder of the servers from npm."""
    return install_packages("mcp-servers", *(f"@modelcontextprotocol/{name}" for name in NPM)) / "@modelcontextprotocol"


@pytest.fixture(scope="session")
def pypi_servers() -> Path:
    """Return the folder of the programs of the servers from PyPI."""
    folder = BUILD / "mcp-servers-python"
    if not (folder / "done").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", *PYPI], check=True)
        (folder / "done").touch()
    return folder / "bin"


def node_server(npm_servers: Path, name: str, *args: str, **settings: object) -> McpServer:
    main = npm_servers / name / "dist" / "index.js"
    return McpServer(name, command=str(node_22()), args=(str(main), *args), **settings)


def python_server(pypi_servers: Path, name: str, *args: str, **settings: object) -> McpServer:
    return McpServer(name, command=str(pypi_servers / name), args=args, **settings)


def opened(*servers: McpServer) -> Runtime:
    return Runtime.open(sources=servers, approve=lambda _: True)


@pytest.fixture(scope="session")
def browser_server() -> Path:
    """Return the program of the server that drives a browser; install it and Debian's Chromium, if they are missing."""
    find_program("chromium")
    return install_packages("mcp-browser", "@playwright/mcp@0.0.83") / "@playwright" / "mcp" / "cli.js"


async def test_the_browser_server_opens_a_page_and_reads_it(browser_server, serve_app, tmp_path):
    async def page(request):
        return HTMLResponse("<title>Greenhouse</title><h1>Bed 12 is dry</h1><button>Water it</button>")

    app = Starlette(routes=[Route("/", page)])
    words = ("--headless", "--isolated", "--no-sandbox", "--executable-path", find_program("chromium"))
    server = McpServer("browser", command=str(node_22()), args=(str(browser_server), *words), cwd=str(tmp_path))
    async with serve_app(app) as url, opened(server) as rt:
        went = await rt.call("browser.browser_navigate", {"url": f"{url}/"})
        read = await rt.call("browser.browser_snapshot", {})
        picture = await rt.call("browser.browser_take_screenshot", {"type": "png", "scale": "css"})
        await rt.call("browser.browser_close", {})
    assert went.ok, went.error
    assert "Bed 12 is dry" in read.text
    assert "Water it" in read.text
    assert any(each.type is ContentClass.IMAGE for each in picture.content), picture


@pytest.fixture(params=["stdio", "streamableHttp", "sse"])
def everything(request, npm_servers, free_port, tmp_path):
    """Return the reference server over each transport."""
    name = "server-everything"
    if request.param == "stdio":
        yield node_server(npm_servers, name, "stdio")
        return
    port = free_port()
    main = npm_servers / name / "dist" / "index.js"
    log = tmp_path / "everything.log"
    with log.open("w") as out:
        variables = {**os.environ, "PORT": str(port)}
        process = subprocess.Popen([node_22(), main, request.param], env=variables, stdout=out, stderr=out)
        try:
            wait_until(lambda: str(port) in log.read_text())
            path, transport = ("/sse", "sse") if request.param == "sse" else ("/mcp", "http")
            yield McpServer(name, url=f"http://127.0.0.1:{port}{path}", transport=transport)
        finally:
            process.kill()
            process.wait()


async def test_the_reference_server(everything):
    async with opened(everything) as rt:
        call = {
            name: await rt.call(f"server-everything.{name}", arguments)
            for name, arguments in {
                "echo": {"message": "hi"},
                "get-sum": {"a": 2, "b": 3},
                "get-tiny-image": {},
                "get-structured-content": {"location": "Chicago"},
                "get-resource-links": {"count": 2},
                "get-resource-reference": {"resourceType": "Text", "resourceId": 1},
                "trigger-long-running-operation": {"duration": 1, "steps": 3},
                "list_resources": {},
                "list_prompts": {},
            }.items()
        }
        progress = [each async for each in rt.journal.export() if isinstance(each, ToolProgress)]
    failed = {name: each for name, each in call.items() if not each.ok}
    assert failed == {}
    assert "hi" in call["echo"].text
    assert "5" in call["get-sum"].text
    assert any(each.type is ContentClass.IMAGE for each in call["get-tiny-image"].content)
    assert "temperature" in call["get-structured-content"].value
    links = [each for each in call["get-resource-links"].content if each.type is ContentClass.RESOURCE_LINK]
    assert len(links) == 2
    assert any(each.type is ContentClass.EMBEDDED_RESOURCE for each in call["get-resource-reference"].content)
    assert progress
    assert call["list_resources"].value["resources"]
    assert call["list_prompts"].value["prompts"]


@pytest.mark.parametrize("mode", [NEW, OLD])
async def test_the_form_of_the_reference_server_reaches_the_person_at_the_client(everything, mode):
    rules = [{"behavior": "allow", "tool": "server-everything.*"}]
    answer = {"name": "Ada", "integer": 7, "untitledSingleSelectEnum": "Joey", "untitledMultipleSelectEnum": ["Bass"]}
    person = Person(**answer)
    async with (
        Runtime.open(sources=[everything], rules=rules, approve="wait") as rt,
        connected(rt, mode, person) as client,
    ):
        result = await client.call_tool("trigger-elicitation-request", {})
    assert person.asked == ["server-everything asks: Please provide inputs for the following fields:"]
    assert not result.is_error, result
    assert "User provided the requested information" in text_of(result)
    assert all(word in text_of(result) for word in ("Name: Ada", "Favorite Integer: 7", "Joey", "Bass")), result


async def test_the_file_server(npm_servers, tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    async with opened(node_server(npm_servers, "server-filesystem", str(tmp_path))) as rt:
        read = await rt.call("server-filesystem.read_text_file", {"path": str(tmp_path / "a.txt")})
        outside = await rt.call("server-filesystem.read_text_file", {"path": "/etc/hostname"})
        await rt.call("server-filesystem.write_file", {"path": str(tmp_path / "b.txt"), "content": "new"})
    assert read.ok
    assert "hello" in read.text
    assert outside.is_error
    assert (tmp_path / "b.txt").read_text() == "new"


async def test_the_file_server_with_the_roots_of_the_settings(npm_servers, tmp_path):
    allowed, other = tmp_path / "allowed", tmp_path / "other"
    allowed.mkdir()
    other.mkdir()
    async with opened(node_server(npm_servers, "server-filesystem", str(other), roots=(str(allowed),))) as rt:
        listed = await rt.call("server-filesystem.list_allowed_directories", {})
    assert str(allowed) in listed.text
    assert str(other) not in listed.text


async def test_the_memory_and_thinking_servers(npm_servers, tmp_path):
    env = {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}
    servers = (
        node_server(npm_servers, "server-memory", env=env),
        node_server(npm_servers, "server-sequential-thinking"),
    )
    async with opened(*servers) as rt:
        entity = {"name": "Ada", "entityType": "person", "observations": ["likes tea"]}
        made = await rt.call("server-memory.create_entities", {"entities": [entity]})
        graph = await rt.call("server-memory.read_graph", {})
        thought = await rt.call(
            "server-sequential-thinking.sequentialthinking",
            {"thought": "first", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
        )
    assert made.ok
    assert "likes tea" in graph.text
    assert thought.ok, thought.error


async def test_servers_with_the_older_sdk(pypi_servers, tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    servers = (
        python_server(pypi_servers, "mcp-server-git", "--repository", str(tmp_path)),
        python_server(pypi_servers, "mcp-server-time", "--local-timezone", "UTC"),
        python_server(pypi_servers, "mcp-server-fetch", "--ignore-robots-txt"),
        python_server(pypi_servers, "mcp-server-sqlite", "--db-path", str(tmp_path / "x.db")),
    )
    async with opened(*servers) as rt:
        states = {each.source: each for each in await rt.sources.status()}
        status = await rt.call("mcp-server-git.git_status", {"repo_path": str(tmp_path)})
        now = await rt.call("mcp-server-time.get_current_time", {"timezone": "Europe/Berlin"})
        await rt.call("mcp-server-sqlite.create_table", {"query": "create table t (a int)"})
        tables = await rt.call("mcp-server-sqlite.list_tables", {})
    assert {each.state for each in states.values()} == {ProviderState.READY}, states
    assert "branch" in status.text
    assert "Europe/Berlin" in json.loads(now.text)["timezone"]
    assert "'t'" in tables.text
