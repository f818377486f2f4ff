"""After a reply: whether the conversation's next turn is worth preparing, and its way to the engine.

A client that answers at once needs nothing prepared: its request would wait until the turn that nobody needs
any more is rendered and the chunk under way computed.
"""

import logging
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

from app.api.ports import ChatModel, ChatPrompt, PreparedPrompt
from app.api.reply import Reply
from app.api.services import Services
from app.chat import TextPrompt, with_reply
from app.events import WarmupEnded
from app.scheduler.job import Boundary, Job, JobId
from app.snapshots.entry import pack
from app.vocabulary import FinishReason, Origin, Warmup

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn, and the reply to it. `scope`: tenant and session, within which its reasoning may be shown."""

    scope: tuple[str, str]
    chat: ChatPrompt | TextPrompt
    prompt: PreparedPrompt
    job: Job
    reply: Reply

    @property
    def told(self) -> ChatPrompt:
        """The conversation as its client has it now, without what was thought. Of a conversation alone."""
        assert isinstance(self.chat, ChatPrompt)
        return with_reply(self.chat, self.reply.content, self.reply.tool_calls)


def warm_up(turn: Turn, model: ChatModel, services: Services, prompt_thread: Executor) -> None:
    """Have the next turn prepared, or count why not. Returns at once: the prompt thread makes the tokens.

    It does so a moment later, and not at all where the session's next request has begun before.
    """
    if (reason := _reason_against(turn, enabled=services.warmup)) is not None:
        _tell(turn, reason, services)
    else:
        services.settling.put(
            turn.scope,
            partial(prompt_thread.submit, _submit, turn, model, services),
            partial(_tell, turn, Warmup.SUPERSEDED, services),
        )


def _tell(turn: Turn, outcome: Warmup, services: Services) -> None:
    services.emit(WarmupEnded(outcome, turn.job.trace, None, services.clock()))


def _reason_against(turn: Turn, *, enabled: bool) -> Warmup | None:
    if not enabled:
        return Warmup.DISABLED
    if not turn.job.use_snapshots:
        return Warmup.OPTED_OUT
    if isinstance(turn.chat, TextPrompt):
        # Nothing says how a text goes on, and there is no template to say it.
        return Warmup.NOT_RENDERED
    if turn.reply.finish not in (FinishReason.STOP, FinishReason.LENGTH):
        return Warmup.UNFINISHED
    if not (turn.reply.content.strip() or turn.reply.tool_calls):
        return Warmup.BLANK_REPLY
    return None


def _submit(turn: Turn, model: ChatModel, services: Services) -> None:
    job = turn.job
    tokens: tuple[int, ...] | Warmup
    try:
        tokens = model.next_turn(services.reasoning.restored(turn.scope, turn.told), turn.prompt)
    except Exception:
        # Nobody waits for this call's end, so that an error would go unheard.
        log.exception("the next turn of a conversation could not be rendered")
        tokens = Warmup.FAILED
    if isinstance(tokens, Warmup):
        _tell(turn, tokens, services)
        return
    services.engine.warm_up(
        Job(
            id=JobId(f"warmup-{job.id}"),
            tokens=tokens,
            packed=pack(tokens),
            boundaries=(Boundary(Origin.BOUNDARY, len(tokens) - 1),),
            bucket=job.bucket,
            session=job.session,
            max_tokens=1,
            trace=job.trace,
            submitted=services.clock(),
        )
    )
