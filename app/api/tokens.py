"""`/v1/tokenize`, `/v1/detokenize`, `/v1/apply-template`: what the model makes of a text or a conversation.

Field names are those of llama.cpp's server and of vLLM, so that the clients of either find theirs.
"""

import asyncio
from concurrent.futures import Executor
from typing import Annotated

from litestar import post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import UNSET, Meta, Struct, UnsetType

from app.api.asked import served_model
from app.api.openai import translate
from app.api.openai.refusals import REFUSALS
from app.api.openai.schema import ChatRequest, Message, Tool
from app.api.ports import ChatModel
from app.api.services import Services
from app.errors import RequestError


class TokenizeRequest(Struct, kw_only=True):
    """A text, or a conversation as chat completions take it."""

    model: (
        Annotated[str, Meta(description="The served model's name; without it, that model is meant.")] | None
    ) = None
    content: Annotated[str, Meta(description="The text.")] | None = None
    prompt: Annotated[str, Meta(description="Another name of content.")] | None = None
    messages: Annotated[list[Message], Meta(min_length=1)] | None = None
    tools: list[Tool] | None = None
    chat_template_kwargs: dict[str, object] | None = None
    add_special: (
        Annotated[bool, Meta(description="With the tokens that begin a text; false where absent.")] | None
    ) = None
    add_special_tokens: Annotated[bool, Meta(description="Another name of add_special.")] | None = None
    with_pieces: Annotated[bool, Meta(description="Say what each token stands for.")] | None = None
    return_token_strs: Annotated[bool, Meta(description="Another name of with_pieces.")] | None = None


class Tokens(Struct, frozen=True, kw_only=True):
    """Token ids, how many there are, and how many the model takes. `token_strs` where they were asked for."""

    tokens: list[int]
    count: int
    max_model_len: int
    token_strs: list[str] | UnsetType = UNSET


class DetokenizeRequest(Struct, kw_only=True):
    """Tokens of the model."""

    tokens: Annotated[list[int], Meta(description="Token ids.")]
    model: (
        Annotated[str, Meta(description="The served model's name; without it, that model is meant.")] | None
    ) = None


class Text(Struct, frozen=True):
    """What tokens stand for, under the name that each of the two servers gives it."""

    content: str
    prompt: str


class TemplateRequest(Struct, kw_only=True):
    """A conversation as chat completions take it."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    model: (
        Annotated[str, Meta(description="The served model's name; without it, that model is meant.")] | None
    ) = None
    tools: list[Tool] | None = None
    chat_template_kwargs: dict[str, object] | None = None


class Prompt(Struct, frozen=True):
    """The text that the model gets."""

    prompt: str


@post("/tokenize", status_code=200, summary="Tokens of a text", tags=["Tokens"], responses=REFUSALS)
async def tokenize(
    data: JSONBody[TokenizeRequest],
    services: NamedDependency[Services],
    prompt_thread: NamedDependency[Executor],
) -> Tokens:
    """What a text, or a conversation with the template around it, is in tokens."""
    model = served_model(services, data.model)
    text = data.content if data.content is not None else data.prompt
    if (text is None) == (data.messages is None):
        raise RequestError("content: a text (content or prompt) is needed, or messages.", param="content")
    # A template begins its text itself.
    special = data.messages is None and bool(data.add_special or data.add_special_tokens)
    wants_texts = data.with_pieces or data.return_token_strs

    def work() -> Tokens:
        given = text if data.messages is None else _rendered(services, model, data, data.messages)
        assert given is not None
        tokens = model.tokenise(given, special=special)
        texts = (
            [model.token_text(token).decode(errors="replace") for token in tokens] if wants_texts else UNSET
        )
        return Tokens(tokens=tokens, count=len(tokens), max_model_len=model.context_length, token_strs=texts)

    return await asyncio.get_running_loop().run_in_executor(prompt_thread, work)


@post("/detokenize", status_code=200, summary="Text of tokens", tags=["Tokens"], responses=REFUSALS)
async def detokenize(
    data: JSONBody[DetokenizeRequest],
    services: NamedDependency[Services],
    prompt_thread: NamedDependency[Executor],
) -> Text:
    """The text that tokens stand for, marks included."""
    model = served_model(services, data.model)
    if any(not 0 <= token < model.vocabulary_size for token in data.tokens):
        raise RequestError(
            f"tokens: must be token ids of this model (0 to {model.vocabulary_size - 1}).", param="tokens"
        )
    text = await asyncio.get_running_loop().run_in_executor(prompt_thread, model.text_of, data.tokens)
    return Text(text, text)


@post(
    "/apply-template",
    status_code=200,
    summary="A conversation as the model gets it",
    tags=["Tokens"],
    responses=REFUSALS,
)
async def apply_template(
    data: JSONBody[TemplateRequest],
    services: NamedDependency[Services],
    prompt_thread: NamedDependency[Executor],
) -> Prompt:
    """The text that a chat completion of these messages goes on with; so does `/v1/completions`."""
    model = served_model(services, data.model)
    return Prompt(
        await asyncio.get_running_loop().run_in_executor(
            prompt_thread, _rendered, services, model, data, data.messages
        )
    )


def _rendered(
    services: Services, model: ChatModel, data: TokenizeRequest | TemplateRequest, messages: list[Message]
) -> str:
    chat = translate.chat_prompt(
        ChatRequest(messages=messages, tools=data.tools, chat_template_kwargs=data.chat_template_kwargs)
    )
    return model.render(services.system_lines.without(chat))
