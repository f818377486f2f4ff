"""Fields that requests of several APIs have in common, each with its bounds and its one sentence."""

from typing import Annotated, Any

from msgspec import Meta

ConversationName = Annotated[str, Meta(description="Names the conversation, where nothing better does.")]
PromptCacheKey = Annotated[
    str, Meta(description="Names the conversation; its state is kept between turns under this name.")
]
CachePrompt = Annotated[bool, Meta(description="False: neither use nor keep a state for this request.")]
TemplateVariables = Annotated[
    dict[str, Any], Meta(description="Variables for the chat template, such as enable_thinking.")
]
Temperature = Annotated[
    float, Meta(ge=0, le=2, description="0 takes the likeliest token each time; 1 where absent.")
]
TopP = Annotated[float, Meta(gt=0, le=1, description="Share of the probability that is drawn from.")]
TopK = Annotated[int, Meta(ge=0, description="How many tokens are drawn from; 0 is all.")]
MinP = Annotated[float, Meta(ge=0, le=1, description="Least probability, relative to the likeliest.")]
