"""Where drawings go: a terminal, or plain text for whoever reads it elsewhere."""

import sys
from collections.abc import Iterable
from io import TextIOWrapper
from typing import cast

from rich.console import Console, RenderableType


def draw(renderables: Iterable[RenderableType]) -> None:
    """Print drawings; without a terminal there are no colours, and no blanks at the ends of lines."""
    cast("TextIOWrapper", sys.stdout).reconfigure(errors="backslashreplace")
    console = Console(highlight=False)
    if console.is_terminal:
        for each in renderables:
            console.print(each, crop=False)
        return
    with console.capture() as captured:
        for each in renderables:
            console.print(each, crop=False)
    for line in captured.get().splitlines():
        sys.stdout.write(f"{line.rstrip()}\n")
    sys.stdout.flush()
