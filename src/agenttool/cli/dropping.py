"""What cannot be written is let go of."""

import os
import sys
from contextlib import suppress


def drop_output() -> None:
    """Let go of what could not be written, or Python tries once more at its exit, and complains."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
