"""MCP servers that others wrote, from npm and PyPI, with calls whose arguments fit their schemas.

They are installed once below `build`, and need no network and no account. `{dir}` in a word or an argument is a fresh
folder with a few files. Most runs use the few servers of `FEW`, which return content of every kind; all of them are
used if the environment has `AGENTTOOL_ALL_MCP_SERVERS`.
"""

import fcntl
import importlib.metadata
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from npm_packages import BUILD, install_packages, node_22

FEW = frozenset({"everything", "debug", "filesystem", "memory", "thinking", "time", "git", "sqlite"})
USES_ALL = "AGENTTOOL_ALL_MCP_SERVERS" in os.environ
_OFFICIAL = "@modelcontextprotocol/server-"
_APPS = (
    *("pdf", "map", "basic-react", "budget-allocator", "cohort-heatmap", "scenario-modeler", "system-monitor"),
    *("threejs", "transcript", "wiki-explorer", "shadertoy", "sheet-music", "customer-segmentation", "debug"),
    *("basic-vanillajs", "video-resource"),
)


@dataclass(frozen=True)
class RealServer:
    """One server.

    Attributes:
        package: its name at npm, or at PyPI if `program` is set.
        calls: tools and arguments.
        is_random: whether results have other values each time; then only their types are compared.
    """

    name: str
    package: str
    args: tuple[str, ...] = ()
    program: str | None = None
    calls: tuple[tuple[str, dict], ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    is_random: bool = False

    def command(self) -> list[str]:
        """Return the words that start it, after its installation."""
        if self.program is not None:
            return [str(_python_folder(self.package, self.requires) / "bin" / self.program), *self.args]
        folder = _node_folder() / self.package
        described = json.loads((folder / "package.json").read_text())
        bins = described.get("bin")
        main = bins if isinstance(bins, str) else next(iter(bins.values()))
        return [str(node_22()), str(folder / main), *self.args]

    def environment(self, folder: Path) -> dict[str, str]:
        """Return its variables."""
        filled = {key: value.replace("{dir}", str(folder)) for key, value in self.env.items()}
        # Some list the members of a Python set, whose order differs between processes.
        return {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONHASHSEED": "0", **filled}


ENTITY = {"name": "Ada", "entityType": "person", "observations": ["likes tea\u200b", "\x1b[1mbold"]}
GRAPH = (
    ("create_entities", {"entities": [ENTITY]}),
    ("read_graph", {}),
    ("search_nodes", {"query": "tea"}),
    ("open_nodes", {"names": ["Ada", "nobody"]}),
    ("delete_entities", {"entityNames": ["Ada"]}),
)
SERVERS = (
    *(
        RealServer(
            each,
            _OFFICIAL + each,
            ("--stdio",),
            calls={
                "debug": tuple(
                    ("debug-tool", {"contentType": kind, "includeStructuredContent": True, "includeMeta": True})
                    for kind in ("text", "image", "audio", "resource", "resourceLink", "mixed")
                ),
                "scenario-modeler": (("get-scenario-data", {}),),
                "budget-allocator": (("get-budget-data", {}),),
                "video-resource": (("play_video", {}),),
                "pdf": (("list_pdfs", {}), ("interact", {"viewUUID": "none", "action": "navigate", "page": 1})),
                "map": (("show-map", {"west": 1, "south": 2, "east": 3, "north": 4, "label": "here"}),),
                "threejs": (("learn_threejs", {}), ("show_threejs_scene", {"code": "1 + 1"})),
                "transcript": (("transcribe", {}),),
                "wiki-explorer": (("get-first-degree-links", {"url": "https://wiki.invalid/wiki/None"}),),
                "shadertoy": (("render-shadertoy", {"fragmentShader": "void mainImage() {}"}),),
                "sheet-music": (
                    ("play-sheet-music", {"abcNotation": "X:1\nK:C\nCDEF|\n"}),
                    ("play-sheet-music", {"abcNotation": ""}),
                ),
                "customer-segmentation": (("get-customer-data", {"segment": "SMB"}),),
                "cohort-heatmap": (("get-cohort-data", {"metric": "revenue", "cohortCount": 3, "maxPeriods": 3}),),
                "system-monitor": (("get-system-info", {}), ("poll-system-stats", {})),
                "basic-react": (("get-time", {}),),
                "basic-vanillajs": (("get-time", {}),),
            }.get(each, ()),
            is_random=each in ("customer-segmentation", "cohort-heatmap", "system-monitor"),
        )
        for each in _APPS
    ),
    RealServer(
        "everything",
        _OFFICIAL + "everything",
        ("stdio",),
        calls=(
            ("echo", {"message": "a\u200bb \x1b[31mred\x1b[0m \u0085"}),
            ("get-annotated-message", {"messageType": "error", "includeImage": True}),
            ("get-resource-links", {"count": 5}),
            ("get-structured-content", {"location": "Chicago"}),
            ("get-sum", {"a": 2, "b": 3.5}),
            ("get-tiny-image", {}),
            ("trigger-long-running-operation", {"duration": 0.2, "steps": 2}),
        ),
    ),
    RealServer(
        "filesystem",
        _OFFICIAL + "filesystem",
        ("{dir}",),
        calls=(
            ("read_text_file", {"path": "{dir}/control.txt"}),
            ("read_media_file", {"path": "{dir}/pixel.png"}),
            ("read_media_file", {"path": "{dir}/a.bin"}),
            ("read_multiple_files", {"paths": ["{dir}/a.txt", "{dir}/none.txt"]}),
            ("list_directory", {"path": "{dir}"}),
            ("directory_tree", {"path": "{dir}"}),
            ("search_files", {"path": "{dir}", "pattern": "*.txt"}),
            ("write_file", {"path": "{dir}/new.txt", "content": "one\r\n\x00\u200btwo"}),
            ("read_text_file", {"path": "{dir}/new.txt"}),
            ("edit_file", {"path": "{dir}/a.txt", "edits": [{"oldText": "hello", "newText": "bye"}], "dryRun": True}),
            ("read_text_file", {"path": "/etc/hostname"}),
            ("list_allowed_directories", {}),
        ),
    ),
    RealServer("memory", _OFFICIAL + "memory", env={"MEMORY_FILE_PATH": "{dir}/memory.json"}, calls=GRAPH),
    RealServer(
        "graph",
        "@itseasy21/mcp-knowledge-graph",
        ("--memory-path", "{dir}/graph.json"),
        calls=(("read_graph", {}), ("search_nodes", {"query": "tea"}), ("open_nodes", {"names": ["Ada"]})),
    ),
    RealServer(
        "thinking",
        _OFFICIAL + "sequential-thinking",
        calls=(
            (
                "sequentialthinking",
                {"thought": "first", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
            ),
        ),
    ),
    RealServer("hello", "mcp-hello-world", calls=(("echo", {"message": "hi"}), ("add", {"a": 1, "b": 2}))),
    RealServer(
        "commands",
        "mcp-server-commands",
        calls=(
            ("run_command", {"command": "printf 'a\\033[1mb\\001'"}),
            ("run_command", {"command": "false"}),
            ("run_command", {"command": "ls", "workdir": "{dir}"}),
        ),
    ),
    RealServer(
        "tasks",
        "@kazuph/mcp-taskmanager",
        env={"TASK_MANAGER_FILE_PATH": "{dir}/tasks.json"},
        calls=(
            ("list_requests", {}),
            ("request_planning", {"originalRequest": "tea", "tasks": [{"title": "boil", "description": "water"}]}),
            ("get_next_task", {"requestId": "req-1"}),
            ("mark_task_done", {"requestId": "req-1", "taskId": "task-1"}),
            ("open_task_details", {"taskId": "none"}),
        ),
    ),
    RealServer(
        "obsidian",
        "mcp-obsidian",
        ("{dir}",),
        calls=(("read_notes", {"paths": ["note.md", "none.md"]}), ("search_notes", {"query": "note"})),
    ),
    RealServer("pdf-reader", "@sylphlab/pdf-reader-mcp", calls=(("read_pdf", {"sources": [{"path": "none.pdf"}]}),)),
    RealServer(
        "runner",
        "mcp-server-code-runner",
        calls=(
            ("run-code", {"code": "printf 'a\\033[1mb'", "languageId": "shellscript"}),
            ("run-code", {"code": "exit 3", "languageId": "shellscript"}),
        ),
    ),
    RealServer("eslint", "@eslint/mcp", calls=(("lint-files", {"filePaths": ["{dir}/a.js"]}),)),
    RealServer(
        "time",
        "mcp-server-time",
        ("--local-timezone", "UTC"),
        "mcp-server-time",
        calls=(("convert_time", {"source_timezone": "Mars", "time": "12:00", "target_timezone": "UTC"}),),
    ),
    RealServer(
        "git",
        "mcp-server-git",
        (),
        "mcp-server-git",
        calls=tuple(
            (f"git_{name}", {"repo_path": "{dir}", **more})
            for name, more in (
                ("status", {}),
                ("log", {"max_count": 1}),
                ("add", {"files": ["a.txt"]}),
                ("diff_staged", {}),
                ("branch", {"branch_type": "local"}),
                ("show", {"revision": "none"}),
            )
        ),
    ),
    RealServer(
        "fetch",
        "mcp-server-fetch",
        ("--ignore-robots-txt",),
        "mcp-server-fetch",
        calls=(("fetch", {"url": "http://127.0.0.1:9/none"}),),
    ),
    RealServer(
        "sympy",
        "mcp-sympy",
        (),
        "mcp-sympy",
        calls=(
            ("sympy_expand", {"expr": "(x + 1)**3"}),
            ("sympy_integrate", {"expr": "sin(x)", "variable": "x"}),
            ("sympy_matrix_determinant", {"matrix": "[[1, 2], [3, 4]]"}),
            ("sympy_expand", {"expr": "(x +"}),
            ("sympy_reals", {}),
        ),
    ),
    RealServer(
        "word",
        "office-word-mcp-server",
        (),
        "word_mcp_server",
        calls=(
            ("create_document", {"filename": "{dir}/w.docx", "title": "A title", "author": "Ada"}),
            ("add_heading", {"filename": "{dir}/w.docx", "text": "One", "level": 1}),
            ("add_paragraph", {"filename": "{dir}/w.docx", "text": "a\u200bb"}),
            ("add_table", {"filename": "{dir}/w.docx", "rows": 1, "cols": 2, "data": [["a", "b"]]}),
            ("get_document_text", {"filename": "{dir}/w.docx"}),
            ("get_document_outline", {"filename": "{dir}/w.docx"}),
            ("get_document_text", {"filename": "{dir}/none.docx"}),
        ),
    ),
    RealServer(
        "excel",
        "excel-mcp-server",
        ("stdio",),
        "excel-mcp-server",
        calls=(
            ("create_workbook", {"path": "{dir}/e.xlsx"}),
            ("write_range", {"path": "{dir}/e.xlsx", "sheet": "Sheet1", "at": "A1", "rows": [[1, "b"], [2.5, None]]}),
            ("read_range", {"path": "{dir}/e.xlsx", "sheet": "Sheet1"}),
            ("describe_workbook", {"path": "{dir}/none.xlsx"}),
        ),
    ),
    RealServer(
        "cli",
        "cli-mcp-server",
        (),
        "cli-mcp-server",
        requires=("mcp<2",),
        env={"ALLOWED_DIR": "{dir}", "ALLOWED_COMMANDS": "ls,cat", "ALLOWED_FLAGS": "all"},
        calls=(
            ("show_security_rules", {}),
            ("run_command", {"command": "cat control.txt"}),
            ("run_command", {"command": "rm a.txt"}),
        ),
    ),
    RealServer(
        "shell",
        "mcp-shell-server",
        (),
        "mcp-shell-server",
        requires=("mcp<2",),
        env={"ALLOW_COMMANDS": "ls,cat"},
        calls=(
            ("shell_execute", {"command": ["cat", "a.txt"], "directory": "{dir}"}),
            ("shell_execute", {"command": ["rm", "a.txt"], "directory": "{dir}"}),
        ),
    ),
    RealServer(
        "sqlite",
        "mcp-server-sqlite",
        ("--db-path", "{dir}/x.db"),
        "mcp-server-sqlite",
        requires=("mcp<2",),
        calls=(
            ("create_table", {"query": "create table t (a int, b text)"}),
            ("write_query", {"query": "insert into t values (1, 'x')"}),
            ("read_query", {"query": "select * from t"}),
            ("list_tables", {}),
            ("describe_table", {"table_name": "t"}),
            ("read_query", {"query": "drop table t"}),
            ("append_insight", {"insight": "one"}),
        ),
    ),
    RealServer(
        "calculator",
        "mcp-server-calculator",
        (),
        "mcp-server-calculator",
        calls=(("calculate", {"expression": "2**64"}), ("calculate", {"expression": "1/"})),
    ),
    RealServer(
        "editor",
        "mcp-text-editor",
        (),
        "mcp-text-editor",
        requires=("mcp<2",),
        # No calls: its paths are in a list of objects named `files`. The gateway cannot read such a path, and asks.
    ),
    RealServer(
        "duckdb",
        "mcp-server-duckdb",
        ("--db-path", "{dir}/d.duckdb"),
        "mcp-server-duckdb",
        requires=("mcp<2",),
        calls=(("query", {"query": "select 42 as answer"}), ("query", {"query": "select broken"})),
    ),
)

USED = SERVERS if USES_ALL else tuple(each for each in SERVERS if each.name in FEW)


def make_folder(folder: Path) -> None:
    """Fill a fresh folder with the files that the calls use."""
    (folder / "a.txt").write_text("hello\n")
    (folder / "note.md").write_text("# A note\n")
    (folder / "control.txt").write_bytes(b"tab\there\r\nesc \x1b[1mbold\x1b[0m nul \x00 zero-width \xe2\x80\x8b end")
    (folder / "pixel.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    (folder / "a.bin").write_bytes(b"just text")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True, env=environment)


def _node_folder() -> Path:
    packages = sorted({each.package for each in USED if each.program is None})
    return install_packages("mcp-real-npm" if USES_ALL else "mcp-real-npm-few", *packages)


def sdk_everything() -> Path:
    """Return the folder of the package `mcp_everything_server`, which the source archive of the installed SDK has."""
    version = importlib.metadata.version("mcp")
    place = BUILD / "mcp-sdk-source"
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        archive = place / f"mcp-{version}.tar.gz"
        if not archive.exists():
            words = ["download", "-q", "--no-deps", "--no-binary", "mcp", f"mcp=={version}", "-d", place]
            subprocess.run([sys.executable, "-m", "pip", *words], check=True)
        folder = place / f"mcp-{version}" / "examples" / "servers" / "everything-server"
        if not folder.exists():
            with tarfile.open(archive) as packed:
                packed.extractall(place, filter="data")
    return folder


def _python_folder(package: str, requires: tuple[str, ...]) -> Path:
    """Return an environment that has one package, because servers need different versions of the SDK."""
    folder = BUILD / "mcp-real-python" / package
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            subprocess.run([folder / "bin" / "pip", "install", "-q", package, *requires], check=True)
            (folder / "done").touch()
    return folder
