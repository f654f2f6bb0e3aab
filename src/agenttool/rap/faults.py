"""What an author's code raised, told in logs: enough to find the line, and nothing of what the call was about."""

from pathlib import Path
from traceback import walk_tb

_MOST = 4
_OURS = "agenttool."


def told_of(error: Exception) -> str:
    """Name an error and the last lines that it came through; what it says itself may quote arguments or secrets."""
    steps = [
        f"{Path(frame.f_code.co_filename).name}:{line} in {frame.f_code.co_name}"
        for frame, line in walk_tb(error.__traceback__)
        if not str(frame.f_globals.get("__name__")).startswith(_OURS)
    ]
    return " ".join((type(error).__name__, *(["at", ", ".join(steps[-_MOST:])] if steps else [])))
