"""Chat completions over a real listener, whole: what clients send and read."""

import asyncio
import threading
from typing import Any

import pytest
from openai import APITimeoutError, AsyncOpenAI

from app.api.ports import ChatPrompt, PreparedPrompt, TextPrompt
from app.errors import RequestError
from app.events import RequestEnded
from app.snapshots.entry import ANONYMOUS_SESSION
from app.vocabulary import Miss, Outcome
from tests.support.scripted_engine import ANSWER, CALL, THINK, WAIT_SECONDS, CharacterModel
from tests.support.serving import Serving, serving


class SlowModel(CharacterModel):
    """Takes as long to prepare a prompt as the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def prepare(self, prompt: ChatPrompt | TextPrompt, *, session: str, tenant: str) -> PreparedPrompt:
        assert self.go_on.wait(WAIT_SECONDS)
        return super().prepare(prompt, session=session, tenant=tenant)


HELLO: Any = [{"role": "user", "content": "Hello"}]


def openai(served: Serving) -> AsyncOpenAI:
    """The official client, without retries of its own."""
    return AsyncOpenAI(base_url=f"{served.url}/v1", api_key="unused", max_retries=0, timeout=10)


async def test_official_client_reads_a_whole_reply() -> None:
    """OpenAI's own client gets text, reason, usage and the cached tokens."""
    async with serving() as served, openai(served) as client:
        completion, job = await asyncio.gather(
            client.chat.completions.create(model="scripted", messages=HELLO, stop=["!"]),
            served.engine.answer("Hi, you! And more", cached_tokens=5, miss=None),
        )

        assert completion.choices[0].message.content == "Hi, you"
        assert completion.choices[0].finish_reason == "stop"
        assert completion.usage is not None
        assert completion.usage.prompt_tokens == len("user: Hello\n")
        assert completion.usage.completion_tokens == len("Hi, you!")
        assert completion.usage.prompt_tokens_details is not None
        assert completion.usage.prompt_tokens_details.cached_tokens == 5
        assert completion.id == job.id
        assert completion.created == 1_800_000_000
        assert served.engine.finished == [job.id]
        assert served.engine.cancelled == set()


async def test_reasoning_is_apart_from_content() -> None:
    """What the model thought is in `reasoning_content`; without tools, no text is taken for a call."""
    async with serving() as served:
        response = await served.answered(f"{THINK}hm{ANSWER}Now: {CALL}now")

        message = response.json()["choices"][0]["message"]
        assert message == {"role": "assistant", "content": "Now: now", "reasoning_content": "hm"}


async def test_logprobs_are_one_entry_a_token() -> None:
    """Each generated token has its entry with as many alternatives as were asked for."""
    async with serving() as served, openai(served) as client:
        completion, _ = await asyncio.gather(
            client.chat.completions.create(
                model="scripted", messages=HELLO, logprobs=True, top_logprobs=2, stop="!"
            ),
            served.engine.answer("Hi!"),
        )

        logprobs = completion.choices[0].logprobs
        assert logprobs is not None
        assert logprobs.content is not None
        assert [entry.token for entry in logprobs.content] == ["H", "i", "!"]
        assert [[top.token for top in entry.top_logprobs] for entry in logprobs.content] == [["a", "b"]] * 3


@pytest.mark.parametrize(
    ("cached_tokens", "miss", "header"),
    [
        (9, None, "hit; reused=9"),
        (0, Miss.DIVERGED, "miss; reused=0; reason=diverged"),
    ],
)
async def test_cache_header_says_what_was_reused(cached_tokens: int, miss: Miss | None, header: str) -> None:
    """Whole or as a stream, a reply's headers say whether its conversation was found warm."""
    async with serving() as served:
        for stream in (False, True):
            response, _ = await asyncio.gather(
                served.post(stream=stream),
                served.engine.answer("Hi", cached_tokens=cached_tokens, miss=miss),
            )
            assert response.headers["x-samovar-cache"] == header


