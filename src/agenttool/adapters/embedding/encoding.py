"""Texts as vectors of length one, so that a product of two is how alike they are."""
# pyright: basic
# The library of an optional extra may be missing where types are checked.

from collections.abc import Callable

import numpy as np

Encode = Callable[[list[str]], np.ndarray]
"""Gives one row of length one for each text."""


def of_length_one(rows: np.ndarray) -> np.ndarray:
    """Stretch every row to length one; what has no length means nothing.

    Raises:
        ValueError: something is no number.
    """
    lengths = np.linalg.norm(rows.astype(np.float32), axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise ValueError("it gives what is no number")
    return rows.astype(np.float32) / np.maximum(lengths, 1e-9)
