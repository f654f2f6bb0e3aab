"""The routes about approvals: list the open ones, read one, check an edited input, answer."""

from http import HTTPStatus

from agenttool.codec import parse_object, to_json
from agenttool.policy.approvals import (
    Allow,
    Answer,
    Approver,
    Deny,
    Edit,
    Question,
    RefusalReason,
    Refused,
    Remember,
    RememberScope,
    suggested_rules,
)
from agenttool.policy.wildcards import fits
from agenttool.ports.identity import AccessRole
from agenttool.records import ApprovalId, Digest, JsonObject
from agenttool.schema.explain import Misfit
from agenttool.server.messages import (
    AnswerBody,
    AnswerReply,
    Approval,
    ApprovalList,
    ApprovalListQuery,
    CheckReply,
    InputBody,
    Misplaced,
    optional_member,
    raw,
)
from agenttool.server.problem import Problem
from agenttool.server.route import ApiRequest, B, EmptyBody, EmptyQuery, PlainRequest, Q
from agenttool.server.tenants import Tenant
from agenttool.server.tool_routes import risk_of

PAGE_SIZE = 200

_STATUSES = {
    RefusalReason.UNKNOWN: HTTPStatus.NOT_FOUND,
    RefusalReason.ANSWERED: HTTPStatus.CONFLICT,
    RefusalReason.OTHER_QUESTION: HTTPStatus.CONFLICT,
    RefusalReason.EXPIRED: HTTPStatus.GONE,
    RefusalReason.WITHDRAWN: HTTPStatus.GONE,
    RefusalReason.BAD_RULE: HTTPStatus.UNPROCESSABLE_ENTITY,
    RefusalReason.BAD_INPUT: HTTPStatus.UNPROCESSABLE_ENTITY,
    RefusalReason.BAD_ANSWER: HTTPStatus.UNPROCESSABLE_ENTITY,
}
_POINTERS = {RefusalReason.BAD_RULE: "/remember/rule", RefusalReason.BAD_INPUT: "/input"}
_OWN_CALL = (
    "you made this call, so another approver must answer it; `approves_own_calls = true` in [server] would allow you to"
)
_NO_ROLE = "answering needs the role approver"


async def list_approvals(request: ApiRequest[ApprovalListQuery, EmptyBody]) -> ApprovalList:
    """List the calls that wait for an approval, the oldest first."""
    query, tenant = request.query, request.tenant
    after = None if query.cursor is None else ApprovalId(query.cursor)
    found: list[Question] = []
    while page := await tenant.runtime.approvals.list(limit=PAGE_SIZE, after=after):
        for question in page:
            after = question.approval_id
            name = question.tool_name
            if query.tool is None or any(fits(query.tool, each) for each in (name, name.rpartition(".")[2])):
                found.append(question)
            if len(found) == query.limit:
                break
        if len(found) == query.limit or len(page) < PAGE_SIZE:
            break
    items = [await _describe(request, each) for each in found]
    return ApprovalList(items=items, next_cursor=after if len(found) == query.limit else None)


async def get_approval(request: PlainRequest) -> Approval:
    """Return one open approval, with everything that an approver is shown.

    For one that was open before, the `reason` is `answered`, `expired` or `withdrawn` (410).
    """
    return await _describe(request, await _open_question(request.tenant, request.path["approval_id"]))


async def answer_approval(request: ApiRequest[EmptyQuery, AnswerBody]) -> AnswerReply:
    """Answer an approval. The first answer stands; the digest of what was shown goes with it.

    The `reason` of a refusal is `unknown` (404), `answered` or `other_question` (409), `expired` or `withdrawn` (410).
    It is `bad_input`, `bad_rule` or `bad_answer` (422), or `own_call` (403). With `answered` comes `answered_by`.

    An approver may remember a suggested rule, also with an `expires_at`. Any other rule needs the role operator, too
    (422, `bad_rule`).
    """
    approval_id, body, principal, tenant = request.path["approval_id"], request.body, request.principal, request.tenant
    approvals = tenant.runtime.approvals
    question = await approvals.get(approval_id)
    if question is not None:
        refusal = _why_not(request, await _actor(tenant, question))
        if refusal is not None:
            raise Problem(HTTPStatus.FORBIDDEN, refusal, reason="own_call")
    answer = _answer_in(body)
    if question is not None and isinstance(answer, Edit):
        _check_edit(tenant, question, answer)
    if question is not None and isinstance(answer, Remember) and not principal.has(AccessRole.OPERATOR):
        _check_suggested(question, answer)
    outcome = await approvals.decide(
        approval_id, answer, by=Approver(principal=principal), shown_digest=Digest(body.shown_digest)
    )
    if isinstance(outcome, Refused):
        raise _not_accepted(outcome.reason, outcome.message, answered_by=outcome.answered_by)
    return AnswerReply(
        approval_id=approval_id,
        invocation_id=outcome.question.invocation_id,
        answer=body.answer,
        by=outcome.by.name,
        at=outcome.at,
    )


