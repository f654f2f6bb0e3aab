"""The tools of a runtime, each made ready to run when somebody first asks: of very many, few are ever called."""

from collections.abc import Mapping

from agenttool.catalog.entry import Entry
from agenttool.hooks.definition import Hook
from agenttool.pipeline.tool import Tool, compile_tool, refuse_unusable
from agenttool.policy.subject import Subject, subject_of
from agenttool.records import complete_interface
from agenttool.scheduler.rate_limits import TokenBucket


class Subjects(dict[Entry, Subject]):
    """What rules look at about each tool."""

    def __missing__(self, entry: Entry) -> Subject:
        """Read it from the tool's records; whoever asks at the same time gets the same."""
        tool = entry.tool
        interface = complete_interface(tool.interface)
        found = subject_of(tool.declaration, interface, tool.execution_profile, tool.permission_profile)
        return self.setdefault(entry, found)


class Tools(dict[Entry, Tool]):
    """The tools that were called or shown; asking for another makes it ready, once."""

    def __init__(self, hooks: tuple[Hook, ...] = (), sources: Mapping[str, TokenBucket] | None = None) -> None:
        """Take the hooks that may apply to them, and the rate limits of whole namespaces."""
        super().__init__()
        self.subjects = Subjects()
        self._hooks = hooks
        self._sources = sources or {}

    def __missing__(self, entry: Entry) -> Tool:
        """Make a tool ready; whoever asks at the same time gets the same, for it counts how often it is called."""
        source = self._sources.get(entry.tool.declaration.namespace)
        return self.setdefault(entry, compile_tool(entry, self.subjects[entry], self._hooks, source))

    def admit(self, entry: Entry) -> None:
        """Hold a tool that is being declared to all that it needs to be made ready later.

        Raises:
            ConfigError: its records contradict each other, or a schema in them cannot be used.
        """
        refuse_unusable(entry)
        if entry.tool.classifiers:
            self[entry]  # what no record says may be anything, and is looked at while its author does

    def forget(self, entry: Entry) -> None:
        """Let go of a tool that was replaced; on a surface that still has it, it is made ready once more."""
        self.pop(entry, None)
        self.subjects.pop(entry, None)
