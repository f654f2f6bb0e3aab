"""Wait for what another process or thread does. The bound is long, because machines can be busy; it ends hung tests."""

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

BOUND_S = 150

T = TypeVar("T")


def wait_until(look: Callable[[], T], is_wanted: Callable[[T], object] = bool, *, pause_s: float = 0.05) -> T:
    """Call `look` until it returns something that is wanted, and return that."""
    end = time.monotonic() + BOUND_S
    while not is_wanted(seen := look()):
        if time.monotonic() > end:
            pytest.fail(f"what was waited for did not happen in {BOUND_S} s; the last thing seen was {seen!r}")
        time.sleep(pause_s)
    return seen
