"""From what a client wants of a reply to the constraint it is held to. Touches no device: any thread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from llguidance import LLTokenizer

from app.chat import ChatPrompt, PreparedPrompt, ReplySchema, ToolUse, continues_reply
from app.engine.call_grammar import KNOWN, call_rules
from app.engine.call_writing import CallRules, OfferedTool, escaped, text
from app.engine.constraint import ReplyConstraint, Thinking, all_but
from app.engine.grammar import ANY_OBJECT, GrammarCompiler, SchemaAt, json_rule
from app.engine.number_bounds import TokenDigits, digits_of
from app.engine.tool_calls import ToolFormat
from app.engine.vocabulary import grammar_vocabulary
from app.errors import RequestError

_NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
"""Of a tool that says nothing of its parameters."""

_LEAD = r"LEAD: /\n{1,2}/"
"""What models were taught to write between their thinking and their answer."""

_OPTIONS = '%llguidance {"no_forcing": true}'
"""Text that can only go on in one way would be cut into tokens by the library, and a mark's text in a schema
into the mark's own token, which is no text to it."""

_TEXT = r"TEXT: /(.|\n)+/"

_THAT_CAN = f"The ways that have one are {', '.join(KNOWN)}."


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A grammar and the schemas in it that are the client's; whether all it allows is JSON."""

    grammar: str
    schemas: tuple[SchemaAt, ...]
    is_json: bool = False


class ReplyRules:
    """Makes constraints for one model.

    Args:
        tokenizer: mlx-lm's `TokenizerWrapper`.
        style: how the model writes its calls; None where that is not known.
    """

    def __init__(self, tokenizer: Any, style: ToolFormat | None) -> None:
        self._tokenizer = tokenizer
        self._style = style

    def read_vocabulary(self) -> None:
        """Read the tokenizer's vocabulary, and warn where it cannot be; else the first use does so.

        It takes up to seconds, in which no other thread of Python runs: best while nobody is being served.
        """
        _ = self._vocabulary

    @cached_property
    def _vocabulary(self) -> LLTokenizer | None:
        return grammar_vocabulary(self._tokenizer)

    @cached_property
    def _compiler(self) -> GrammarCompiler | None:
        return None if self._vocabulary is None else GrammarCompiler(self._vocabulary)

    @cached_property
    def _digits(self) -> TokenDigits | None:
        return None if self._vocabulary is None else digits_of(self._vocabulary)

    @cached_property
    def _thinking(self) -> Thinking | None:
        return None if self._vocabulary is None else _thinking(self._tokenizer, self._vocabulary.vocab_size)

    @property
    def _lead(self) -> str:
        return "" if self._thinking is None else "LEAD? "

    def constraint(
        self,
        chat: ChatPrompt,
        prompt: PreparedPrompt,
        *,
        schema: ReplySchema | None,
        tools: ToolUse | None,
    ) -> ReplyConstraint | None:
        """What the reply to `prompt` is held to; None where it is free.

        Raises:
            RequestError: this model's replies cannot be held to it, or its schema cannot be followed.
        """
        wanted = self._wanted(schema, tools)
        if wanted is None:
            return None
        vocabulary, compiler = self._able(wanted.schemas)
        grammar = compiler.matcher(wanted.grammar, schemas=wanted.schemas)
        begun = str(chat.messages[-1]["content"]) if continues_reply(chat) else ""
        if begun:
            grammar = grammar.deep_copy()
            if not grammar.consume_tokens(vocabulary.tokenize_str(begun)):
                raise RequestError(
                    "messages: the last message, which the reply goes on with, does not begin what the reply"
                    " has to be.",
                    param="messages",
                )
        return ReplyConstraint(
            vocabulary=vocabulary,
            grammar=grammar,
            thinking=self._thinking,
            starts_thinking=prompt.starts_reasoning,
            may_think=prompt.may_reason,
            digits=self._digits if wanted.is_json else None,
            begun=begun.encode(),
        )

    def _wanted(self, schema: ReplySchema | None, tools: ToolUse | None) -> _Wanted | None:
        said = () if schema is None else (SchemaAt(schema.schema, schema.field, "the reply"),)
        if tools is None or not (tools.must or schema is not None or any(map(_is_strict, tools.tools))):
            if schema is None:
                return None
            return replace(_grammar(f"{self._lead}{json_rule(schema.schema)}", (), said), is_json=True)
        offered = [_offered(tool, strictly=tools.must) for tool in tools.tools]
        rules = self._calls(offered)
        if rules is None:
            self._refuse_without_rules(schema, tools)
            return None
        arguments = tuple(SchemaAt(tool.schema, "tools", f"the tool '{tool.name}'") for tool in offered)
        begin = self._mark(self._begin)
        calls = rules.many if tools.parallel else rules.one
        if tools.must:
            return _grammar(f"{self._lead}{begin} {calls}", rules.rules, arguments)
        if schema is not None:
            start = f"{self._lead}({json_rule(schema.schema)} | {begin} {calls})"
            return _grammar(start, rules.rules, (*said, *arguments))
        return self._free_text_and(rules, arguments, parallel=tools.parallel)

    def _refuse_without_rules(self, schema: ReplySchema | None, tools: ToolUse) -> None:
        """A format that is not known: `strict` is not held to then, and what needs it is refused."""
        if tools.must:
            raise RequestError(
                "tool_choice: this model cannot be made to call, as its way of writing calls "
                f"({self._name or 'unknown'}) has no grammar here; only 'none' and 'auto' are served."
                f" {_THAT_CAN}",
                param="tool_choice",
            )
        if schema is not None:
            raise RequestError(
                f"{schema.field}: cannot be served together with tools, as this model's way of writing calls "
                f"({self._name or 'unknown'}) has no grammar here; leave the tools out, or set tool_choice to"
                f" 'none'. {_THAT_CAN}",
                param=schema.field,
            )

    def _free_text_and(self, rules: CallRules, arguments: tuple[SchemaAt, ...], *, parallel: bool) -> _Wanted:
        """Text as it comes, and calls by their rules."""
        begin = self._mark(self._begin)
        if begin.startswith("<"):
            head = f"head: TEXT? {begin}"
        else:
            # The shortest text that ends with the mark.
            head = rf"head[lazy]: /(.|\n)*{escaped(self._begin)}/"
        if parallel and rules.text_follows:
            start = f"(head {rules.one})* TEXT?"
        else:
            start = f"TEXT? | head {rules.many if parallel else rules.one}"
        return _grammar(start, (*rules.rules, head, _TEXT), arguments)

    def _calls(self, offered: Sequence[OfferedTool]) -> CallRules | None:
        return None if self._style is None else call_rules(self._style, offered, self._mark)

    @property
    def _name(self) -> str:
        return "" if self._style is None else self._style.name

    @property
    def _begin(self) -> str:
        return "" if self._style is None else self._style.start

    def _mark(self, mark: str) -> str:
        """The mark's one token, which models were taught to write it with, or else its text."""
        tokens = self._tokenizer.encode(mark, add_special_tokens=False)
        return f"<[{tokens[0]}]>" if len(tokens) == 1 else text(mark)

    def _able(self, schemas: tuple[SchemaAt, ...]) -> tuple[LLTokenizer, GrammarCompiler]:
        field = schemas[0].field
        if self._vocabulary is None or self._compiler is None:
            raise RequestError(
                f"{field}: this model's replies cannot be held to a grammar, because of its tokenizer.",
                param=field,
            )
        if self._tokenizer.response_transitions or self._tokenizer.structural_markers:
            raise RequestError(
                f"{field}: this model's replies cannot be held to a grammar, because they have marks between"
                " parts that only it knows.",
                param=field,
            )
        return self._vocabulary, self._compiler


