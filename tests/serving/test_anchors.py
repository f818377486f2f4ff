"""What one conversation can use of another, of its own past and of a diverging one, over real processes."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.process import samovar

SYSTEM = {"role": "system", "content": "You keep a tea house by the sea, and you speak briefly. " * 6}
SYSTEM_TOKENS = len(f"_system\n{SYSTEM['content']}_\n_user\n")
"""One token a byte and one for each mark: the system message, and the header of whatever a user says next."""

GENERATION_PROMPT_TOKENS = len("_assistant\n")
FAMILIES = pytest.mark.parametrize("family", ["llama", "lfm2"])
BREW = {"type": "function", "function": {"name": "brew", "parameters": {"type": "object", "properties": {}}}}
# A warm-up would add states of its own in its own time; here every state comes from a request.
BARE = ("--no-snapshot-warmup",)


@dataclass(frozen=True)
class Said:
    """A reply, and how much of its prompt was computed earlier."""

    text: str
    cached: int
    prompt: int

    @property
    def history(self) -> int:
        """Tokens before the generation prompt."""
        return self.prompt - GENERATION_PROMPT_TOKENS

    @property
    def boundary(self) -> int:
        """Where its state is kept: before the prompt's last token."""
        return self.prompt - 1


def ask(server, *messages, session=None, **more: Any) -> Said:
    """One request at temperature 0; without a session, the client names none."""
    answer = server.client().chat.completions.create(
        model=server.model,
        messages=list(messages),
        temperature=0,
        max_tokens=8,
        extra_body=more | ({"prompt_cache_key": session} if session else {}),
    )
    usage = answer.usage
    return Said(
        answer.choices[0].message.content or "",
        usage.prompt_tokens_details.cached_tokens,
        usage.prompt_tokens,
    )


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


@FAMILIES
def test_a_new_session_under_a_known_system_prompt_starts_warm(tmp_path, tiny_folder, family):
    """Whoever comes later reuses the system part and nothing else, and is told what it is told cold."""
    with samovar("--model", str(tiny_folder(family)), *BARE, folder=tmp_path) as server:
        first = ask(server, SYSTEM, user("Have you got green tea?"), session="anna")
        second = ask(server, SYSTEM, user("Is there a view?"), session="bert")
        nameless = ask(server, SYSTEM, user("Who are you?"))
        stats = server.stats()
        metrics = server.metrics()
        cold = ask(server, SYSTEM, user("Is there a view?"), cache_prompt=False)

    assert [first.cached, second.cached, nameless.cached] == [0, SYSTEM_TOKENS, SYSTEM_TOKENS]
    assert second.text == cold.text
    assert stats["snapshot_entries_by_origin"]["system"] == 1
    assert stats["snapshot_inserts_by_origin"]["system"] == 1
    assert metrics['samovar_snapshot_entries{origin="system"}'] == 1
    assert metrics['samovar_snapshot_bytes{origin="system"}'] > 0


def test_other_tools_have_an_anchor_of_their_own(tmp_path, tiny_folder):
    """What the tools change in the prompt is not shared across them, and both are remembered."""
    with samovar("--model", str(tiny_folder("lfm2")), *BARE, folder=tmp_path) as server:
        ask(server, SYSTEM, user("Green tea?"), session="a")
        tooled = ask(server, SYSTEM, user("Green tea?"), session="b", tools=[BREW])
        again = ask(server, SYSTEM, user("Black tea?"), session="c", tools=[BREW])
        plain = ask(server, SYSTEM, user("White tea?"), session="d")
        stats = server.stats()

    assert [tooled.cached, again.cached, plain.cached] == [0, SYSTEM_TOKENS, SYSTEM_TOKENS]
    assert stats["snapshot_entries_by_origin"]["system"] == 2


def test_without_the_setting_a_new_session_starts_cold(tmp_path, tiny_folder):
    """`snapshots.system_anchors = false` keeps no state of a system prompt."""
    flags = ("--model", str(tiny_folder("lfm2")), "--no-snapshot-system-anchors", *BARE)
    with samovar(*flags, folder=tmp_path) as server:
        ask(server, SYSTEM, user("Green tea?"), session="a")
        second = ask(server, SYSTEM, user("Black tea?"), session="b")
        stats = server.stats()

    assert second.cached == 0
    assert stats["snapshot_inserts_by_origin"]["system"] == 0


@pytest.mark.parametrize("ancestors", [0, 1])
def test_an_edited_last_message_goes_back_to_the_turn_before(tmp_path, tiny_folder, ancestors):
    """With a kept ancestor to the end of the first prompt, without one to the system prompt; no eviction."""
    flags = ("--model", str(tiny_folder("lfm2")), "--snapshot-keep-ancestors", str(ancestors), *BARE)
    with samovar(*flags, folder=tmp_path) as server:
        messages = [SYSTEM, user("Have you got green tea?")]
        first = ask(server, *messages, session="anna")
        messages.append(assistant(first.text))
        second = ask(server, *messages, user("And what does it cost?"), session="anna")
        stats = server.stats()
        edited = [ask(server, *messages, user(f"Then I take {n}."), session="anna") for n in (1, 2)]
        cold = ask(server, *messages, user("Then I take 1."), cache_prompt=False)
        after = server.stats()

    assert second.cached == first.boundary
    assert stats["snapshot_entries_by_origin"] == {"boundary": 1 + ancestors, "completion": 0, "system": 1}
    assert [each.cached for each in edited] == [first.boundary if ancestors else SYSTEM_TOKENS] * 2
    assert edited[0].text == cold.text
    assert after["snapshot_evictions_lru"] == 0


def test_a_dense_conversation_s_edited_message_reuses_all_before_it(tmp_path, tiny_folder):
    """One entry is cut back to where the edit begins, and a replay to the last token but one."""
    edit = "And what does it weigh?"
    with samovar("--model", str(tiny_folder("llama")), *BARE, folder=tmp_path) as server:
        messages = [user("Have you got any green tea from the hills of Uji?")]
        first = ask(server, *messages, session="anna")
        messages.append(assistant(first.text))
        second = ask(server, *messages, user("And what does it cost?"), session="anna")
        replay = ask(server, *messages, user("And what does it cost?"), session="anna")
        entries = server.stats()["snapshot_entries"]
        edited = ask(server, *messages, user(edit), session="anna")
        cold = ask(server, *messages, user(edit), cache_prompt=False)

    assert entries == 1
    assert (replay.cached, replay.text) == (second.prompt - 1, second.text)
    assert edited.cached == second.history - len("cost?_\n")
    assert edited.text == cold.text


WINDOW = 64


@pytest.mark.parametrize(("word", "fits"), [("green tea", True), ("a long story about tea " * 4, False)])
def test_a_sliding_window_is_cut_back_until_it_has_wrapped(tmp_path, tiny_folder, word, fits):
    """Within the window an edit reuses the common prefix; beyond it, only the same prompt finds its state."""
    with samovar("--model", str(tiny_folder("gemma3_text")), *BARE, folder=tmp_path) as server:
        question = f"Tell me something of {word} 1"
        first = ask(server, user(question), session="anna")
        replay = ask(server, user(question), session="anna")
        edited = ask(server, user(question[:-1] + "2"), session="anna")
        cold = ask(server, user(question[:-1] + "2"), cache_prompt=False)

    assert (first.boundary < WINDOW) is fits
    assert replay.cached == first.boundary
    assert edited.cached == (first.history - len("1_\n") if fits else 0)
    assert (replay.text, edited.text) == (first.text, cold.text)
