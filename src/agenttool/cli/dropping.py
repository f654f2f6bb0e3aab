"""What cannot be written is let go of."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TextIO


def drop_output(stream: TextIO | None = None) -> None:
    """Let go of what could not be written, or Python tries once more at its exit, and complains."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, (stream or sys.stdout).fileno())
        os.close(nowhere)


@contextmanager
def complaining() -> Generator[None]:
    """Say something on the error output, if that can be written to; the exit code tells the rest."""
    try:
        yield
    except OSError:
        drop_output(sys.stderr)
