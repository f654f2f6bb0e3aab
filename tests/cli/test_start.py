import signal
import subprocess
import sys

STOPPED_WHILE_LOADING = """
import builtins, os, signal
load = builtins.__import__
def interrupted(name, *rest):
    if name == "typer":
        os.kill(os.getpid(), signal.SIGINT)
    return load(name, *rest)
builtins.__import__ = interrupted
{first}
from agenttool.cli.start import main
main()
"""


def start(first=""):
    code = STOPPED_WHILE_LOADING.format(first=first)
    return subprocess.run([sys.executable, "-s", "-c", code, "--version"], capture_output=True, text=True, check=False)


def test_an_interrupt_while_loading_prints_nothing():
    ended = start()
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


def test_an_ignored_interrupt_stays_ignored():
    ended = start("signal.signal(signal.SIGINT, signal.SIG_IGN)")
    assert (ended.returncode, ended.stdout.startswith("agenttool ")) == (0, True)
