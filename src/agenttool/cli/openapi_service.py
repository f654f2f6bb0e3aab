"""The trial of a source that `agenttool sources add` makes, and its report for an OpenAPI service."""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import urlsplit

from rich.console import RenderableType
from rich.text import Text

from agenttool.adapters.openapi.settings import OpenApiService, read_service
from agenttool.adapters.openapi.shapes import SkippedPart, grouped
from agenttool.catalog.entry import estimate_tokens
from agenttool.cli.client_settings import ImportedServer, source_name
from agenttool.cli.output import indented, print_blocks
from agenttool.errors import AgentToolError
from agenttool.history.printable import printable
from agenttool.ports.source import ReviewedSource, Source, SourceSettings
from agenttool.ports.surfacing import ProviderState
from agenttool.records import Json, JsonObject, ToolDeclaration
from agenttool.runtime import Runtime

if TYPE_CHECKING:  # the packages behind these may not be installed
    from agenttool.adapters.openapi.http import HttpRequest
    from agenttool.adapters.openapi.importer import ImportedDocument

SHOWN_PARTS = 10
"""How many reasons why parts of a document cannot be used are printed; `--json` has all parts."""

_COMMON_LABELS = """
api apis www localhost openapi swagger docs rest raw com org net io json yaml yml spec schema service services index
web http the v version of for and a s official description definition specification githubusercontent jsdelivr unpkg
"""
"""Words of hosts, files and titles that name no service, and hosts that deliver files of others."""

_MAX_TITLE_WORDS = 2


@runtime_checkable
class ServiceSource(Source, ReviewedSource, Protocol):
    """A source that is an OpenAPI service."""

    @property
    def imported(self) -> "ImportedDocument | None":
        """Its document."""
        ...

    def preview(self, tool: str, arguments: JsonObject) -> "HttpRequest":
        """Return the request that a call would send."""
        ...


@dataclass(slots=True)
class ServiceTrial:
    """What an OpenAPI service brings.

    Attributes:
        fault: why it cannot be used; None if it can.
        skipped: parts of the document that cannot be used.
        findings: schemas that are read more loosely than they are written.
        tokens: of all tools; `surface_tokens` is what a model sees at first.
        advice: what to correct in the settings.
        schemes: the kind of each security scheme that the document has.
        unconfigured: the schemes for which the settings have no credential.
        carriers: the headers and other parts of a request that have credentials, with references to them.
    """

    fault: str | None = None
    title: str = ""
    version: str = ""
    tools: int = 0
    excluded: int = 0
    tokens: int = 0
    surface_tokens: int = 0
    skipped: Sequence[SkippedPart] = ()
    findings: Sequence[SkippedPart] = ()
    advice: tuple[str, ...] = ()
    schemes: Mapping[str, str] = field(default_factory=dict[str, str])
    unconfigured: tuple[str, ...] = ()
    carriers: tuple[str, ...] = ()

    def sent_as(self, credential: str, variable: str) -> str:
        """Return what a request has with the value of a variable; empty if the document could not be read."""
        reference = f"${{credentials.{credential}}}"
        return next((each.replace(reference, f"${variable}") for each in self.carriers if reference in each), "")

    def as_json(self, name: str) -> JsonObject:
        """Return the trial for programs."""
        members = {key: value for key, value in asdict(self).items() if key != "carriers"}
        return {"source": name, **members, "skipped": _rows(self.skipped), "findings": _rows(self.findings)}


def open_trial(source: SourceSettings, values: Mapping[str, str]) -> Runtime:
    """Return a runtime with one source, which stores nothing and permits no call."""
    return Runtime.open(sources=[source], store="memory:", credentials=values, search_model="none", approve="deny")


def declared_tools(rt: Runtime, source: str) -> list[ToolDeclaration]:
    """Return the declarations of the tools of a source."""
    declared = (each.tool.declaration for each in rt.inspection.tools())
    return [each for each in declared if each.namespace == source]


def service_name(place: str, title: Callable[[], str]) -> str:
    """Return a name for the service of a document: from its host or its file, or else from its title."""
    parts = urlsplit(place)
    words = (
        (parts.hostname or "").split(".")[::-1] if parts.scheme in ("http", "https") else Path(place).name.split(".")
    )
    found = _naming(words)[:1] or _naming(re.findall(r"[^\W_]+", title()))[:_MAX_TITLE_WORDS] or ["api"]
    return source_name("_".join(found), set())


