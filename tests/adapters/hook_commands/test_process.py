import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from agenttool.adapters.hook_commands import process
from agenttool.adapters.hook_commands.process import MAX_BYTES, Program, run_program

SHELL = ("/bin/sh", "-c")


def program(folder, script, *words, argv=SHELL, **environment):
    return Program(
        argv=(*argv, script, *words), folder=str(folder), environment={"PATH": "/usr/bin:/bin", **environment}
    )


def is_alive(pid):
    """Return whether a process still does anything; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(claim):
    for _ in range(3000):
        if claim():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")


async def gone(*pids):
    await until(lambda: not any(is_alive(pid) for pid in pids))


async def started(file):
    """Wait until a program has written down its pids, and give them."""
    await until(lambda: file.exists() and file.read_text().endswith("\n"))
    return [int(word) for word in file.read_text().split()]


def open_files():
    return len([*Path("/proc/self/fd").iterdir()])


async def test_a_program_gets_its_input_and_gives_its_two_outputs_and_its_code(tmp_path):
    ended = await run_program(program(tmp_path, "cat; echo oops >&2; pwd >&2; exit 3"), b"question")
    assert (ended.code, ended.out) == (3, b"question")
    assert ended.err.decode().split() == ["oops", str(tmp_path)]


@pytest.mark.parametrize("given", [b"x" * (4 << 20), b""], ids=["huge", "empty"])
async def test_a_program_need_not_read_its_input(tmp_path, given):
    ended = await run_program(program(tmp_path, "echo done"), given)
    assert (ended.code, ended.out) == (0, b"done\n")


async def test_the_environment_holds_what_was_given_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTTOOL_TEST_SECRET", "hunter2")
    ended = await run_program(Program(argv=("/usr/bin/env",), folder="/", environment={"MODE": "strict"}), b"")
    assert ended.out == b"MODE=strict\n"


async def test_a_program_that_kills_itself_is_reported_by_its_signal(tmp_path):
    assert (await run_program(program(tmp_path, "kill -SEGV $$"), b"")).code == -signal.SIGSEGV


@pytest.mark.parametrize("name", ["stdout", "stderr"])
async def test_a_program_that_writes_without_end_is_stopped(tmp_path, name):
    redirect = "" if name == "stdout" else ">&2"
    with pytest.raises(ChildProcessError, match=f"more than {MAX_BYTES} bytes to {name}"):
        await run_program(program(tmp_path, f"echo $$ > pid; exec yes {redirect}"), b"")
    await gone(int((tmp_path / "pid").read_text()))


async def test_just_as_much_as_allowed_is_read_to_the_last_byte(tmp_path):
    ended = await run_program(
        program(tmp_path, f"head -c {MAX_BYTES} /dev/zero; head -c {MAX_BYTES} /dev/zero >&2"), b""
    )
    assert (len(ended.out), len(ended.err), ended.code) == (MAX_BYTES, MAX_BYTES, 0)


async def test_what_a_program_leaves_behind_ends_with_it_and_holds_up_no_call(tmp_path):
    ended = await run_program(program(tmp_path, "sleep 600 & echo $!"), b"")
    await gone(int(ended.out))


async def test_a_process_that_escaped_with_the_pipes_holds_up_no_call(tmp_path):
    script = "setsid sh -c 'echo $$ > pid; exec sleep 600' & while [ ! -s pid ]; do sleep 0.01; done; echo done"
    try:
        assert (await run_program(program(tmp_path, script), b"")).out == b"done\n"
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("manner", ["polite", "deaf"])
async def test_a_canceled_program_ends_with_all_its_children(tmp_path, monkeypatch, manner):
    monkeypatch.setattr(process, "GRACE_S", 0.05 if manner == "deaf" else 30)
    habit = "trap '' TERM; " if manner == "deaf" else "trap 'echo bye > last; exit 0' TERM; "
    child = "sh -c 'trap \"\" TERM; echo $$ > inner; sleep 600 & wait'"
    script = f"{habit}{child} & sleep 600 & echo $$ $! > pids; wait; wait; wait"
    running = asyncio.ensure_future(run_program(program(tmp_path, script), b""))
    pids = [*await started(tmp_path / "pids"), *await started(tmp_path / "inner")]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await gone(*pids)
    assert (tmp_path / "last").exists() is (manner == "polite")


async def test_a_run_that_is_closed_without_time_to_wait_kills_at_once(tmp_path):
    work = run_program(program(tmp_path, "trap '' TERM; echo $$ > pid; sleep 600 & wait"), b"")
    work.send(None)
    (pid,) = await started(tmp_path / "pid")
    work.close()
    await gone(pid)


async def test_nothing_stays_open_after_a_run(tmp_path):
    await run_program(program(tmp_path, "true"), b"")
    gc.collect()
    before = open_files()
    for script in ("true", "exit 1", "kill -9 $$", "exec yes"):
        with suppress(ChildProcessError):
            await run_program(program(tmp_path, script), b"x")
    with pytest.raises(FileNotFoundError):
        await run_program(program(tmp_path, "", argv=("/nowhere",)), b"x")
    gc.collect()
    assert open_files() == before


def test_an_unknown_exit_status_is_a_failure(tmp_path):
    script = """
        import asyncio, signal
        from agenttool.adapters.hook_commands.process import Program, run_program
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            asyncio.run(run_program(Program(argv=("/bin/sh", "-c", "sleep 0.2; exit 3"), folder="/", environment={}), b""))
        except ChildProcessError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert "its exit status is unknown" in done.stdout