async def test_request_becomes_a_job() -> None:
    """The job has the prompt's tokens, the session, the limits and the wish to stay out of the store."""
    async with serving(default_max_tokens=33) as served:
        fields = {"prompt_cache_key": "k", "cache_prompt": False, "max_tokens": 7, "temperature": 0}
        _, named = await asyncio.gather(served.post(**fields), served.engine.answer("Hi"))
        _, plain = await asyncio.gather(served.post(), served.engine.answer("Hi"))

        assert "".join(map(chr, named.tokens)) == "user: Hello\n"
        assert (named.session, named.use_snapshots, named.max_tokens) == ("k", False, 7)
        assert named.sampling.temperature == 0
        assert named.trace is not None
        assert (plain.session, plain.use_snapshots, plain.max_tokens) == (ANONYMOUS_SESSION, True, 33)
        assert named.id != plain.id
        assert [session for _, session, _ in served.model.prepared] == ["k", ANONYMOUS_SESSION]


@pytest.mark.parametrize("header", ["X-Session-Id", "Session-Id", "X-Claude-Code-Session-Id"])
async def test_session_headers_name_the_conversation(header: str) -> None:
    """Clients that can only set headers get their conversation kept as well, however the name is cased."""
    async with serving() as served:
        _, job = await asyncio.gather(
            served.client.post(
                "/v1/chat/completions", json={"messages": HELLO}, headers={header: "conversation"}
            ),
            served.engine.answer("Hi"),
        )
        assert job.session == "conversation"


async def test_default_limit_is_what_the_context_leaves() -> None:
    """Without any limit a reply may fill the context, and not more."""
    async with serving(model=CharacterModel(context_length=40)) as served:
        _, job = await asyncio.gather(served.post(), served.engine.answer("Hi"))

        assert job.max_tokens == 40 - len("user: Hello\n")


async def test_the_official_client_tries_again_by_itself() -> None:
    """A full queue is one of the answers after which it sends its request once more."""
    async with serving() as served, openai(served).with_options(max_retries=2) as client:
        served.engine.refusal = RequestError("full", status=429, code="queue_full", retry_after_seconds=0)
        asked = asyncio.create_task(client.chat.completions.create(model="scripted", messages=HELLO))
        async with asyncio.timeout(WAIT_SECONDS):
            while not served.events:
                await asyncio.sleep(0.005)
        served.engine.refusal = None
        await served.engine.answer("Hi")

        assert (await asked).choices[0].message.content == "Hi"


async def test_the_official_clients_timeout_frees_the_place() -> None:
    """It closes the connection, and the job is cancelled."""
    async with serving() as served, openai(served).with_options(timeout=0.2) as client:
        with pytest.raises(APITimeoutError):
            await client.chat.completions.create(model="scripted", messages=HELLO)

        await served.engine.until_cancelled(await served.engine.next_job())


@pytest.mark.parametrize("model", ["scripted", "owner/scripted-hub-name", "", None])
async def test_model_answers_to_its_names_and_to_none(model: str | None) -> None:
    """The served name, an alias, an empty name and no name all mean the one model there is."""
    async with serving() as served:
        response = await served.answered("Hi", model=model)

        assert response.status_code == 200
        assert response.json()["model"] == "scripted"


async def test_request_id_is_kept_if_sane() -> None:
    """A client's own id comes back; one that could break a header or a log is replaced by ours."""
    async with serving() as served:
        sent = []
        for given in ("trace-me.1:2_3", "a" * 129, "sp ace", None):
            headers = {} if given is None else {"x-request-id": given}
            response = await served.client.get("/v1/models", headers=headers)
            sent.append(response.headers["x-request-id"])

        assert sent == ["trace-me.1:2_3", "00000001", "00000002", "00000003"]


async def test_completed_request_is_one_event() -> None:
    """A whole reply and a stream are each told once, under the route's template, as completed."""
    async with serving() as served:
        await served.answered("Hi")
        await served.answered("Hi", stream=True)

        events = await served.ended(2)
        assert [(event.route, event.outcome, event.status) for event in events] == [
            ("/v1/chat/completions", Outcome.COMPLETED, 200)
        ] * 2
        assert all(isinstance(event, RequestEnded) and event.seconds > 0 for event in events)


async def test_prompt_that_takes_long_does_not_hold_up_the_probes() -> None:
    """Templates and tokenisers run off the event loop: the server answers while a prompt is prepared."""
    model = SlowModel()
    async with serving(model=model) as served:
        waiting = asyncio.create_task(served.post())
        assert (await served.client.get("/livez")).status_code == 200
        assert not served.engine.has_job
        model.go_on.set()
        await served.engine.answer("Hi")
        assert (await waiting).status_code == 200
