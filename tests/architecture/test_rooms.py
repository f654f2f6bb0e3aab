"""Promises about the code itself: who may know what, and where a test belongs."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "agenttool"
MODULES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))

# Folders of tests about the whole, which mirror no module.
APART = {
    "architecture",
    "asks",
    "durable",
    "examples",
    "interop",
    "laws",
    "mcp_server",
    "ports",
    "rubbish",
    "scenarios",
    "wire",
}

# The libraries that only some rooms may know; everyone else goes through those rooms.
KNOWS = {
    "msgspec": {
        "records/record.py",
        "codec/",
        "config/table.py",
        "schema/record_schemas.py",
        "adapters/rap/wire.py",
        "rap/",
        "results/",
        "stores/",
        "client/",
        "server/",
        "testing/",
        "conformance/",
        "cli/",
    },
    "pydantic": {"schema/signature/", "adapters/mcp/", "mcp/"},  # The types of the MCP SDK are its models.
    "griffe": {"schema/signature/"},
    "jsonschema_rs": {"schema/"},
    "rfc8785": {"codec/encode.py"},
    "rich": {"cli/"},
    "typer": {"cli/"},
    "sqlite3": {
        "conformance/validate/",
        "stores/sqlite/",
        "rap/store.py",
        "rap/tables.py",
        "adapters/embedding/vectors.py",
    },
    "httptools": {"http/client.py"},
    "starlette": {"console/", "http/", "rap/", "mcp/", "server/", "adapters/rap/", "cli/http_server.py"},
    "uvicorn": {"adapters/rap/listener.py", "cli/", "server/"},
    "httpx2": {"adapters/mcp/"},
    "yaml": {"adapters/openapi/document.py"},
    "obstore": {"stores/payloads.py"},
    "tantivy": {"catalog/search/"},
    "numpy": {"adapters/embedding/"},
    "onnxruntime": {"adapters/embedding/"},
    "tokenizers": {"adapters/embedding/"},
}


@cache
def parsed(path):
    """The docstring of a module, the libraries that it imports, and the names of its classes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports, classes = set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports.add(node.module)
        elif isinstance(node, ast.ClassDef):
            classes.append(node.name)
    return ast.get_docstring(tree), {name.split(".")[0] for name in imports}, classes


@pytest.mark.parametrize("library", KNOWS)
def test_a_library_is_known_only_to_its_room(library):
    for path in MODULES:
        place = path.relative_to(SOURCE).as_posix()
        if library in parsed(path)[1]:
            assert any(place.startswith(room) for room in KNOWS[library]), f"{place} imports {library}"


def test_no_module_is_a_junk_drawer():
    forbidden = {"utils", "helpers", "common", "misc", "manager", "base", "v2", "new"}
    assert not [path for path in MODULES if forbidden & set(path.relative_to(ROOT).with_suffix("").parts)]


def test_no_module_is_longer_than_one_concept_needs():
    long = {path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {path: lines for path, lines in long.items() if lines > 600} == {}


# Class names that two modules have. Rename one of each pair and delete the name here; add none.
SHARED_CLASS_NAMES = set()


def test_no_two_classes_have_one_name():
    names = Counter(name for path in MODULES for name in parsed(path)[2])
    assert {name for name, count in names.items() if count > 1} <= SHARED_CLASS_NAMES


def test_every_module_says_what_it_is_for():
    assert [path for path in MODULES if not parsed(path)[0]] == []


def test_every_test_file_mirrors_a_module():
    for path in TESTS:
        room = path.parent.relative_to(ROOT / "tests")
        if room.parts and room.parts[0] in APART:
            continue
        module = SOURCE / room / path.name.removeprefix("test_")
        assert module.exists() or module.with_suffix("").is_dir(), f"{path.relative_to(ROOT)} mirrors no module"


def test_every_suppression_in_the_source_gives_its_reason():
    pattern = re.compile(r"#\s*(noqa|type: ignore|pyright: ignore)(?!.*--)")
    silent = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in MODULES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert silent == []


def test_the_package_imports_nothing_heavy():
    loaded = subprocess.run(
        [sys.executable, "-s", "-c", "import sys, agenttool; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert not {
        "pydantic",
        "obstore",
        "sqlite3",
        "mcp",
        "httpx",
        "starlette",
        "sqlalchemy",
        "hypothesis",
        "pytest",
        "tantivy",
        "numpy",
    } & set(loaded)


def test_asking_for_help_loads_only_the_terminal_libraries():
    script = "import sys; from agenttool.cli.main import app; app(['--help'], standalone_mode=False); print('|', *sys.modules)"
    out = subprocess.run([sys.executable, "-s", "-c", script], capture_output=True, text=True, check=True).stdout
    loaded = out.rsplit("|", 1)[1].split()
    assert not {"msgspec", "jsonschema_rs", "sqlite3", "rich.markdown", "importlib.metadata"} & set(loaded)
