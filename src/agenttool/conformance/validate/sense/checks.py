"""Which questions are put to which kind of record."""

from collections.abc import Callable, Iterable, Iterator

from agenttool.conformance.validate.finding import Flaw
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.conformance.validate.sense.digests import check_content_digests, check_own_digest
from agenttool.conformance.validate.sense.events import check_event
from agenttool.conformance.validate.sense.hints import check_search_hint
from agenttool.conformance.validate.sense.identity import check_kin, check_own_id
from agenttool.conformance.validate.sense.results import check_result
from agenttool.conformance.validate.sense.schemas import check_examples, check_internal_fields, check_schemas
from agenttool.conformance.validate.sense.secrets import check_credentials, check_example_values
from agenttool.conformance.validate.sense.sequence import check_sequence
from agenttool.conformance.validate.sense.surfaces import check_surface
from agenttool.conformance.validate.sense.times import check_order
from agenttool.conformance.validate.sense.transitions import check_end, check_transitions
from agenttool.conformance.validate.sense.values import check_values
from agenttool.conformance.validate.sense.versions import check_nested_versions, check_version
from agenttool.records import RECORD_TYPES

Check = Callable[[ForeignRecord], Iterable[Flaw]]

_OF_ALL: tuple[Check, ...] = (check_version, check_values, check_own_id, check_own_digest)

_OF_KIND: dict[str, tuple[Check, ...]] = {
    "tool_declaration": (
        check_schemas,
        check_examples,
        check_example_values,
        check_internal_fields,
        check_search_hint,
    ),
    "tool_interface": (check_schemas, check_search_hint, check_credentials),
    "tool_permission_profile": (check_credentials,),
    "tool_surface": (check_nested_versions, check_surface),
    "deferred_tool_ref": (check_search_hint,),
    "tool_invocation": (check_transitions, check_end, check_order, check_kin),
    "tool_hook": (check_order,),
    "tool_permission_decision": (check_content_digests,),
    "tool_progress": (check_sequence,),
    "tool_result": (check_result, check_content_digests),
    "tool_event": (check_event,),
}


_CHECKS = {kind: (*_OF_ALL, *_OF_KIND.get(kind, ())) for kind in RECORD_TYPES}


def flaws_of(record: ForeignRecord) -> Iterator[Flaw]:
    """Ask a record everything that can be asked of it alone."""
    for check in _CHECKS[record.kind]:
        if found := check(record):
            yield from found
