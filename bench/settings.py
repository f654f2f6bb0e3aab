"""What a run of the measurements was asked for."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How long to measure, how many calls to let wait, and whose `src` is measured as ours."""

    quick: bool = False
    million: bool = False
    source: Path = Path()
