"""Settings files of projects that the user trusts, as after `agenttool trust`."""

import json
import subprocess
import sys
from pathlib import Path

from agenttool.config.reader import digest_of_settings
from agenttool.config.trust import trust_file


def write_settings(file: Path, text: str) -> None:
    """Write a settings file, and trust it."""
    file.write_text(text)
    trust_file(file, digest_of_settings(text.encode()))


def auditor_key(folder):
    """Add a key to the store of a folder that may read what waits; give its header."""
    words = ["-m", "agenttool", "keys", "add", "user:auditor", "--role", "auditor", "--json"]
    made = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=True)
    return {"authorization": f"Bearer {json.loads(made.stdout)['key']}"}
