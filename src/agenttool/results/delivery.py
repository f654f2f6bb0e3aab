"""A persistence plan carried out on the records: the result as it is delivered, and the decision on record."""

from agenttool.records import (
    UNSET,
    ContentClass,
    ContentItem,
    ErrorClass,
    PersistenceId,
    PersistenceStrategy,
    Phase,
    Ref,
    ResultPersistence,
    Timestamp,
    ToolError,
    ToolResult,
    replace,
    text_item,
)
from agenttool.results.bulk import Bulk, bulk_of
from agenttool.results.failure import guided, outcome_of, summary_of, told_to_model
from agenttool.results.persistence import PersistencePlan


def apply_plan(
    plan: PersistencePlan,
    result: ToolResult,
    stored_ref: Ref | None,
    *,
    decision_id: PersistenceId,
    created_at: Timestamp,
) -> tuple[ToolResult, ResultPersistence]:
    """Give the result as it is delivered, and the record of the decision.

    `stored_ref` is where the plan's payload is now; none for a plan that has to store one means that no store took it,
    and then there is nothing to deliver.
    """
    bulk = bulk_of(result)
    error = plan.error
    if plan.payload is not None and stored_ref is None:
        error = _not_persistable(bulk)
    shown: str | None = None
    if error is not None:
        delivered = _withheld(result, error, plan.fallback_summary)
    elif plan.payload is not None and stored_ref is not None:
        shown = plan.preview or ""
        delivered = _shortened(result, bulk, shown, stored_ref)
    else:
        delivered = result
    decision = ResultPersistence(
        decision_id=decision_id,
        invocation_id=result.invocation_id,
        result_id=result.result_id,
        strategy=plan.strategy if error is plan.error else PersistenceStrategy.DROP_WITH_REASON,
        threshold=plan.threshold,
        original_size_bytes=bulk.size_bytes,
        preview_size_bytes=None if shown is None else len(shown.encode()),
        persisted_ref=stored_ref if shown is not None else None,
        redaction_state=result.redaction_state,
        reason=plan.reason if error is plan.error else "not_persistable",
        created_at=created_at,
    )
    return replace(delivered, persistence_refs=(*(result.persistence_refs or ()), decision_id)), decision


def _shortened(result: ToolResult, bulk: Bulk, shown: str, ref: Ref) -> ToolResult:
    """Put a preview where the words were; items that only point somewhere stay."""
    stored = ContentItem(type=ContentClass.PERSISTED_OUTPUT_REF, ref=ref, media_type=ref.media_type)
    return replace(
        result,
        content=(stored, *bulk.kept),
        structured_content=UNSET,
        model_facing_content=(text_item(shown), *bulk.kept_for_model),
        native_output_ref=result.native_output_ref or ref.id,
    )


def _withheld(result: ToolResult, error: ToolError, fallback_summary: str | None) -> ToolResult:
    """Deliver nothing but why; a call that had failed before keeps its own error."""
    if result.is_error and result.error is not None:
        error = result.error
    status = outcome_of(error).result_status
    told = told_to_model(error)
    return replace(
        result,
        status=status,
        is_error=status.is_error,
        content=(),
        structured_content=UNSET,
        model_facing_content=(text_item(told if fallback_summary is None else f"{fallback_summary}\n{told}"),),
        empty_result=None,
        ui_facing_rendering=UNSET,
        transcript_search_text=None,
        summary=summary_of(error),
        error=error,
    )


def _not_persistable(bulk: Bulk) -> ToolError:
    return guided(
        ErrorClass.RESULT_TOO_LARGE,
        phase=Phase.PERSIST_RESULT,
        message=f"the output has {bulk.size_bytes} bytes, which is too much to inline, and could not be stored",
        code="not_persistable",
    )
