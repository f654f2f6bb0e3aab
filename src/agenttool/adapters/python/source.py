"""Python functions as tools: what counts as a tool, the tools of a module, and the source of kind `python`."""

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import cast

from agenttool.adapters.python.declare import FunctionTool, declare_function
from agenttool.adapters.python.execute import FunctionExecutor
from agenttool.adapters.source_settings import folder_of
from agenttool.errors import ConfigError
from agenttool.ports.source import SourceHost, SourceSettings, SourceStatus, SourceTable
from agenttool.ports.surfacing import ProviderState
from agenttool.ports.tool import DeclaredTool
from agenttool.records import Lifecycle
from agenttool.records import replace as replace_record

Tool = DeclaredTool | FunctionTool[..., object] | Callable[..., object]
"""What a program passes as a tool: a decorated function, a plain function, or a tool declared by records."""


def declared(tool: Tool) -> DeclaredTool:
    """Return the records and the executor of a tool.

    Raises:
        ConfigError: it is no tool.
    """
    if isinstance(tool, DeclaredTool):
        return tool
    if isinstance(tool, FunctionTool):
        return tool.declared
    if callable(tool):
        return declare_function(tool, {})
    raise ConfigError(f"not a tool: {tool!r}; decorate a function with @tool")


def checked_objects(provide: Mapping[type, object] | None) -> Mapping[type, object]:
    """Return the objects for injected parameters.

    Raises:
        ConfigError: they are not a mapping from types.
    """
    if provide is None:
        return {}
    name = type(provide).__name__
    if not isinstance(cast("object", provide), Mapping):
        raise ConfigError(f"provide must map types to objects, got a {name}; write provide={{{name}: ...}}")
    return provide


def provided(tool: DeclaredTool, provide: Mapping[type, object]) -> DeclaredTool:
    """Return a tool with the objects for the injected parameters of its function.

    If an object is missing, a tool of a loaded module requires setup. The other tools of the module can be used.

    Raises:
        ConfigError: an object that a tool of the program needs is not provided.
    """
    executor = _injected_executor(tool)
    if executor is None:
        return tool
    try:
        return replace(tool, executor=executor.providing(provide))
    except ConfigError as error:
        if executor.module_objects is None:
            raise
        declaration = replace_record(tool.declaration, lifecycle=Lifecycle.REQUIRES_SETUP)
        return replace(tool, declaration=declaration, setup=str(error))


def _injected_executor(tool: DeclaredTool) -> FunctionExecutor | None:
    """Return the executor of a function with injected parameters."""
    executor = tool.executor
    return executor if isinstance(executor, FunctionExecutor) and executor.signature.injected else None


class PythonSource:
    """Functions of this process as a source: `PythonSource("files", [read_file, write_file])`."""

    def __init__(self, name: str, tools: Iterable[Tool]) -> None:
        """Take the name of the source and its tools.

        Raises:
            ConfigError: one of them is no tool.
        """
        self.name = name
        self._tools = [declared(each) for each in tools]

    async def connect(self, host: SourceHost) -> None:
        """Declare the tools."""
        for each in self._tools:
            host.declare(each)

    def health(self) -> tuple[SourceStatus, ...]:
        """Return that the tools are ready."""
        return (SourceStatus(source=self.name, state=ProviderState.READY),)

    async def close(self) -> None:
        """Do nothing: functions hold no connection."""


def make_sources(settings: Sequence[SourceSettings]) -> tuple[PythonSource, ...]:
    """Return the source of each table; its `module` is `package.module` or `package.module:name`.

    Raises:
        ConfigError: a table is invalid, or its module cannot be imported or holds no tool.
    """
    return tuple(_source(each) for each in settings if isinstance(each, SourceTable))


def _source(table: SourceTable) -> PythonSource:
    with table.locate_errors():
        module = table.members.get("module")
        if table.members.keys() != {"module"} or not isinstance(module, str):
            raise ConfigError('a python source has one setting; write module = "package.module"')
        # The folder of the file, as for other paths; a module of the user is not looked for in any project.
        return PythonSource(table.name, load_tools([module], folder_of(table)))


def load_tools(places: Iterable[str], folder: Path | None = None) -> list[Tool]:
    """Return the tools of `package.module` (all of them) or `package.module:name` (one tool, or a list of tools).

    Modules in `folder` come first; None for the working directory. The variable `provide` of a module has the objects
    for the injected parameters of its tools, as `Runtime.open(provide=...)` has them for a program.

    Raises:
        ConfigError: a module cannot be imported, its `provide` is not a mapping, or a place holds no tool.
    """
    found: dict[int, Tool] = {}
    for place in places:
        name, _, attribute = place.partition(":")
        module = import_module_from(name, folder)
        values: list[object] = [getattr(module, attribute, None)] if attribute else list(vars(module).values())
        tools = [each for value in values for each in _tools_in(value)]
        if not tools:
            raise ConfigError(f"{place!r} holds no tool; decorate a function with @tool, and name its module")
        for each in tools:
            found.setdefault(id(each), _loaded(each, module))
    return list(found.values())


def _loaded(tool: Tool, module: ModuleType) -> Tool:
    """Return a tool with the objects that its module provides."""
    made = declared(tool)
    executor = _injected_executor(made)
    if executor is None:
        return tool
    return replace(made, executor=executor.loaded_with(checked_objects(getattr(module, "provide", None))))


def import_module_from(name: str, folder: Path | None = None) -> ModuleType:
    """Import a module by name; a folder, or else the working directory, comes first on the path.

    Raises:
        ConfigError: the import fails.
    """
    sys.path.insert(0, str(folder or Path.cwd()))
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        is_missing = isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}.")
        is_file = name.endswith(".py")
        advice = _import_advice(name, folder or Path.cwd()) if is_missing or is_file else "correct it"
        raise ConfigError(f"module {name!r} cannot be imported: {reason}; {advice}") from error


def _import_advice(name: str, folder: Path) -> str:
    """Return what to write instead of the name of a module that was not found."""
    if name.endswith(".py"):
        return f"write {'.'.join(Path(name).with_suffix('').parts)}, not the name of its file"
    known = [*(each.stem for each in folder.glob("*.py")), *(each.parent.name for each in folder.glob("*/__init__.py"))]
    close = get_close_matches(name, known, 1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there is no {name.replace('.', '/')}.py in {folder}; correct the name, or change to its folder"


def _tools_in(value: object) -> Iterator[Tool]:
    """Yield a value that is a tool, or the tools in a list or dictionary."""
    members = cast("dict[object, object]", value).values() if isinstance(value, dict) else value
    for each in cast("Iterable[object]", members) if isinstance(value, list | tuple | dict) else (value,):
        if isinstance(each, FunctionTool | DeclaredTool):
            yield cast("Tool", each)
