"""Write `schemas/` anew from the records."""

import json
from pathlib import Path

from agenttool.schema.record_schemas import SCHEMA_FILES, schema_of

TARGET = Path(__file__).parent.parent / "schemas"


def spelled(name: str) -> str:
    """Spell the schema of one object as it stands in its file."""
    return json.dumps(schema_of(name), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write every file, and remove those that no object has any more."""
    TARGET.mkdir(exist_ok=True)
    for stale in set(TARGET.glob("*.json")) - {TARGET / file for file in SCHEMA_FILES.values()}:
        stale.unlink()
    for name, file in SCHEMA_FILES.items():
        (TARGET / file).write_text(spelled(name), encoding="utf-8")
    print(f"{len(SCHEMA_FILES)} schemas")


if __name__ == "__main__":
    main()
