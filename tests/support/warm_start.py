"""Start Python programs of tests from a process that has the package loaded already.

Most tests of the command line, of crashes and of servers start processes, and importing the package takes most of the
time of a start. `WarmPopen` asks a server, one for each test process, to fork a child that runs the program. The child
is a real process: it has its own pid, signals and streams, and it is a child of the test process, which waits for it.

`python -m agenttool …`, `python SCRIPT.py …` and `python -c …` start warm, on Linux, without special options and with
the variables of Python unchanged. A test of what a start loads, or of its memory, passes an option of Python to start
cold: `python -s …`.
"""

import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
import threading
import types
from pathlib import Path

_USUAL = [True, None, None, None, -1]
"""The usual values of restore_signals, gid, gids, uid and umask."""

_PR_SET_CHILD_SUBREAPER = 36
_LENGTH = 8


class WarmPopen(subprocess.Popen):
    """A process that starts warm if it can."""

    def _execute_child(self, args, *options):  # the signature of Python 3.11 to 3.13
        executable, preexec_fn, _, pass_fds, cwd, env, _, _, shell, *rest = options
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *others, start_new_session, process_group = rest
        is_plain = not (executable or preexec_fn or pass_fds or shell) and (others, process_group) == (_USUAL, -1)
        words = [] if isinstance(args, str | bytes | os.PathLike) else [os.fspath(each) for each in args]
        variables = dict(os.environ if env is None else env)
        if not is_plain or not _can_start_warm(words, variables):
            super()._execute_child(args, *options)
            return
        streams = [given if given != -1 else usual for given, usual in ((p2cread, 0), (c2pwrite, 1), (errwrite, 2))]
        folder = str(Path.cwd()) if cwd is None else os.fspath(cwd)
        self.pid = _server().start((words[1:], folder, variables, start_new_session), streams)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


def _can_start_warm(words, variables):
    if sys.platform != "linux" or words[:1] != [sys.executable]:
        return False
    fixed = {name for name in (*os.environ, *variables) if name.startswith(("PYTHON", "LC_", "LANG"))}
    if any(variables.get(name) != _START_VARIABLES.get(name) for name in fixed):
        return False
    return words[1:3] == ["-m", "agenttool"] or words[1:2] == ["-c"] or (words[1:2] != [] and words[1].endswith(".py"))


_START_VARIABLES = {}
"""The environment at the start of the tests; the server has it too."""


def install():
    """Let `subprocess` start processes warm from now on."""
    _START_VARIABLES.update(os.environ)
    subprocess.Popen = WarmPopen


class WarmServer:
    """The process that children are forked from, seen from the test process."""

    def __init__(self):
        here, there = socket.socketpair()
        with there:
            command = [sys.executable, __file__, str(there.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[there.fileno()], env=_START_VARIABLES)
        self._socket = here
        self._prctl = ctypes.CDLL(None).prctl
        self._lock = threading.Lock()
        atexit.register(self.close)

    def start(self, what, streams):
        """Run a program in a child of this process; return its pid."""
        request = json.dumps(what).encode()
        with self._lock:  # threads of a test may start processes at the same time
            self._prctl(_PR_SET_CHILD_SUBREAPER, 1)  # the child is an orphan at once, and becomes ours
            try:
                socket.send_fds(self._socket, [len(request).to_bytes(_LENGTH)], streams)
                self._socket.sendall(request)
                return int.from_bytes(_received(self._socket, _LENGTH))
            finally:
                self._prctl(_PR_SET_CHILD_SUBREAPER, 0)

    def close(self):
        """End the process."""
        self._socket.close()
        self._process.wait()


@functools.cache
def _server():
    return WarmServer()


def _received(connection, size):
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def _load_everything():
    import agenttool  # noqa: PLC0415 -- only the server loads it

    for module in pkgutil.walk_packages(agenttool.__path__, "agenttool."):
        # numpy, which the embedding loads, starts threads; a process with threads cannot be forked.
        if not module.name.endswith("__main__") and "embedding" not in module.name:
            importlib.import_module(module.name)
    importlib.import_module("quick_uvicorn").install()  # it stands beside this file
    gc.freeze()
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a module starts a thread; leave it out above"


def _load_sdks(words, folder):
    """Load the libraries of model providers that a script uses; that takes most of the time of such a script."""
    script = Path(folder, words[0])
    text = script.read_text() if script.suffix == ".py" and script.exists() else ""
    for name in ("anthropic", "google.genai", "openai"):
        if name.rpartition(".")[2] in text:
            importlib.import_module(name)
            gc.freeze()


def _serve(connection):
    """Fork a child for each request; return the request in the child, and none in the server at its end."""
    while True:
        header, streams, *_ = socket.recv_fds(connection, _LENGTH, 3)
        if not header:
            return None
        request = json.loads(_received(connection, int.from_bytes(header)))
        _load_sdks(*request[:2])
        reader, writer = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid == 0:
                os.close(reader)
                os.close(writer)
                connection.close()
                _adopt(streams)
                return request
            os.write(writer, pid.to_bytes(_LENGTH))
            os._exit(0)
        os.close(writer)
        os.waitpid(between, 0)
        connection.sendall(os.read(reader, _LENGTH))
        os.close(reader)
        for each in streams:
            os.close(each)


def _adopt(streams):
    """Make these descriptors the standard streams."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in streams:
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in ((0, "r"), (1, "w"), (2, "w")))
    sys.stderr.reconfigure(errors="backslashreplace", line_buffering=True)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def main():
    """Serve; in a child, run its program."""
    _load_everything()
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    if request is None:
        return
    words, folder, variables, start_new_session = request
    if start_new_session:
        os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    try:
        _run(words, folder)
    except SystemExit as ending:
        _exit(ending.code)
    _exit(0)


def _run(words, folder):
    """Run a program as Python itself would."""
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = folder
        runpy.run_module("agenttool", run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path[0] = ""
        program = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), vars(program))  # noqa: S102 -- as Python itself
    else:
        sys.argv = words
        sys.path[0] = str(Path(words[0]).resolve().parent)
        runpy.run_path(str(Path(words[0]).absolute()), run_name="__main__")


def _exit(code):
    """End as Python does, but leave out what takes most of the time: to delete every object of the loaded package."""
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.exit(code)  # Python reports a stream that cannot be written
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    main()
