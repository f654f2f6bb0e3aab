"""Settings files of projects that the user trusts, as after `agenttool trust`."""

from pathlib import Path

from agenttool.config.reader import digest_of_settings
from agenttool.config.trust import trust_file


def write_settings(file: Path, text: str) -> None:
    """Write a settings file, and trust it."""
    file.write_text(text)
    trust_file(file, digest_of_settings(text.encode()))
