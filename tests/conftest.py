"""Fixtures and hooks for all tests: an event loop for coroutines, time bounds, servers, and facts of the standard."""

import asyncio
import gc
import inspect
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import quick_uvicorn
import uvicorn
import warm_start
from free_ports import find_free_port
from hypothesis import HealthCheck, settings

from agenttool.schema.compile import Checker
from write_schemas import SCHEMA_FILES

# Properties are about what happens, not about how long it takes: a loaded machine must not fail them.
# `make soak` runs the same properties with more examples, and `make versions` with fewer.
for profile, examples in (("brief", 5), ("project", 25), ("soak", 75)):
    settings.register_profile(
        profile, deadline=None, max_examples=examples, suppress_health_check=[HealthCheck.too_slow], print_blob=True
    )
settings.load_profile("project")

# Programs under test must not inherit output settings of the developer's shell, or the screen that readline sets.
for name in ("PYTHONUNBUFFERED", "FORCE_COLOR", "PY_COLORS", "NO_COLOR", "GITHUB_ACTIONS", "COLUMNS", "LINES"):
    os.environ.pop(name, None)

# Messages suggest `agenttool` only if the shell finds the program of this environment.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"

# Tests must neither read nor write the settings and the trust of the developer.
_config_home = tempfile.TemporaryDirectory(prefix="agenttool-config-")
os.environ["XDG_CONFIG_HOME"] = _config_home.name

# Tests start many interpreters, and rewriting the assertions of all test modules takes half of the collection.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell ignores SIGINT in background jobs; programs under test must receive it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

quick_uvicorn.install()
warm_start.install()

pytest_plugins = ["requirement_marks"]

BOUND_S = 180
"""The time limit of a test in seconds; slow tests have ten times as long."""
STANDARD = Path(__file__).resolve().parent / "data" / "standard"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes golden files instead of comparing with them."""
    parser.addoption("--update-golden", action="store_true", help="write golden files of tests instead of comparing")


def _bound_of(item: pytest.Item) -> int:
    is_long = any(item.get_closest_marker(name) for name in ("slow", "soak", "property"))
    return BOUND_S * (10 if is_long else 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start two workers more than there are cores: many tests wait for processes, leases and time limits."""
    return (os.cpu_count() or 1) + 2


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the property tests, so that `make soak` finds them; let each worker begin with its share of slow tests."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("property")
    slow = [item for item in items if item.get_closest_marker("slow")]
    quick = [item for item in items if not item.get_closest_marker("slow")]
    workers = getattr(config, "workerinput", {}).get("workercount", 1)  # each gets an equal part of the list first
    shares = [each[len(each) * at // workers : len(each) * (at + 1) // workers] for at in range(workers) for each in (slow, quick)]  # fmt: skip
    items[:] = [item for share in shares for item in share]


def pytest_collection_finish() -> None:
    """Leave the modules of all tests out of later garbage collections, which they would make ten times as long."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _bounded(request: pytest.FixtureRequest) -> Generator[None]:
    """Fail a test that hangs, at the line where it hangs."""

    def give_up(*_: object) -> None:
        pytest.fail("the test exceeded its time limit; the traceback shows what it waits for")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(_bound_of(request.node) + 20)  # after the limit of a coroutine test, which is enforced by its loop
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test in its own event loop; fail it for leftover tasks and unhandled exceptions."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    unhandled, bound_s = [], _bound_of(pyfuncitem)

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        async with asyncio.timeout(bound_s):
            await pyfuncitem.obj(**arguments)
        for _ in range(10):
            await asyncio.sleep(0)  # let canceled tasks end and abandoned generators close
        assert asyncio.all_tasks() == {asyncio.current_task()}, "tasks were left running"

    asyncio.run(bounded())
    gc.collect(1)
    assert unhandled == [], "an exception in the event loop was not handled"
    return True


@pytest.fixture(scope="session")
def serve_app() -> Callable[..., AbstractAsyncContextManager[str]]:
    """Serve an ASGI app over a real socket: `async with serve_app(app) as url`."""

    @asynccontextmanager
    async def serve_app(app: object, port: int = 0, *, lifespan: str = "on") -> AsyncGenerator[str]:
        config = uvicorn.Config(app, port=port, log_config=None, lifespan=lifespan, timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        serving = asyncio.get_running_loop().create_task(server.serve())
        try:
            while not server.started:
                await asyncio.sleep(0)
                if serving.done():
                    raise RuntimeError("the server did not start")
            yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving

    return serve_app


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """Find a port for later use: `free_port()`."""
    return find_free_port


@pytest.fixture(scope="session")
def published_schemas() -> dict[str, Checker]:
    """Compile the 15 published schemas of the standard, by record type."""
    fifteen = list(SCHEMA_FILES.items())[:15]
    return {name: Checker(json.loads((STANDARD / "schemas" / file).read_text())) for name, file in fifteen}


@pytest.fixture(scope="session")
def standard() -> Path:
    """Give the folder with facts of the standard: its schemas, enums, outcomes and examples."""
    return STANDARD