def _naming(words: Iterable[str]) -> list[str]:
    """Return the words that can name a service, in lower case; versions such as v3 and numbers cannot."""
    common = {"", *_COMMON_LABELS.split()}
    return [each.lower() for each in words if each.lower().rstrip("0123456789") not in common]


def try_service(server: ImportedServer, file: Path, values: Mapping[str, str], timeout_s: float) -> ServiceTrial:
    """Read the document of a service, and return what it brings; no operation is called.

    Raises:
        ConfigError: the settings are invalid.
    """
    logging.getLogger("agenttool").addHandler(logging.NullHandler())  # the report has the faults
    service = read_service(server.name, {**server.members, "timeout_s": timeout_s}, file.resolve().parent)
    unset = dict.fromkeys(server.credentials, "not set yet")  # no operation is called, so no value is sent
    try:
        return asyncio.run(_trial_of(service, {**unset, **values}))
    except AgentToolError as error:
        return ServiceTrial(fault=str(error))


async def _trial_of(service: OpenApiService, values: dict[str, str]) -> ServiceTrial:
    async with open_trial(service, values) as rt:
        source = rt.sources.get(service.name)
        if not isinstance(source, ServiceSource):
            return ServiceTrial(fault="it is not an OpenAPI service")
        if source.health()[0].state is ProviderState.CONNECTING:
            await source.check()
        found = source.imported
        if found is None:
            return ServiceTrial(fault=source.health()[0].fault or "it cannot be read")
        declared = declared_tools(rt, service.name)
        policy = (await rt.surface()).selection_policy or {}
        shown, schemes = policy.get("loaded_tokens"), found.security.schemes
        return ServiceTrial(
            title=found.title,
            version=found.version,
            tools=len(declared),
            excluded=found.excluded,
            tokens=sum(map(estimate_tokens, declared)),
            surface_tokens=shown if isinstance(shown, int) else 0,
            skipped=found.skipped,
            findings=found.findings,
            advice=found.advice,
            schemes={name: each.about for name, each in schemes.items()},
            unconfigured=tuple(name for name in schemes if name not in found.security.configured),
            carriers=(
                *(f"{name}: {value}" for name, value in service.headers.items()),
                *(schemes[name].sent_as(str(value)) for name, value in service.security.items() if name in schemes),
            ),
        )


def unusable_parts(source: ServiceSource) -> JsonObject:
    """Return the parts of the document of a service that cannot be used, for programs."""
    found = source.imported
    if found is None:
        return {}
    return {"skipped": _rows(found.skipped), "findings": _rows(found.findings)}


def _rows(parts: Iterable[SkippedPart]) -> list[Json]:
    return [each._asdict() for each in parts]


def _first_parts(title: RenderableType, parts: Sequence[SkippedPart]) -> list[RenderableType]:
    lines = grouped(parts)
    more = ["--json lists all with their pointers"] if len(parts) > len(lines[:SHOWN_PARTS]) else []
    return [title, *map(indented, [*lines[:SHOWN_PARTS], *more])] if parts else []


def print_trial(server: ImportedServer, trial: ServiceTrial) -> None:
    """Print what a service brings."""
    if trial.fault is not None:
        print_blocks([Text.assemble((server.name, "red"), f": {printable(trial.fault)}")])
        return
    kind = "Swagger" if trial.version.startswith("2") else "OpenAPI"
    tools = f"{trial.tools:,} {'tool' if trial.tools == 1 else 'tools'}"
    blocks: list[RenderableType] = [
        Text.assemble((server.name, "cyan"), printable(f"  {trial.title} ({kind} {trial.version})")),
        f"{tools}, {trial.tokens:,} tokens in all; a model sees {trial.surface_tokens:,} tokens",
    ]
    if trial.excluded:
        blocks.append(f"{trial.excluded:,} operations are left out by include and exclude")
    skipped = Text(f"parts of the document that cannot be used ({len(trial.skipped):,}):", "yellow")
    blocks += _first_parts(skipped, trial.skipped)
    blocks += _first_parts(f"parts of schemas that are not checked ({len(trial.findings):,}):", trial.findings)
    blocks += [Text(printable(each), "yellow") for each in trial.advice]
    for scheme, about in trial.schemes.items():
        missing = f"no credential; the same command with --security {scheme}=VARIABLE adds one"
        blocks.append(f"security {scheme} ({about}): {missing if scheme in trial.unconfigured else 'configured'}")
    print_blocks(blocks)
