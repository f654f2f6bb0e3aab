"""Print the figures by which the readability of `src` is judged: sizes, import chain, shared names, files per call.

Run it with `python tools/measure_structure.py`; it needs nothing but the package itself.
"""

import ast
import asyncio
import statistics
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import FrameType

SOURCE = Path(__file__).parent.parent / "src" / "agenttool"
MODULES = sorted(SOURCE.rglob("*.py"))
SHORT = 60


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


def files_of_one_call() -> tuple[int, int]:
    """Return how many files the README's call `add({"a": 41})` enters, and how often it goes from one to another."""
    from agenttool import Runtime, tool  # noqa: PLC0415 -- loaded for this figure only

    @tool(namespace="math", read_only=True, concurrency_safe=True, open_world=False)
    async def add(a: int, b: int = 1) -> int:
        """Add two whole numbers."""
        return a + b

    entered: list[str] = []

    def trace(frame: FrameType, event: str, arg: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and str(SOURCE) in file and (not entered or entered[-1] != file):
            entered.append(file)

    async def main() -> None:
        async with Runtime.open(tools=[add]) as rt:
            surface = await rt.surface(scope="turn")
            await rt.call("add", {"a": 41}, surface=surface)
            sys.setprofile(trace)
            await rt.call("add", {"a": 41}, surface=surface)
            sys.setprofile(None)

    asyncio.run(main())
    return len(set(entered)), len(entered) - 1


def main() -> None:
    """Print the figures."""
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES]
    files, hops = files_of_one_call()
    print(f"lines in src                       {sum(lengths):6}")
    print(f"Python files in src                {len(lengths):6}")
    print(f"median lines of a file             {statistics.median(lengths):6.0f}")
    print(f"files under {SHORT} lines               {sum(length < SHORT for length in lengths):6}")
    print(f"longest import chain               {longest_chain():6}")
    print(f"files entered by the README's call {files:6}")
    print(f"hops between files in that call    {hops:6}")
    print(f"class names used more than once    {len(shared_class_names()):6}  {', '.join(shared_class_names())}")


if __name__ == "__main__":
    main()
