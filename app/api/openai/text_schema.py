"""`POST /v1/completions` as clients write it: types and bounds. Fields it does not name are ignored."""

from typing import Annotated

from msgspec import Meta, Struct

from app.api.asked import MOST_REPLIES
from app.api.openai.schema import StreamOptions
from app.api.request_fields import (
    CachePrompt,
    ConversationName,
    MinP,
    PromptCacheKey,
    Temperature,
    TopK,
    TopP,
)


class CompletionRequest(Struct, kw_only=True):
    """A text to be gone on with."""

    prompt: Annotated[
        str | list[str | int | list[int]],
        Meta(description="A text, or its tokens; of several prompts only a list of one is served."),
    ]
    model: (
        Annotated[str, Meta(description="The served model's name; without it, that model is meant.")] | None
    ) = None
    stream: Annotated[bool, Meta(description="Send the text as it grows, as server-sent events.")] | None = (
        None
    )
    stream_options: StreamOptions | None = None
    max_tokens: (
        Annotated[int, Meta(ge=1, description="Most tokens of the reply; 16 where absent.")] | None
    ) = None
    stop: str | Annotated[list[str], Meta(max_length=4)] | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    repetition_penalty: Annotated[float, Meta(gt=0)] | None = None
    logit_bias: dict[str, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    seed: Annotated[int, Meta(description="Makes the reply repeatable, whatever else is running.")] | None = (
        None
    )
    logprobs: (
        Annotated[int, Meta(ge=0, le=20, description="Log-probabilities, and of so many of the likeliest.")]
        | None
    ) = None
    n: Annotated[int, Meta(ge=1, le=MOST_REPLIES, description="How many replies.")] | None = None
    best_of: Annotated[int, Meta(description="Only as many as n.")] | None = None
    echo: Annotated[bool, Meta(description="Only false is served.")] | None = None
    suffix: Annotated[str, Meta(description="Not served.")] | None = None
    user: ConversationName | None = None
    prompt_cache_key: PromptCacheKey | None = None
    cache_prompt: CachePrompt | None = None
