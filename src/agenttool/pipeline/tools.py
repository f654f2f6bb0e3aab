"""Caches of compiled tools; each tool is compiled on its first use."""

from collections.abc import Mapping

from agenttool.catalog.entry import Entry
from agenttool.hooks.definition import Hook
from agenttool.pipeline.tool import Tool, compile_tool, refuse_unusable
from agenttool.policy.subject import Subject, subject_of
from agenttool.records import complete_interface
from agenttool.scheduler.rate_limits import TokenBucket


class Subjects(dict[Entry, Subject]):
    """The policy subject of each tool."""

    def __missing__(self, entry: Entry) -> Subject:
        """Create the subject from the tool's records; concurrent callers get the same one."""
        tool = entry.tool
        interface = complete_interface(tool.interface)
        found = subject_of(tool.declaration, interface, tool.execution_profile, tool.permission_profile)
        return self.setdefault(entry, found)


class Tools(dict[Entry, Tool]):
    """The compiled tools. A missing one is compiled once."""

    def __init__(self, hooks: tuple[Hook, ...] = (), sources: Mapping[str, TokenBucket] | None = None) -> None:
        """Use the hooks that may apply to tools, and the rate limits of namespaces."""
        super().__init__()
        self.subjects = Subjects()
        self._hooks = hooks
        self._sources = sources or {}

    def __missing__(self, entry: Entry) -> Tool:
        """Compile a tool; concurrent callers get the same one, because it holds its rate limit."""
        source = self._sources.get(entry.tool.declaration.namespace)
        return self.setdefault(entry, compile_tool(entry, self.subjects[entry], self._hooks, source))

    def admit(self, entry: Entry) -> None:
        """Check that a tool can be compiled later.

        Raises:
            ConfigError: its records contradict each other, or a schema in them cannot be used.
        """
        refuse_unusable(entry)
        if entry.tool.classifiers:
            self[entry]  # classifiers are code, so their errors are raised at declaration

    def forget(self, entry: Entry) -> None:
        """Remove a replaced tool; a surface that still has it compiles it again."""
        self.pop(entry, None)
        self.subjects.pop(entry, None)
