"""The complete agent loop for the clients of the provider SDKs, which are recognized by their methods."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TypedDict, cast

from agenttool.adapters.function_calling.model_reply import object_in
from agenttool.adapters.function_calling.tool_payload import ToolRequestOptions
from agenttool.config.table import suggestion
from agenttool.errors import AgentToolError, ConfigError, RecordError
from agenttool.providers.model_tools import Callback, ModelTools, Pending
from agenttool.providers.turn import IncompleteReplyError, ModelTurn, WaitingCall, dump_json, load_json
from agenttool.records import Json, JsonObject, ToolSurface

MAX_TURNS = 10

_METHODS = {
    "openai": "chat.completions.create",
    "anthropic": "messages.create",
    "gemini": "models.generate_content",
    "openai_responses": "responses.create",
}
"""The method of a client that sends a request; the first that a client has decides its format."""

_MESSAGES = {"openai_responses": "input", "gemini": "contents"}
"""The argument with the conversation, where it is not `messages`."""

_ANTHROPIC_MAX_TOKENS = 4096
"""The API of Anthropic requires a limit; the request can set another one."""

_GRAMMAR_FAULTS = ("compiled grammar is too large", "too complex for compilation")
"""What Anthropic's API says of strict schemas that are too large together; it documents no limit."""


class RunOptions(TypedDict, total=False):
    """The options of `rt.run`.

    Attributes:
        provider: the format, such as `openai_responses`. Default: that of the client; `openai` for a client of OpenAI.
        surface: the surface whose tools the model may call. Default: a new one that shows all tools.
        max_turns: how many requests are sent at most. Default: 10.
        request: more arguments of every request, such as `{"temperature": 0}`; its `tools` are sent beside the others.
        stream: whether to stream replies; then calls start earlier. Default: yes if there is a callback.
        on_text: receives each piece of text that the model writes to the user.
        on_event: receives each event of the streams.
        pending: `return` returns as soon as a turn waits for an approval; `run.pending` lists its calls.
        native_search: whether deferred tools are found by the provider's own tool search, if it has one.
        resume: the run that waited, or the text of its `to_json`: it is continued, without `messages`.
    """

    provider: str
    surface: ToolSurface
    max_turns: int
    request: JsonObject
    stream: bool
    on_text: Callable[[str], object]
    on_event: Callback
    pending: Pending
    native_search: bool
    resume: "ModelRun | str"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRun:
    """The outcome of a loop.

    Attributes:
        text: what the model wrote to the user in its last turn; `turn.is_cut` says whether it is incomplete.
        messages: the whole conversation, in the format of the provider.
        turn: the last turn.
        turns: how many requests were sent.
    """

    text: str
    messages: list[object]
    turn: ModelTurn
    turns: int

    @property
    def pending(self) -> tuple[WaitingCall, ...]:
        """The calls that wait; pass this run as `resume=` to another one, which continues it."""
        return self.turn.pending

    def to_json(self) -> str:
        """Return the run as text for `resume=`, also in another process on the same durable store.

        It contains the whole conversation with all arguments, so protect it.
        """
        messages = [object_in(each, as_json=False) for each in self.messages]
        return dump_json({"messages": [*messages], "turn": self.turn.to_json()})


class TurnLimitError(AgentToolError):
    """The model did not write a final reply within the limit of turns.

    Attributes:
        run: what happened so far; another run can continue with its messages.
    """

    def __init__(self, run: ModelRun) -> None:
        super().__init__(
            f"no final reply after {run.turns} turns; raise max_turns, or continue with `error.run.messages`"
        )
        self.run = run


def check_options(options: RunOptions) -> None:
    """Check the names of options.

    Raises:
        ConfigError: there is no option of a name; arguments of requests belong in `request=`.
    """
    known = RunOptions.__annotations__
    for name in options.keys() - known.keys():
        if name in ToolRequestOptions.__slots__:
            raise ConfigError(
                f"`run` has no option {name!r}, because `tools_for` has it; write the loop with"
                f" `tools_for(…, {name}=…)` and `answer`"
            )
        raise ConfigError(
            f"`run` has no option {name!r}; {suggestion(name, known)} To send it to the model: request={{{name!r}: …}}"
        )


def provider_of(client: object) -> str:
    """Return the format of an SDK's client.

    Raises:
        ConfigError: it is no client of a known SDK.
    """
    for provider, method in _METHODS.items():
        if _method(client, method) is not None:
            return provider
    raise ConfigError(
        f"{type(client).__name__} is no client of the SDKs of OpenAI, Anthropic or Google; use tools_for() and answer()"
    )


