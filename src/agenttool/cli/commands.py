"""The table of commands: their groups, modules, first lines of help, and examples.

This module imports only what `agenttool --help` loads anyway (ADR 0007).
"""

import json
from pathlib import Path

_TABLE = json.loads(Path(__file__).with_name("commands.json").read_text(encoding="utf-8"))

GROUPS: dict[str, dict[str, tuple[str, str]]] = _TABLE["groups"]
"""Group → name → ("module:function", or "module:app" for commands with subcommands; first line of the help).

A test compares the first lines with those of the functions.
"""

COMMANDS = {name: entry for commands in GROUPS.values() for name, entry in commands.items()}

EXAMPLES: dict[str, list[str]] = _TABLE["examples"]
"""Examples by command; the help of each command ends with them, and a test parses them."""
