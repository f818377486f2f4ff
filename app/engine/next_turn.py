"""What a conversation's next prompt will begin with, once the client has sent the reply back."""

from dataclasses import replace
from typing import Any

from app.chat import ChatPrompt, PreparedPrompt
from app.engine.prompt import PromptRenderer
from app.errors import RequestError
from app.snapshots.entry import BYTES_PER_TOKEN, TokenBytes, common_tokens, unpack
from app.vocabulary import Origin, Warmup

NEXT_TEXTS = ("ok", "Thank you. Tell me more about it.")
"""Two messages that share no first letter, so that what two prompts with them share depends on neither."""


def next_turn(
    renderer: PromptRenderer, chat: ChatPrompt, prompt: PreparedPrompt, *, calls_are_text: bool = False
) -> tuple[int, ...] | Warmup:
    """The tokens that every next prompt begins with, and one token behind them; or why they are of no use.

    `chat` ends with the reply to `prompt`. It is rendered with a next message, in each role that may speak
    next: what these prompts share is certain. It must contain the boundary of `prompt`, from which it is
    computed. `calls_are_text`: the model's calls are not told from text, so that any reply may be one.
    """
    boundary = max((each.length for each in prompt.boundaries if each.origin is Origin.BOUNDARY), default=0)
    if not boundary:
        return Warmup.NO_BOUNDARY
    probes: list[TokenBytes] = []
    known = prompt.rendered
    try:
        for message in _following(chat, calls_are_text=calls_are_text):
            known = renderer.tokenised(replace(chat, messages=(*chat.messages, message)), known)
            probes.append(known.packed)
    except RequestError:
        return Warmup.NOT_RENDERED
    first, *others = probes
    if common_tokens(first, prompt.packed) < boundary:
        return Warmup.DIVERGED
    shared = min(common_tokens(first, other) for other in others)
    if shared <= boundary:
        return Warmup.COVERED
    return unpack(TokenBytes(first[: (shared + 1) * BYTES_PER_TOKEN]))


def _following(chat: ChatPrompt, *, calls_are_text: bool) -> list[dict[str, Any]]:
    """What may come next: a result after a call, whichever call it is of; else what the user says.

    A template may show a turn in other words once the user has spoken, so that nobody is asked who cannot.
    """
    calls = chat.messages[-1].get("tool_calls")
    if calls:
        ids = (calls[0]["id"], calls[-1]["id"])
        return [
            {"role": "tool", "tool_call_id": call, "content": text}
            for call, text in zip(ids, NEXT_TEXTS, strict=True)
        ] + [{"role": "tool", "tool_call_id": ids[0], "content": NEXT_TEXTS[1]}]
    following = [{"role": "user", "content": text} for text in NEXT_TEXTS]
    if chat.tools and calls_are_text:
        following.append({"role": "tool", "tool_call_id": "next00000", "content": NEXT_TEXTS[0]})
    return following
