"""Clients that behave as real ones do, at random: they go on, go back, ask again, begin anew, or leave."""

import random
from dataclasses import replace

from app.chat import ChatPrompt, with_reply

WORDS = ("samovar", "tea", "coal", "steam", "cup", "lemon", "sugar", "saucer", "embers", "kettle")
SYSTEM_PROMPTS = ("Pour the tea slowly, and speak of nothing else but tea.", "You are the samovar itself.")
TOOL = {"type": "function", "function": {"name": "w", "parameters": {}}}


class Talk:
    """One client. `begun` counts the conversations it has had.

    Args:
        session: what it calls itself.
        rng: decides what it does.
    """

    def __init__(self, session: str, rng: random.Random) -> None:
        self.session = session
        self.begun = 0
        self._rng = rng
        self._chat = ChatPrompt(messages=(), template_kwargs={})

    def next_prompt(self) -> ChatPrompt:
        """What it asks now."""
        whim = self._rng.random()
        if whim < 0.22 or not self._chat.messages:
            self._begin()
            self._ask()
        elif whim < 0.34 and len(self._chat.messages) > 2:
            self._go_back()
            self._ask()
        elif whim < 0.42:
            # The same again; after a reply, more of it.
            pass
        else:
            self._ask()
        return self._chat

    def hear(self, reply: str) -> ChatPrompt:
        """Take a reply to what was asked last; some clients send it back, some something else."""
        self._chat = with_reply(self._chat, reply if self._rng.random() < 0.6 else "as you say")
        return self._chat

    def _begin(self) -> None:
        self.begun += 1
        system = self._rng.choice(("", *SYSTEM_PROMPTS))
        self._chat = ChatPrompt(
            messages=({"role": "system", "content": system},) if system else (),
            tools=(TOOL,) if self._rng.random() < 0.2 else None,
            template_kwargs={"enable_thinking": self._rng.random() < 0.5},
        )

    def _go_back(self) -> None:
        """To before one of its own messages, which it then puts in other words."""
        asked = [n for n, message in enumerate(self._chat.messages) if message["role"] == "user"]
        self._chat = replace(self._chat, messages=self._chat.messages[: self._rng.choice(asked)])

    def _ask(self) -> None:
        text = " ".join(self._rng.choices(WORDS, k=self._rng.randrange(1, 9)))
        self._chat = replace(self._chat, messages=(*self._chat.messages, {"role": "user", "content": text}))
