"""Replies of a tiny random model that are held to something, made by the real engine, read as clients do."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from app.chat import ChatPrompt, PieceKind, PreparedPrompt, ReplySchema, ToolCall, ToolUse
from app.engine.chat_model import ServedChatModel
from app.engine.loader import LoadedModel
from app.scheduler.job import Constraint, Generated, Job, Sampling
from app.vocabulary import FinishReason
from tests.support.jobs import make_job
from tests.support.marked import marked_model

FIELD = "response_format"


@dataclass(frozen=True)
class Said:
    """A reply as its client has it."""

    content: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    finish: FinishReason | None


class Holding:
    """A served model and prompts to it.

    Args:
        loaded: the model.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.model = ServedChatModel(loaded, unix_seconds=time.time, on_declined=lambda _: None)
        # A random model would say more white space than anything else.
        self._bias = tuple(sorted((token, -30.0) for token in self.model.tokenise(" \n", special=False)))

    def prompt(self, *messages: Mapping[str, Any], **kwargs: Any) -> tuple[ChatPrompt, PreparedPrompt]:
        """A conversation, and as the engine takes it."""
        said = messages or ({"role": "user", "content": "Say it."},)
        chat = ChatPrompt(messages=tuple(said), template_kwargs=kwargs)
        return chat, self.model.prepare(chat, session="s", tenant="t")

    def held(
        self,
        *messages: Mapping[str, Any],
        schema: Mapping[str, Any] | None = None,
        tools: ToolUse | None = None,
        **kwargs: Any,
    ) -> Constraint | None:
        """What a reply is held to."""
        chat, prompt = self.prompt(*messages, **kwargs)
        asked = None if schema is None else ReplySchema(schema, FIELD)
        return self.model.constraint(chat, prompt, schema=asked, tools=tools)

    def job(
        self,
        name: str,
        constraint: Constraint | None,
        *messages: Mapping[str, Any],
        seed: int = 0,
        max_tokens: int = 3000,
        temperature: float = 1.0,
        **kwargs: Any,
    ) -> Job:
        """A reply to be drawn at random, with little white space in it."""
        _, prompt = self.prompt(*messages, **kwargs)
        return make_job(
            prompt.tokens,
            id=name,
            max_tokens=max_tokens,
            constraint=constraint,
            sampling=Sampling(temperature=temperature, seed=seed, logit_bias=self._bias),
        )

    def read(
        self,
        generated: Sequence[Generated],
        *messages: Mapping[str, Any],
        schema: Mapping[str, Any] | None = None,
        tools: ToolUse | None = None,
        **kwargs: Any,
    ) -> Said:
        """What a client gets of these tokens."""
        _, prompt = self.prompt(*messages, **kwargs)
        asked = None if schema is None else ReplySchema(schema, FIELD)
        stream = self.model.text_stream(prompt, stop=(), tools=tools, schema=asked)
        parts = [part for each in generated for part in stream.feed(each.token)]
        finish = generated[-1].finish
        if not stream.stopped:
            parts += stream.finish(cut=finish is not FinishReason.STOP)
        texts = {
            kind: "".join(p.text for p in parts if not isinstance(p, ToolCall) and p.kind is kind)
            for kind in PieceKind
        }
        calls = tuple(part for part in parts if isinstance(part, ToolCall))
        return Said(texts[PieceKind.CONTENT], texts[PieceKind.REASONING], calls, finish)


def holding_of(root: Path, styles: Mapping[str, tuple[str, Sequence[str]]]) -> Callable[[str], Holding]:
    """Models that write their calls in a style, made once each; a style is a parser's name and its marks."""

    @cache
    def of(style: str) -> Holding:
        parser, marks = styles[style]
        return Holding(marked_model(root / style.replace(" ", ""), marks, parser=parser))

    return of
