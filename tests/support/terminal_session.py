"""A command at a terminal, for tests that type answers."""

import os
import pty
import select
import signal
import subprocess
import sys

from waiting import wait_until

PROGRAM = [sys.executable, "-m", "agenttool"]


def at_terminal(folder, words, script, **env):
    """Run a command at a terminal, and type each answer once its words have appeared; give all that was shown."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, *words], cwd=folder, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        env={**os.environ, "TERM": "dumb", "COLUMNS": "80", "EDITOR": "", "VISUAL": "", **env},
    )  # fmt: skip
    os.close(slave)
    shown, searched, left = "", 0, list(script)

    def has_ended():
        nonlocal shown, searched
        if select.select([master], [], [], 0.1)[0]:
            try:
                shown += os.read(master, 65536).decode()
            except OSError:
                return True
        if left and (found := shown.find(left[0][0], searched)) >= 0:
            words, typed = left.pop(0)
            searched = found + len(words)
            if typed is signal.SIGINT:
                process.send_signal(typed)
            else:
                os.write(master, typed.encode())
        return False

    try:
        wait_until(has_ended, pause_s=0)
        return process.wait(timeout=60), shown.replace("\r\n", "\n")
    finally:
        process.kill()
        os.close(master)
