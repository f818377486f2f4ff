"""`POST /v1/chat/completions`: from a checked request to the last byte of its answer."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from http import HTTPStatus

import msgspec
from litestar import post
from litestar.di import NamedDependency
from litestar.openapi import ResponseSpec
from litestar.params import JSONBody
from litestar.types import ASGIApp, Receive, Scope, Send
from opentelemetry.trace import Span

from app.api import sse
from app.api.authorization import caller_of
from app.api.captured_content import note_prompt, note_text
from app.api.connection import ClientGoneError, EventWriter, disconnected, unless
from app.api.errors import ErrorBody, error_body, failure, unavailable
from app.api.exchange import Exchange, exchange_of
from app.api.generation import Generation, running
from app.api.json_request import JsonRequest
from app.api.openai import translate
from app.api.openai.completion import ChatCompletion, CompletionWriter
from app.api.openai.schema import ChatRequest
from app.api.ports import ChatModel, ChatPrompt, Phase, PreparedPrompt
from app.api.reply import Reply
from app.api.services import Services
from app.api.tracing import chat_span, note_job, note_reply, trace_ref
from app.api.warmup import Turn, warm_up
from app.errors import RequestError
from app.events import Outcome
from app.scheduler.job import Job, JobId


@post(
    "/chat/completions",
    status_code=200,
    summary="Create a chat completion",
    tags=["OpenAI"],
    responses={
        200: ResponseSpec(
            ChatCompletion, description="The reply; with `stream`, chunks as server-sent events"
        ),
        400: ResponseSpec(ErrorBody, description="The request cannot be served as asked"),
        401: ResponseSpec(ErrorBody, description="An API key is needed"),
        403: ResponseSpec(ErrorBody, description="The API key may not do this"),
        404: ResponseSpec(ErrorBody, description="Another model was asked for"),
        429: ResponseSpec(ErrorBody, description="Too many requests, of all or of this key; see Retry-After"),
        503: ResponseSpec(ErrorBody, description="Loading, draining or failed; see Retry-After"),
    },
)
async def create_chat_completion(
    data: JSONBody[ChatRequest],
    request: JsonRequest,
    services: NamedDependency[Services],
    prompt_thread: NamedDependency[Executor],
) -> ASGIApp:
    """Check what can be checked without the model's tokens; the rest happens in `ChatAnswer`."""
    health = services.engine.health()
    model = services.engine.model
    if health.phase is not Phase.READY or model is None:
        raise unavailable(health)
    if data.model and data.model != model.name and data.model not in model.aliases:
        raise RequestError(
            f"The model '{data.model}' is not served here; '{model.name}' is.",
            status=404,
            param="model",
            code="model_not_found",
        )
    session = translate.session(data, request.headers)
    # Two tenants that name a session alike have two.
    scope = (caller_of(request.scope).tenant, session)
    return ChatAnswer(services, prompt_thread, model, data, scope)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request in the engine's terms, and the means to write its reply."""

    turn: Turn
    writer: CompletionWriter


