"""What a request asks for, whichever API it was written in, and the checks all of them share.

Knows no wire format, and neither sockets nor jobs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.api.errors import unavailable
from app.api.ports import ChatModel, ChatPrompt, Phase, ReplySchema, TextPrompt, ToolUse
from app.api.services import Services
from app.errors import RequestError
from app.scheduler.job import Sampling

MOST_REPLIES = 16
"""How many replies one request may ask for: each is a job of its own, and takes a place of its own."""

NEVER = -100.0
"""The bias of a token that must not come; the lowest that a client can ask for as well."""

_TOKEN_ID_DIGITS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request in the program's own terms.

    `model`: as the client named it. `max_tokens`: None leaves it to the server. `replies`: how many, each
    an answer of its own to the one prompt.
    """

    model: str | None
    prompt: ChatPrompt | TextPrompt
    session: str
    sampling: Sampling
    stop: tuple[str, ...] = ()
    tools: ToolUse | None = None
    schema: ReplySchema | None = None
    max_tokens: int | None = None
    use_snapshots: bool = True
    stream: bool = False
    replies: int = 1


def served_model(services: Services, asked: str | None) -> ChatModel:
    """The model, if it takes requests and is the one that is asked for.

    Raises:
        RequestError: 503 it takes none now; 404 another one is asked for.
    """
    health = services.engine.health()
    model = services.engine.model
    if health.phase is not Phase.READY or model is None:
        raise unavailable(health)
    require_name(model, asked)
    return model


def require_name(model: ChatModel, asked: str | None) -> None:
    """Refuse a name that is not the model's; no name means the one model there is.

    Raises:
        RequestError: 404.
    """
    if asked and asked != model.name and asked not in model.aliases:
        raise RequestError(
            f"The model '{asked}' is not served here; '{model.name}' is.",
            status=404,
            param="model",
            code="model_not_found",
        )


def reply_limit(wanted: int | None, *, prompt_tokens: int, context_length: int, param: str) -> int:
    """Most tokens of the reply: what is wanted, cut to what the context leaves; None wants all of that.

    Raises:
        RequestError: the prompt leaves no place for a reply; `param` is the field that holds it.
    """
    left = context_length - prompt_tokens
    if left < 1:
        raise RequestError(
            f"{param}: the prompt has {prompt_tokens} tokens; this model's context is"
            f" {context_length} tokens, reply included.",
            param=param,
            code="context_length_exceeded",
        )
    return min(wanted or left, left)


def stop_strings(stop: str | Sequence[str] | None, *, param: str = "stop") -> tuple[str, ...]:
    """The strings that end the reply.

    Raises:
        RequestError: one of them is empty.
    """
    strings = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if "" in strings:
        raise RequestError(f"{param}: must not hold an empty string.", param=param)
    return strings


def logit_bias(biases: Mapping[str, float] | None, vocabulary_size: int) -> tuple[tuple[int, float], ...]:
    """Token id and bias, in the order of the ids.

    Raises:
        RequestError: something is not a token of the model.
    """
    for key in biases or ():
        # The length first: Python refuses to read a number of thousands of digits.
        if not (
            len(key) <= _TOKEN_ID_DIGITS and key.isascii() and key.isdigit() and int(key) < vocabulary_size
        ):
            raise RequestError(
                f"logit_bias: '{key[:20]}' is not a token id of this model (0 to {vocabulary_size - 1}).",
                param="logit_bias",
            )
    return tuple(sorted((int(key), bias) for key, bias in (biases or {}).items()))


def without_calls(
    biases: tuple[tuple[int, float], ...], call_token: int | None
) -> tuple[tuple[int, float], ...]:
    """The biases with which no tool is called, where a call begins with a token of its own."""
    return biases if call_token is None else tuple(sorted({**dict(biases), call_token: NEVER}.items()))
