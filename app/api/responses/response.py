"""A response as OpenAI's clients read it, and its items. Pure; knows neither sockets nor jobs."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from app.api.ports import Piece, PieceKind, PreparedPrompt, ReplyPart, ToolCall
from app.api.reply import Reply
from app.api.responses.schema import FunctionTool, ResponsesRequest
from app.api.responses.translate import conversation_id
from app.api.token_usage import cache_use
from app.api.writer import Facts
from app.errors import RequestError


class OutputText(Struct, frozen=True, kw_only=True, tag="output_text"):
    """What the model said."""

    text: str
    annotations: list[str] = []
    logprobs: list[str] = []


class ReasoningText(Struct, frozen=True, kw_only=True, tag="reasoning_text"):
    """What the model thought."""

    text: str


class MessageItem(Struct, frozen=True, kw_only=True, tag="message"):
    """Text of the reply."""

    id: str
    status: str
    role: Literal["assistant"] = "assistant"
    content: list[OutputText]


class ReasoningItem(Struct, frozen=True, kw_only=True, tag="reasoning"):
    """Thinking of the reply."""

    id: str
    status: str
    summary: list[str] = []
    content: list[ReasoningText]


class FunctionCallItem(Struct, frozen=True, kw_only=True, tag="function_call"):
    """A call that the client is to make. Its result comes back under `call_id`."""

    id: str
    status: str
    call_id: str
    name: str
    arguments: str


OutputItem = MessageItem | ReasoningItem | FunctionCallItem


class InputTokensDetails(Struct, frozen=True):
    """`cached_tokens` were not computed again; `cache_write_tokens` serve the next turn."""

    cached_tokens: int
    cache_write_tokens: int


class OutputTokensDetails(Struct, frozen=True):
    """`reasoning_tokens` is how many it had when the last of the thinking came that it began with."""

    reasoning_tokens: int


class ResponseUsage(Struct, frozen=True, kw_only=True):
    """Tokens; those of the input include the cached ones."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class ResponseFailure(Struct, frozen=True):
    """Why a response broke off."""

    code: str
    message: str


class Response(Struct, frozen=True, kw_only=True):
    """A response; what was asked for comes back with it. `store` is false: it is kept nowhere."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: str
    background: bool = False
    error: ResponseFailure | None = None
    incomplete_details: dict[str, str] | None = None
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, str]
    model: str
    output: list[OutputItem]
    parallel_tool_calls: bool
    previous_response_id: str | None = None
    conversation: dict[str, str] | None
    prompt_cache_key: str | None
    store: bool = False
    temperature: float
    text: dict[str, Any]
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_p: float
    truncation: str = "disabled"
    usage: ResponseUsage | None


def item_of(part: ReplyPart, *, id: str, status: str = "completed") -> OutputItem:  # noqa: A002
    """A part of a reply as an item; `id` is what comes after the prefix of its kind."""
    match part:
        case ToolCall():
            return FunctionCallItem(
                id=f"fc_{id}", status=status, call_id=part.id, name=part.name, arguments=part.arguments
            )
        case Piece(kind=PieceKind.REASONING):
            thought = [ReasoningText(text=part.text)] if part.text else []
            return ReasoningItem(id=f"rs_{id}", status=status, content=thought)
        case Piece():
            said = [OutputText(text=part.text)] if part.text else []
            return MessageItem(id=f"msg_{id}", status=status, content=said)


def item_status(reply: Reply) -> str:
    """Of a reply's last item: whether it is whole."""
    return "incomplete" if reply.finish_reason == "length" else "completed"


class ResponseShape:
    """Puts responses to one request together.

    Args:
        facts: of the answer.
        request: what was asked for.
    """

    def __init__(self, facts: Facts, request: ResponsesRequest) -> None:
        self.id = f"resp_{facts.id}"
        self._facts = facts
        self._request = request

    def begun(self) -> Response:
        """As it is while it grows."""
        return self._response("in_progress", (), usage=None)

    def ended(self, reply: Reply, output: Sequence[OutputItem]) -> Response:
        """As it is in the end."""
        status = item_status(reply)
        reason = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return self._response(status, output, usage=self._usage(reply), incomplete_details=reason)

    def failed(self, error: RequestError, output: Sequence[OutputItem]) -> Response:
        """As it is where it broke off."""
        failure = ResponseFailure(error.code or error.kind, error.message)
        return self._response("failed", output, usage=None, error=failure)

    def _response(
        self, status: str, output: Sequence[OutputItem], *, usage: ResponseUsage | None, **more: Any
    ) -> Response:
        asked = self._request
        conversation = conversation_id(asked)
        return Response(
            id=self.id,
            created_at=self._facts.created,
            status=status,
            instructions=asked.instructions,
            max_output_tokens=asked.max_output_tokens,
            metadata=asked.metadata or {},
            model=self._facts.model,
            output=list(output),
            parallel_tool_calls=asked.parallel_tool_calls is not False,
            conversation={"id": conversation} if conversation else None,
            prompt_cache_key=asked.prompt_cache_key,
            temperature=1.0 if asked.temperature is None else asked.temperature,
            text={"format": _format(asked)},
            tool_choice="auto" if asked.tool_choice is None else asked.tool_choice,
            tools=[_echoed(tool) for tool in asked.tools or ()],
            top_p=1.0 if asked.top_p is None else asked.top_p,
            usage=usage,
            **more,
        )

    def _usage(self, reply: Reply) -> ResponseUsage:
        return _usage(self._facts.prompt, reply)


def _usage(prompt: PreparedPrompt, reply: Reply) -> ResponseUsage:
    use = cache_use(prompt, reply.started)
    prompt_tokens = len(prompt.tokens)
    return ResponseUsage(
        input_tokens=prompt_tokens,
        input_tokens_details=InputTokensDetails(use.read, use.written),
        output_tokens=reply.generated_tokens,
        output_tokens_details=OutputTokensDetails(reply.reasoning_tokens),
        total_tokens=prompt_tokens + reply.generated_tokens,
    )


def _format(asked: ResponsesRequest) -> dict[str, Any]:
    wanted = asked.text.format if asked.text is not None else None
    if wanted is None:
        return {"type": "text"}
    told = {
        "type": wanted.type,
        "name": wanted.name,
        "schema": wanted.schema,
        "strict": wanted.strict,
    }
    return {key: value for key, value in told.items() if value is not None}


def _echoed(tool: FunctionTool) -> dict[str, Any]:
    told: Mapping[str, Any] = {
        "type": tool.type,
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
    }
    return {key: value for key, value in told.items() if value is not None}