class ChatAnswer:
    """The ASGI application that answers one chat request, so that all it opens is closed in one place."""

    def __init__(
        self,
        services: Services,
        prompt_thread: Executor,
        model: ChatModel,
        chat: ChatRequest,
        scope: tuple[str, str],
    ) -> None:
        self._services = services
        self._prompt_thread = prompt_thread
        self._model = model
        self._chat = chat
        self._scope = scope
        self._tenant, self._session = scope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer. Raises only while the response has not begun.

        Raises:
            RequestError: what the client is to be told in place of a reply.
        """
        exchange = exchange_of(scope)
        with (
            chat_span(
                self._services.tracer,
                asked=self._chat.model or self._model.name,
                served=self._model.name,
                stream=bool(self._chat.stream),
            ) as span,
            # Closed as soon as the job is submitted; until then the engine may wait for it.
            contextlib.ExitStack() as announced,
        ):
            announced.enter_context(self._services.engine.expecting())
            prepared = await self._prepare(span)

            def submitted() -> None:
                announced.close()
                exchange.job_ids.append(prepared.turn.job.id)

            try:
                await self._generate(prepared, exchange, receive, send, on_submitted=submitted)
            except ClientGoneError:
                exchange.outcome = Outcome.CANCELLED
            finally:
                note_reply(span, prepared.turn.reply)
                if self._services.capture_content:
                    note_text(span, prepared.turn.reply)
            warm_up(prepared.turn, self._model, self._services, self._prompt_thread)

    async def _prepare(self, span: Span) -> Prepared:
        services, model, chat = self._services, self._model, self._chat
        submitted = services.clock()
        prompt = translate.chat_prompt(chat)
        stop = translate.stop_strings(chat)
        sampling = translate.sampling(
            chat, vocabulary_size=model.vocabulary_size, call_token=model.call_token
        )
        scope = self._scope

        def prepare() -> tuple[ChatPrompt, PreparedPrompt]:
            whole = services.reasoning.restored(scope, prompt)
            return whole, model.prepare(whole, session=self._session, tenant=self._tenant)

        whole, tokenised = await asyncio.get_running_loop().run_in_executor(self._prompt_thread, prepare)
        job = Job(
            id=JobId(f"chatcmpl-{services.new_id()}"),
            tokens=tokenised.tokens,
            packed=tokenised.packed,
            boundaries=tokenised.boundaries,
            bucket=tokenised.bucket,
            session=self._session,
            max_tokens=translate.max_tokens(
                chat,
                prompt_tokens=len(tokenised.tokens),
                context_length=model.context_length,
                default_max_tokens=services.limits.default_max_tokens,
            ),
            sampling=sampling,
            use_snapshots=chat.cache_prompt is not False,
            trace=trace_ref(span),
            submitted=submitted,
        )
        note_job(span, job)
        if services.capture_content:
            note_prompt(span, whole)
        writer = CompletionWriter(
            job.id, int(services.unix_seconds()), model.name, len(job.tokens), model.token_text
        )
        text = model.text_stream(tokenised, stop=stop, tools=translate.tool_use(chat, prompt))
        reply = Reply(text, id=job.id)
        return Prepared(Turn(scope, whole, tokenised, job, reply), writer)

    async def _generate(
        self,
        prepared: Prepared,
        exchange: Exchange,
        receive: Receive,
        send: Send,
        *,
        on_submitted: Callable[[], None],
    ) -> None:
        services = self._services
        with running(
            services.engine,
            services.sink,
            prepared.turn.job,
            prepared.turn.reply,
            clock=services.clock,
            seconds=services.limits.request_seconds,
        ) as generation:
            on_submitted()
            answer = self._stream if self._chat.stream else self._whole
            await unless(
                answer(generation, prepared, exchange, send),
                disconnected(receive),
                generation.abandoned(),
            )

    async def _whole(
        self, generation: Generation, prepared: Prepared, exchange: Exchange, send: Send
    ) -> None:
        reply = await generation.complete()
        _raise_failure(reply, exchange)
        self._remember(prepared.turn)
        body = msgspec.json.encode(prepared.writer.whole(reply))
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            **cache_header(reply),
        }
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            }
        )
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _stream(
        self, generation: Generation, prepared: Prepared, exchange: Exchange, send: Send
    ) -> None:
        limits, clock, reply = self._services.limits, self._services.clock, generation.reply
        writer = prepared.writer
        # The response waits for the first sign of the engine, so that a refusal can still have its status.
        parts = await generation.advance(limits.keepalive_seconds)
        _raise_failure(reply, exchange)
        events = EventWriter(send, write_seconds=limits.write_seconds)
        await events.start(cache_header(reply))
        await events.write(sse.event(writer.opening()))
        written = clock()
        while True:
            due = b"".join(map(sse.event, writer.parts(parts, reply)))
            if reply.ended:
                self._remember(prepared.turn)
                await events.end(due + self._last_events(writer, reply, exchange))
                return
            if not due and clock() - written >= limits.keepalive_seconds:
                due = sse.KEEP_ALIVE
            if due:
                await events.write(due)
                written = clock()
            parts = await generation.advance(max(written + limits.keepalive_seconds - clock(), 0))

    def _remember(self, turn: Turn) -> None:
        """Keep the reply's reasoning; asked for before the last byte, it is done before the next turn."""
        if turn.reply.reasoning and turn.reply.finish is not None:
            self._prompt_thread.submit(
                self._services.reasoning.keep, turn.scope, turn.told, turn.reply.reasoning
            )

    def _last_events(self, writer: CompletionWriter, reply: Reply, exchange: Exchange) -> bytes:
        if reply.failure is not None:
            exchange.outcome = Outcome.FAILED
            return sse.event(error_body(failure(reply.failure)))
        closing = sse.event(writer.closing(reply))
        if self._chat.stream_options and self._chat.stream_options.include_usage:
            closing += sse.event(writer.usage_chunk(reply))
        return closing + sse.DONE


def cache_header(reply: Reply) -> dict[str, str]:
    """What the snapshot store did for this request, once that is known."""
    if reply.started is None:
        return {}
    told = [
        "miss" if reply.started.miss else "hit",
        f"reused={reply.started.cached_tokens}",
        *([f"reason={reply.started.miss}"] if reply.started.miss else []),
    ]
    return {"x-samovar-cache": "; ".join(told)}


def _raise_failure(reply: Reply, exchange: Exchange) -> None:
    if reply.failure is None:
        return
    error = failure(reply.failure)
    # The job was taken and then lost: that is a failure, even where its status is that of a refusal.
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        exchange.outcome = Outcome.FAILED
    raise error
