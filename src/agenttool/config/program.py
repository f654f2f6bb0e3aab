"""The shell words that start agenttool again, for messages that suggest a command."""

import shlex
import shutil
import sys
from pathlib import Path


def program_name() -> str:
    """Return the shell words that start this program again from here: `agenttool` if the shell finds this one."""
    folder, found = Path(sys.executable).absolute().parent, shutil.which("agenttool")
    if found is not None and Path(found).absolute().parent == folder:
        return "agenttool"
    script = folder / "agenttool"
    if not script.is_file():
        return f"{shlex.quote(sys.executable)} -m agenttool"
    here = Path.cwd()
    return shlex.quote(str(script.relative_to(here) if script.is_relative_to(here) else script))