async def run_model(
    client: object, tools: ModelTools, messages: str | Sequence[object], model: str, options: RunOptions
) -> ModelRun:
    """Send requests and answer the replies until one is final or waits; see `Runtime.run`."""
    conversation, earlier = _start(tools.provider, messages, options.get("resume"))
    on_text, on_event = options.get("on_text"), options.get("on_event")
    stream = options.get("stream", on_text is not None or on_event is not None)
    pending, most = options.get("pending", "wait"), options.get("max_turns", MAX_TURNS)
    if type(most) is not int or most < 1:
        raise ConfigError(f"max_turns is a whole number of at least 1, not {most!r}")
    turn = None if earlier is None else await tools.resume(earlier, pending=pending)
    sent = 0
    while True:
        if turn is not None:
            conversation += () if turn.pending else turn.messages
            run = ModelRun(text=turn.text, messages=conversation, turn=turn, turns=sent)
            if turn.pending or turn.is_final:
                return run
            if sent == most:
                raise TurnLimitError(run)
        arguments: JsonObject = {"model": model, **options.get("request", {})}
        reply = await _send(client, tools, conversation, arguments, stream=stream)
        sent += 1
        try:
            turn = await tools.answer(reply, pending=pending, on_event=on_event, on_text=on_text)
        except IncompleteReplyError as error:
            conversation += error.turn.messages if not error.turn.pending else ()
            raise IncompleteReplyError(error.reason, error.turn, conversation) from error.__cause__


async def _send(
    client: object, tools: ModelTools, conversation: Sequence[object], arguments: JsonObject, *, stream: bool
) -> object:
    """Send a request; if the provider finds the strict schemas too large, send it again without them."""
    try:
        return await _request(client, tools, conversation, arguments, stream=stream)
    except Exception as error:
        if not tools.is_strict or not any(words in str(error) for words in _GRAMMAR_FAULTS):
            raise
    tools.is_strict = False
    return await _request(client, tools, conversation, arguments, stream=stream)


async def _request(
    client: object, tools: ModelTools, conversation: Sequence[object], arguments: JsonObject, *, stream: bool
) -> object:
    """Send a request by a client that may block: it is called in a thread, and a coroutine is awaited here."""
    provider, about_tools = tools.provider, tools.request()
    name = _METHODS[provider]
    whole: dict[str, object] = {**arguments, _MESSAGES.get(provider, "messages"): list(conversation)}
    if provider == "gemini":
        name = f"{name}_stream" if stream else name
        config = object_in(arguments.get("config"), as_json=False)
        whole["config"] = {**config, **_with_own_tools(config, about_tools)}
    else:
        whole |= {**_with_own_tools(arguments, about_tools), **({"stream": True} if stream else {})}
    if provider == "anthropic":
        whole.setdefault("max_tokens", _ANTHROPIC_MAX_TOKENS)
    method = _method(client, name)
    if method is None:
        raise ConfigError(f"{type(client).__name__} has no method {name!r}, which {provider!r} needs")
    reply = await asyncio.to_thread(partial(method, **whole))
    return await reply if inspect.isawaitable(reply) else reply


def _with_own_tools(arguments: JsonObject, about_tools: JsonObject) -> JsonObject:
    """Return the arguments about tools, with the tools of the caller, such as those that the provider runs itself."""
    own, tools = arguments.get("tools"), about_tools.get("tools")
    if not isinstance(own, list | tuple) or not isinstance(tools, list):
        return about_tools
    return {**about_tools, "tools": [*cast("Sequence[Json]", own), *tools]}


def _method(client: object, name: str) -> Callable[..., object] | None:
    try:
        found: object = attrgetter(name)(client)
    except AttributeError:
        return None
    return found if callable(found) else None


def _start(
    provider: str, messages: str | Sequence[object], resume: ModelRun | str | None
) -> tuple[list[object], str | None]:
    """Return the conversation to extend, which may be the caller's own list, and the turn to continue first."""
    if bool(messages) is (resume is not None):
        raise ConfigError("pass the question or the conversation as `messages`, or the run to continue as `resume=`")
    if resume is not None:
        try:
            state = load_json(resume.to_json() if isinstance(resume, ModelRun) else resume)
            return list(cast("list[object]", state["messages"])), cast("str", state["turn"])
        except (AttributeError, KeyError, TypeError, RecordError) as error:
            raise ConfigError("`resume` takes a run, or the text that its `to_json` returned") from error
    if isinstance(messages, str):
        content: JsonObject = {"parts": [{"text": messages}]} if provider == "gemini" else {"content": messages}
        return [{"role": "user", **content}], None
    return (messages if isinstance(messages, list) else list(messages)), None