def _grammar(start: str, rules: Sequence[str], schemas: tuple[SchemaAt, ...]) -> _Wanted:
    lines = [_OPTIONS, f"start: {start}", *rules, *([_LEAD] if start.startswith("LEAD") else [])]
    return _Wanted("\n".join(lines) + "\n", schemas)


def _is_strict(tool: Mapping[str, Any]) -> bool:
    return bool(tool["function"].get("strict"))


def _offered(tool: Mapping[str, Any], *, strictly: bool) -> OfferedTool:
    function = tool["function"]
    if not (strictly or _is_strict(tool)):
        return OfferedTool(function["name"], ANY_OBJECT)
    schema = {"type": "object", **(function.get("parameters") or _NO_ARGUMENTS)}
    if schema["type"] != "object":
        raise RequestError(
            f"tools: the parameters of '{function['name']}' must be a schema of type 'object'.",
            param="tools",
        )
    return OfferedTool(function["name"], schema)


def _thinking(tokenizer: Any, vocabulary_size: int) -> Thinking | None:
    if not tokenizer.has_thinking:
        return None
    begin_call = tokenizer.tool_call_start_tokens or ()
    # An end inside the thinking part would be a reply without an answer, and a call one outside the grammar.
    kept_out = {*tokenizer.eos_token_ids, *(begin_call if len(begin_call) == 1 else ())}
    return Thinking(
        opens_with=tuple(tokenizer.think_start_tokens),
        closes_with=tokenizer.think_end.encode(),
        free=all_but(kept_out, vocabulary_size),
    )
