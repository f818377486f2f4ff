"""`samovar chat`: a quick talk with a running server, in the terminal or through a pipe."""

import argparse
import contextlib
import importlib
import sys
import unicodedata
import uuid
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from app.commands.arguments import DONE, Commands, add_verb
from app.commands.chat_stream import Counted, Said, turn
from app.commands.http_client import add_url, ask
from app.errors import SamovarError

_HELP = """\
In a terminal, one line is one message; /reset begins a new conversation, /exit or Ctrl-D leaves, and Ctrl-C
ends a reply. Through a pipe, everything that is read is one message, and only the reply is written to
standard output:

  git diff | samovar chat --system "Say in one sentence what this change does."

A server with API keys is asked with the one in SAMOVAR_AUTH__KEY."""

_COMMANDS = "/reset begins a new conversation, /exit leaves"


def register(commands: Commands) -> None:
    """Add the verb."""
    verb = add_verb(commands, "chat", _chat, "talk with a running server")
    verb.epilog = _HELP
    add_url(verb)
    verb.add_argument("--system", default="", metavar="TEXT", help="what the model is told before all else")


def _chat(arguments: argparse.Namespace) -> int:
    (model,) = ask(arguments.url, "GET", "/v1/models", expecting="data")["data"]
    if sys.stdin.isatty():
        talk = Talk(
            arguments.url, arguments.system, words=Console(highlight=False), numbers=Console(highlight=False)
        )
        _converse(talk, str(model["id"]))
    else:
        # Numbers out of the way, so that what comes out of the pipe is the reply and nothing else.
        talk = Talk(
            arguments.url,
            arguments.system,
            words=Console(highlight=False),
            numbers=Console(stderr=True, highlight=False),
        )
        talk.say(sys.stdin.read())
    return DONE


@dataclass
class Talk:
    """A conversation so far, and where it is written."""

    url: str
    system: str
    words: Console
    numbers: Console
    session: str = ""
    messages: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew, under another session."""
        self.session = f"chat-{uuid.uuid4()}"
        self.messages = [{"role": "system", "content": self.system}] if self.system else []

    def say(self, text: str) -> None:
        """Send a message and write the reply as it comes. Ctrl-C ends it; what was written of it counts.

        Raises:
            SamovarError: there is no reply; the message counts as not sent.
        """
        asked = [*self.messages, {"role": "user", "content": text}]
        reply, counted = "", None
        try:
            for part in turn(self.url, asked, session=self.session):
                if isinstance(part, Counted):
                    counted = part
                    continue
                # Noted before it is written: Ctrl-C may come as soon as it is seen.
                reply += "" if part.thinking else part.text
                self._write(part)
        except KeyboardInterrupt:
            self.numbers.print("\n(interrupted)", style="dim")
        else:
            self.words.print()
        if reply:
            self.messages = [*asked, {"role": "assistant", "content": reply}]
        if counted is not None:
            self.numbers.print(Text(_summary(counted)), style="dim")

    def _write(self, part: Said) -> None:
        style = "dim italic" if part.thinking else ""
        self.words.print(Text(printable(part.text)), style=style, end="", soft_wrap=True)


def printable(text: str) -> str:
    """`text` without control characters: a model's words do not move the cursor or recolour the terminal."""
    return "".join(
        character for character in text if character in "\n\t" or unicodedata.category(character) != "Cc"
    )


def _summary(counted: Counted) -> str:
    outcome, *more = counted.cache.split("; ")
    reason = next((each.removeprefix("reason=") for each in more if each.startswith("reason=")), "")
    return (
        f"[{counted.prompt_tokens} prompt tokens, {counted.cached_tokens} of them cached"
        f" ({outcome}{f': {reason}' if reason else ''}); {counted.completion_tokens} tokens of reply]"
    )


def _converse(talk: Talk, model: str) -> None:
    # Editing of lines and their history: `input` uses it once it is there, which it is not on every system.
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")
    talk.words.print(f"[bold]{escape(model)}[/bold] at {escape(talk.url)}: {_COMMANDS}")
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            talk.words.print()
            return
        match line:
            case "":
                pass
            case "/exit":
                return
            case "/reset":
                talk.reset()
                talk.words.print("a new conversation", style="dim")
            case "/help":
                talk.words.print(_COMMANDS, style="dim")
            case _:
                try:
                    talk.say(line)
                except SamovarError as error:
                    talk.words.print(Text(f"\n{error}"), style="red")
