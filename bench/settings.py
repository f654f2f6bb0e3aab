"""What a run of the measurements was asked for."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How long to measure, and whose `src` is measured as ours."""

    quick: bool = False
    source: Path = Path()
