"""Answers one generation request, from its checked fields to the last byte. Knows no API's shapes."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from http import HTTPStatus

import msgspec
from litestar.types import Receive, Scope, Send
from opentelemetry.trace import Span

from app.api.asked import Asked, reply_limit
from app.api.cache_header import cache_header
from app.api.captured_content import note_prompt, note_text
from app.api.connection import ClientGoneError, EventWriter, disconnected, unless
from app.api.errors import failure
from app.api.exchange import Exchange, exchange_of
from app.api.generation import Generation, running
from app.api.ports import ChatModel, ChatPrompt, PreparedPrompt, TextPrompt
from app.api.replies import News, Replies, first_start
from app.api.reply import Reply
from app.api.services import Services
from app.api.tracing import generation_span, note_job, note_replies, trace_ref
from app.api.warmup import Turn, warm_up
from app.api.writer import Api, Facts, Writer
from app.scheduler.job import Constraint, Job, JobId, Sampling
from app.vocabulary import Outcome


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request in the engine's terms, a turn for each reply, and the means to write them."""

    turns: Sequence[Turn]
    writer: Writer

    @property
    def replies(self) -> Sequence[Reply]:
        """The replies, in order."""
        return [turn.reply for turn in self.turns]


class Answer:
    """The ASGI application that answers one request, so that all it opens is closed in one place.

    Args:
        services: the program's parts.
        prompt_thread: renders and tokenises.
        model: what is asked.
        asked: what for.
        tenant: who asks; two tenants that name a session alike have two.
        api: the shapes of the answer.
    """

    def __init__(
        self,
        services: Services,
        prompt_thread: Executor,
        model: ChatModel,
        asked: Asked,
        *,
        tenant: str,
        api: Api,
    ) -> None:
        self._services = services
        self._prompt_thread = prompt_thread
        self._model = model
        self._asked = asked
        self._tenant = tenant
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer. Raises only while the response has not begun.

        Raises:
            RequestError: what the client is to be told in place of a reply.
        """
        services = self._services
        exchange = exchange_of(scope)
        with (
            generation_span(
                services.tracer,
                clock=services.clock,
                operation=self._api.operation,
                asked=self._asked.model or self._model.name,
                served=self._model.name,
                stream=self._asked.stream,
            ) as span,
            # Closed as soon as the jobs are submitted; until then the engine may wait for them.
            contextlib.ExitStack() as announced,
        ):
            services.settling.supersede((self._tenant, self._asked.session))
            for _ in range(self._asked.replies):
                announced.enter_context(services.engine.expecting())
            prepared = await self._prepare(span)
            try:
                with self._generating(prepared) as generations:
                    announced.close()
                    exchange.job_ids += [turn.job.id for turn in prepared.turns]
                    replies = Replies(generations, seconds=services.limits.request_seconds)
                    ends = [disconnected(receive), *(generation.abandoned() for generation in generations)]
                    if self._asked.stream:
                        events = EventWriter(send, write_seconds=services.limits.write_seconds)
                        ends.append(events.stuck())
                        work = self._stream(replies, prepared, exchange, events)
                    else:
                        work = self._whole(replies, prepared, exchange, send)
                    try:
                        await unless(work, *ends)
                    finally:
                        replies.stop()
            except ClientGoneError:
                exchange.outcome = Outcome.CANCELLED
            finally:
                note_replies(span, prepared.replies)
                if services.capture_content:
                    note_text(span, prepared.replies)
            # Of several replies nobody knows which the conversation will go on with.
            warm_up(prepared.turns[0], self._model, services, self._prompt_thread)

    async def _prepare(self, span: Span) -> Prepared:
        services, model, asked = self._services, self._model, self._asked
        submitted = services.clock()
        scope = (self._tenant, asked.session)

        def prepare() -> tuple[ChatPrompt | TextPrompt, PreparedPrompt, Constraint | None]:
            whole = asked.prompt
            if isinstance(whole, ChatPrompt):
                whole = services.reasoning.restored(scope, services.system_lines.without(whole))
            tokenised = model.prepare(whole, session=asked.session, tenant=self._tenant)
            constraint = None
            if isinstance(whole, ChatPrompt):
                constraint = model.constraint(whole, tokenised, schema=asked.schema, tools=asked.tools)
            return whole, tokenised, constraint

        whole, tokenised, constraint = await asyncio.get_running_loop().run_in_executor(
            self._prompt_thread, prepare
        )
        writer = self._api.writer(
            Facts(
                id=services.new_id(),
                created=int(services.unix_seconds()),
                model=model.name,
                prompt=tokenised,
                token_text=model.token_text,
            )
        )
        job = Job(
            id=JobId(writer.id),
            tokens=tokenised.tokens,
            packed=tokenised.packed,
            boundaries=tokenised.boundaries,
            bucket=tokenised.bucket,
            session=asked.session,
            max_tokens=reply_limit(
                asked.max_tokens or services.limits.default_max_tokens,
                prompt_tokens=len(tokenised.tokens),
                context_length=model.context_length,
                param=self._api.prompt_field,
            ),
            sampling=asked.sampling,
            constraint=constraint,
            use_snapshots=asked.use_snapshots,
            trace=trace_ref(span),
            submitted=submitted,
        )
        note_job(span, job)
        if services.capture_content:
            note_prompt(span, whole)
        turns = []
        for index in range(asked.replies):
            its = replace(job, id=_job_id(job.id, index), sampling=_varied(asked.sampling, index))
            text = model.text_stream(tokenised, stop=asked.stop, tools=asked.tools, schema=asked.schema)
            turns.append(Turn(scope, whole, tokenised, its, Reply(text, id=its.id)))
        return Prepared(turns, writer)

    @contextlib.contextmanager
    def _generating(self, prepared: Prepared) -> Iterator[Sequence[Generation]]:
        """Every job submitted, for as long as the block lasts. Where one is refused, none goes on."""
        services = self._services
        with contextlib.ExitStack() as jobs:
            yield [
                jobs.enter_context(
                    running(
                        services.engine,
                        services.sink,
                        turn.job,
                        turn.reply,
                        clock=services.clock,
                        seconds=services.limits.request_seconds,
                    )
                )
                for turn in prepared.turns
            ]

    async def _whole(self, replies: Replies, prepared: Prepared, exchange: Exchange, send: Send) -> None:
        await replies.complete()
        _raise_failure(replies, exchange)
        self._remember(prepared)
        body = msgspec.json.encode(prepared.writer.whole(replies.all))
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            **cache_header(first_start(replies.all)),
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
        self, replies: Replies, prepared: Prepared, exchange: Exchange, events: EventWriter
    ) -> None:
        limits, clock, writer = self._services.limits, self._services.clock, prepared.writer
        # The response waits for the first sign of the engine, so that a refusal can still have its status.
        news = await replies.advance(limits.keepalive_seconds)
        _raise_failure(replies, exchange)
        await events.start(cache_header(first_start(replies.all)))
        if opening := writer.opening(replies.all):
            await events.write(opening)
        written = clock()
        while True:
            due = b"".join(_written(writer, each, replies.all[each.index]) for each in news)
            if replies.ended:
                self._remember(prepared)
                await events.end(due + self._last_events(writer, replies, exchange))
                return
            if not due and clock() - written >= limits.keepalive_seconds:
                due = writer.keep_alive
            if due:
                await events.write(due)
                written = clock()
            news = await replies.advance(max(written + limits.keepalive_seconds - clock(), 0))

    def _remember(self, prepared: Prepared) -> None:
        """Keep the replies' reasoning; asked for before the last byte, it is done before the next turn."""
        for turn in prepared.turns:
            reasoning = turn.reply.reasoning
            if reasoning and turn.reply.finish is not None and isinstance(turn.chat, ChatPrompt):
                self._prompt_thread.submit(self._services.reasoning.keep, turn.scope, turn.told, reasoning)

    def _last_events(self, writer: Writer, replies: Replies, exchange: Exchange) -> bytes:
        if replies.failure is not None:
            exchange.outcome = Outcome.FAILED
            return writer.failed(failure(replies.failure), replies.all)
        return writer.closing(replies.all)


def _job_id(answer_id: str, index: int) -> JobId:
    return JobId(answer_id if index == 0 else f"{answer_id}-{index}")


def _varied(sampling: Sampling, index: int) -> Sampling:
    """A seed of its own for each reply, or they would all be the same."""
    return sampling if sampling.seed is None else replace(sampling, seed=sampling.seed + index)


def _written(writer: Writer, news: News, reply: Reply) -> bytes:
    due = writer.parts(news.index, news.parts, reply)
    return due + writer.ended(news.index, reply) if reply.finish is not None else due


def _raise_failure(replies: Replies, exchange: Exchange) -> None:
    if replies.failure is None:
        return
    error = failure(replies.failure)
    # The job was taken and then lost: that is a failure, even where its status is that of a refusal.
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        exchange.outcome = Outcome.FAILED
    raise error
