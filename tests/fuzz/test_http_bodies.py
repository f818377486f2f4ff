"""Whatever is sent as a body: an answer or a refusal in the API's own shape, and never a failure."""

import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.application import INFERENCE_ROUTES
from tests.support.process import Samovar

CHAT = "/v1/chat/completions"
REFUSALS = {400, 404, 413}

FIELDS = (
    *("model", "messages", "prompt", "input", "max_tokens", "max_completion_tokens", "max_output_tokens"),
    *("stream", "stream_options", "temperature", "top_p", "top_k", "min_p", "stop", "seed", "n", "user"),
    *("presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "logprobs", "tools"),
    *("top_logprobs", "tool_choice", "parallel_tool_calls", "prompt_cache_key", "cache_prompt", "system"),
    *("chat_template_kwargs", "response_format", "metadata", "instructions", "conversation", "thinking"),
)
"""Fields that some route knows; the others come across them as unknown ones."""

ODD_NUMBERS = (0, -1, 1, 2, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**40, 1e308, -0.0, 0.1)
ODD_TEXTS = (
    "",
    "\x00",
    "\u202e",
    "a\u0300" * 9,
    "\U0001f375",
    "<|im_end|>",
    "{{ messages }}",
    "user",
    "x" * 3000,
)

scalars = (
    st.none()
    | st.booleans()
    | st.sampled_from(ODD_NUMBERS)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from(ODD_TEXTS)
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(("system", "user", "assistant", "tool", "developer")) | trees},
        optional={
            "content": st.text(max_size=30) | st.sampled_from(ODD_TEXTS) | trees,
            "tool_calls": trees,
            "reasoning_content": trees,
            "tool_call_id": scalars,
        },
    ),
    max_size=4,
)
GREETING: Mapping[str, Any] = {
    "messages": [{"role": "user", "content": "Hello"}],
    "prompt": "Hello",
    "input": "Hello",
    "max_tokens": 2,
}
bodies = st.builds(
    lambda said, odd: {**GREETING, **({} if said is None else {"messages": said}), **odd},
    st.none() | messages,
    st.dictionaries(st.sampled_from(FIELDS), trees, max_size=3),
)


def send(server: Samovar, route: str, body: bytes) -> httpx.Response:
    """One request as it stands; whatever comes of it, the server must not have failed."""
    answer = httpx.post(
        server.url + route, content=body, headers={"content-type": "application/json"}, timeout=60
    )
    assert answer.status_code in {200, *REFUSALS}, (answer.status_code, answer.text, body[:500])
    if answer.status_code != 200:
        said = answer.json()
        assert said["error"]["message"], said
        assert len(answer.content) < 5000, "a refusal does not repeat what was sent"
    return answer


@pytest.mark.parametrize("route", INFERENCE_ROUTES)
@given(body=bodies)
@settings(max_examples=30)
def test_any_fields_in_any_form_are_served_or_refused(target, route, body):
    """On every route that generates: 200, or a refusal with a sentence."""
    send(target, route, json.dumps(body).encode())


@given(body=st.binary(max_size=200) | trees.map(lambda tree: json.dumps(tree).encode()))
@settings(max_examples=30)
def test_any_bytes_are_refused(target, body):
    """What is no chat request is no failure either."""
    assert send(target, CHAT, body).status_code == 400


def chat(content: bytes) -> bytes:
    """A request whose one message has these bytes as its content."""
    return b'{"max_tokens": 1, "messages": [{"role": "user", "content": ' + content + b"}]}"


@pytest.mark.parametrize(
    "body",
    [
        chat(b'"\xff\xfe"'),
        chat(b'"\xed\xa0\x80"'),
        chat(b'"\xc0\xaf"'),
        chat(b'"\\ud800"'),
        b"\xef\xbb\xbf" + chat(b'"Hi"'),
        chat(b'"Hi"').decode().encode("utf-16"),
        chat(b'"Hi')[:40],
        chat(b'"Hi"') + b"{}",
        b"[" * 100_000 + b"]" * 100_000,
        b'{"messages": ' + b'[{"a": ' * 50_000,
        b'{"a": ' * 20_000 + b"1" + b"}" * 20_000,
        b'{"temperature": 1e999, "messages": [{"role": "user", "content": "Hi"}]}',
        b'{"temperature": NaN, "messages": [{"role": "user", "content": "Hi"}]}',
        b'{"max_tokens": 1.0e1, "messages": "no", "messages": 5}',
    ],
    ids=lambda body: repr(body[:60]),
)
def test_what_is_not_a_request_is_told_so(target, body):
    """Invalid UTF-8, half a surrogate, other encodings, halves, too much, too deep, not a number."""
    assert send(target, CHAT, body).status_code == 400


def test_a_key_that_comes_twice_means_what_it_said_last(target):
    """As in every common JSON parser, so that no proxy before the server reads something else."""
    body = b'{"max_tokens": "no", "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}'
    answer = send(target, CHAT, body)

    assert answer.status_code == 400, "each of them has to be of the right type"
    body = b'{"max_tokens": 7, "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}'
    assert send(target, CHAT, body).json()["usage"]["completion_tokens"] == 1


def test_a_limit_beyond_all_numbers_is_no_limit(target):
    """A reply may be as long as there is room for, and the default ends it."""
    body = (
        b'{"max_tokens": ' + b"9" * 400 + b', "stop": [" "], "messages": [{"role": "user", "content": "Hi"}]}'
    )
    assert send(target, CHAT, body).status_code in {200, 400}


def test_a_tree_that_is_as_deep_as_it_may_be_is_no_failure(target):
    """Where a route keeps a part of the body as it is, its depth ends in a refusal."""
    for depth in (10, 100, 500, 900, 2000):
        deep = b'{"a": ' * depth + b"1" + b"}" * depth
        body = b'{"max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}], "tools": [{"type":'
        body += b' "function", "function": {"name": "f", "parameters": ' + deep + b"}}]}"
        send(target, CHAT, body)


@pytest.mark.parametrize(
    "text", ["\u202e\u0000\ufeff", "e\u0301" * 50, "\U0010ffff" * 20, "🫖" * 50, "\r\n\t\x1b[31m"]
)
def test_any_text_is_a_message(target, text):
    """All of Unicode is served."""
    body = {"max_tokens": 1, "messages": [{"role": "user", "content": text}]}
    assert send(target, CHAT, json.dumps(body).encode()).status_code == 200
    assert send(target, CHAT, json.dumps(body, ensure_ascii=False).encode()).status_code == 200
