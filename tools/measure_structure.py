"""Print the figures by which the readability of `src` is judged: sizes, import chain, shared names, files per call.

Run it with `python tools/measure_structure.py`; it needs nothing but the package itself.
"""

import ast
import asyncio
import statistics
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path
from types import FrameType

SOURCE = Path(__file__).parent.parent / "src" / "agenttool"
MODULES = sorted(SOURCE.rglob("*.py"))
SHORT = 60
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def module_name(path: Path) -> str:
    """Return the dotted name of a module."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> set[str]:
    """Return the modules of this package that a module imports at its top level."""
    names = {module_name(each) for each in MODULES}
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & names
            found |= submodules or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return (found & names) - {module_name(path)}


def longest_chain() -> int:
    """Return the number of modules in the longest chain of imports."""
    graph = {module_name(path): imports_of(path) - {"agenttool"} for path in MODULES}

    @cache
    def depth(name: str) -> int:
        return 1 + max((depth(each) for each in graph[name]), default=0)

    return max(map(depth, graph))


def shared_class_names() -> list[str]:
    """Return the names that two or more classes of the package have."""
    names = Counter(
        node.name
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    return sorted(name for name, count in names.items() if count > 1)


def count_tokens(path: Path) -> int:
    """Return the number of Python tokens in a module, without comments, line ends and indentation."""
    with path.open("rb") as source:
        return sum(token.type not in LAYOUT for token in tokenize.tokenize(source.readline))


class FileTrace:
    """Records which files of the package run, in order. `with trace:` records what runs inside."""

    def __init__(self) -> None:
        self._entered: list[str] = []

    def __enter__(self) -> None:
        self._entered.clear()
        sys.setprofile(self._record)
        threading.setprofile(self._record)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _record(self, frame: FrameType, event: str, arg: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and str(SOURCE) in file and (not self._entered or self._entered[-1] != file):
            self._entered.append(file)

    def __str__(self) -> str:
        return f"{len(set(self._entered)):6} {len(self._entered) - 1:8}"


async def traced_calls() -> dict[str, str]:
    """Return the files and switches of the second call of each shape. A switch is a change of the running file."""
    from agenttool import Runtime, tool  # noqa: PLC0415 -- loaded for these figures only

    @tool
    def pay(to: str, amount: int) -> str:
        """Pay a person."""
        return f"paid {amount} to {to}"

    @tool(namespace="math", read_only=True, concurrency_safe=True, open_world=False)
    async def add(a: int, b: int = 1) -> int:
        """Add two whole numbers."""
        return a + b

    async def second_call(store: str, name: str, arguments: str) -> str:
        trace = FileTrace()
        async with Runtime.open(store=store, tools=[pay, add], approve=lambda _: "allow") as rt:
            await rt.call(name, arguments)
            with trace:
                await rt.call(name, arguments)
        return str(trace)

    with tempfile.TemporaryDirectory() as folder:
        return {
            "README's call, answered by a function": await second_call("memory", "pay", '{"to": "ada", "amount": 5}'),
            "read-only tool, memory": await second_call("memory", "add", '{"a": 41}'),
            "read-only tool, SQLite": await second_call(f"sqlite:{folder}/calls.db", "add", '{"a": 41}'),
        }


def main() -> None:
    """Print the figures."""
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES]
    print(f"tokens in src                      {sum(map(count_tokens, MODULES)):7}")
    print(f"lines in src                       {sum(lengths):7}")
    print(f"Python files in src                {len(lengths):7}")
    print(f"median lines of a file             {statistics.median(lengths):7.0f}")
    print(f"files under {SHORT} lines               {sum(length < SHORT for length in lengths):7}")
    print(f"longest import chain               {longest_chain():7}")
    print(f"class names used more than once    {len(shared_class_names()):7}  {', '.join(shared_class_names())}")
    print("\nsecond call of a shape                    files switches")
    for shape, figures in asyncio.run(traced_calls()).items():
        print(f"{shape:40} {figures}")


if __name__ == "__main__":
    main()
