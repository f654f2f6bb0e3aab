"""Make tools of an OpenAPI document."""

import sys
from pathlib import Path

from agenttool import OpenApiService
from agenttool.adapters.openapi.declare import declare
from agenttool.adapters.openapi.importer import import_document
from agenttool.testing.fakes import scripted_tool
from bench.process import print_cost


def main() -> None:
    """Import one document, with the definitions that a review compares."""
    place = sys.argv[1]
    service = OpenApiService("probe", document=place, server="https://api.example")
    executor = scripted_tool("probe").executor

    def work() -> object:
        imported = import_document(service, Path(place).read_bytes(), place)
        tools = [declare(service, each, executor) for each in imported.tools]
        return imported, tools, imported.definitions()

    print_cost(work)


if __name__ == "__main__":
    main()
