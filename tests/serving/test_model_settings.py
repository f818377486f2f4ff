"""What can be set about the model, asked of a real server by the official client."""

import json
from typing import Any

import pytest
from openai import BadRequestError

from tests.support.process import samovar

CONTEXT_LENGTH = 200

TEMPLATE = (
    "{{ mood }}: {% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}> {% endif %}"
)


def test_names_template_and_length_are_what_was_set(tmp_path: Any, tiny_folder: Any) -> None:
    """Every alias is served, the template's variables hold where a request sets none, the length binds."""
    (tmp_path / "own.jinja").write_text(TEMPLATE)
    flags = {
        "--model": str(tiny_folder("llama")),
        "--alias": "house",
        "--aliases": "gpt-4o, assistant",
        "--chat-template": str(tmp_path / "own.jinja"),
        "--template-kwargs": json.dumps({"mood": "calm"}),
        "--context-length": str(CONTEXT_LENGTH),
    }
    with samovar(*(word for pair in flags.items() for word in pair), folder=tmp_path) as server:
        client = server.client()

        def prompt_tokens(model: str, text: str = "Hello", **more: Any) -> int:
            reply = client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": text}], max_tokens=1, extra_body=more
            )
            assert reply.model == "house"
            assert reply.usage is not None
            return reply.usage.prompt_tokens

        (card,) = client.models.list().data
        assert (server.model, card.id) == ("house", "house")
        assert (card.model_extra or {})["context_length"] == CONTEXT_LENGTH
        tokens = {prompt_tokens(name) for name in ("house", "gpt-4o", "assistant", "llama")}
        # A token is a byte.
        assert tokens == {len("calm: Hello\n> ")}
        cross = prompt_tokens("house", chat_template_kwargs={"mood": "very cross"})
        assert cross == len("very cross: Hello\n> ")
        with pytest.raises(BadRequestError) as refused:
            prompt_tokens("house", "x" * CONTEXT_LENGTH)
        assert refused.value.code == "context_length_exceeded"
        with pytest.raises(BadRequestError) as refused:
            prompt_tokens("house", chat_template_kwargs={"messages": []})
        assert refused.value.param == "chat_template_kwargs"