def _not_accepted(
    reason: RefusalReason, detail: str, pointer: str | None = None, answered_by: str | None = None
) -> Problem:
    """Return the problem of an answer that is not accepted."""
    pointer = pointer or _POINTERS.get(reason)
    return Problem(_STATUSES[reason], detail, pointer=pointer, reason=reason.value, answered_by=answered_by)


def _answer_in(body: AnswerBody) -> Answer:
    edited = optional_member(body.input)
    if body.answer == "deny":
        if edited is not None or body.remember is not None:
            pointer = "/remember" if edited is None else "/input"
            raise Problem(HTTPStatus.BAD_REQUEST, "a deny takes a message only; leave this out", pointer=pointer)
        return Deny(message=body.message)
    if edited is not None and body.remember is not None:
        detail = "an edited input cannot be remembered; send one of the two"
        raise Problem(HTTPStatus.BAD_REQUEST, detail, pointer="/remember")
    if edited is not None:
        return Edit(input=parse_object(edited, what="input"), feedback=body.message)
    if body.remember is not None:
        rule = parse_object(bytes(body.remember.rule), what="rule")
        return Remember(rule=rule, feedback=body.message, scope=RememberScope(body.remember.scope))
    return Allow(feedback=body.message)


def _check_edit(tenant: Tenant, question: Question, answer: Edit) -> None:
    """Reject an edit that does not fit the schema, because its call would fail.

    Raises:
        Problem: the input does not fit.
    """
    errors = _errors_of(tenant, question, answer.input) if isinstance(answer.input, dict) else []
    if errors:
        raise _not_accepted(RefusalReason.BAD_INPUT, errors[0].message, f"/input{errors[0].pointer}")


def _errors_of(tenant: Tenant, question: Question, edited: JsonObject) -> list[Misplaced]:
    """Return where an edited input does not fit the schema of the tool."""
    inspection = tenant.runtime.inspection
    entry = inspection.tool(question.tool_id)
    return [] if entry is None else [input_error(each) for each in inspection.misfits(entry, edited)]


def _check_suggested(question: Question, answer: Remember) -> None:
    """Reject a rule that was not suggested, because it could allow more calls; it may expire earlier.

    Raises:
        Problem: the rule was not suggested.
    """
    lasting = {name: value for name, value in answer.rule.items() if name != "expires_at"}
    if all(each not in (answer.rule, lasting) for each in suggested_rules(question)):
        detail = "this rule is none of suggested_updates; send one of those, or let an operator answer"
        raise _not_accepted(RefusalReason.BAD_RULE, detail)


def input_error(misfit: Misfit) -> Misplaced:
    """Return where and why an input does not fit its schema."""
    return Misplaced(pointer=misfit.pointer, message=f"expected {misfit.expected}; {misfit.advice}")


async def check_input(request: ApiRequest[EmptyQuery, InputBody]) -> CheckReply:
    """Check an edited input against the schema of the tool, without answering."""
    question = await _open_question(request.tenant, request.path["approval_id"])
    edited = parse_object(bytes(request.body.input), what="input")
    return CheckReply(errors=_errors_of(request.tenant, question, edited))


async def _open_question(tenant: Tenant, approval_id: str) -> Question:
    question = await tenant.runtime.approvals.get(approval_id)
    if question is None:
        why = await tenant.runtime.approvals.closed(approval_id)
        status = HTTPStatus.NOT_FOUND if why.reason is RefusalReason.UNKNOWN else HTTPStatus.GONE
        detail = f"the approval {approval_id!r} is not open: {why.message}"
        raise Problem(status, detail, reason=why.reason.value, answered_by=why.answered_by)
    return question


def _why_not(request: ApiRequest[Q, B], actor: str | None) -> str | None:
    """Return why the sender of a request may not answer for a call of an actor; None if it may."""
    if not request.principal.has(AccessRole.APPROVER):
        return _NO_ROLE
    is_own = actor == request.principal.subject
    return _OWN_CALL if is_own and not request.server.options.approves_own_calls else None


async def _actor(tenant: Tenant, question: Question) -> str | None:
    invocation = await tenant.runtime.journal.invocation(question.invocation_id)
    return invocation and invocation.actor_ref


async def _describe(request: ApiRequest[Q, B], question: Question) -> Approval:
    """Return a question with what an approver is shown about its tool."""
    tenant, verdict = request.tenant, question.verdict
    entry = tenant.runtime.inspection.tool(question.tool_id)
    declaration = entry and entry.tool.declaration
    contract = declaration and declaration.input_contract
    schema = contract and contract.model_input_schema
    details, actor = verdict.reason.details or {}, await _actor(tenant, question)
    why_not = _why_not(request, actor)
    return Approval.of(
        question,
        actor=actor,
        source=declaration and declaration.namespace,
        description="" if declaration is None else declaration.description,
        input=raw(question.shown),
        input_schema=raw(schema),
        changed_since_approved=entry and bool(details.get("outdated_rule_refs")),
        mode=verdict.mode,
        rule_refs=[*verdict.rule_refs],
        overridden_rule_refs=[*(verdict.reason.beaten_rule_refs or ())],
        risk=raw({} if entry is None else risk_of(entry)),
        suggested_updates=[raw(to_json(each)) for each in question.suggested_updates],
        can_answer=why_not is None,
        why_not=why_not,
    )
