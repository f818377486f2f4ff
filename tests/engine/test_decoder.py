"""The decoder over real mlx-lm models and caches: what is restored runs as if it had never left."""

import gc
from dataclasses import replace

import mlx.core as mx
import pytest

from app.engine.batch_limits import BatchLimits
from app.errors import RestoreError, UnsupportedCacheError
from app.scheduler.job import JobId, Sampling
from app.snapshots.entry import pack, token_count
from app.vocabulary import FinishReason
from tests.engine.conftest import new_decoder
from tests.support.decoding import run, run_all
from tests.support.families import WINDOW
from tests.support.jobs import make_job

PROMPT = [(7 * i + i * i) % 250 for i in range(61)]
OTHER = [(11 * i + 3) % 250 for i in range(37)]
BOUNDARY = 40
FAMILIES = ("llama", "qwen3_next", "lfm2", "gemma3_text")
"""Dense, two hybrids that only whole snapshots serve, sliding window; tests/families has all the others."""


@pytest.mark.parametrize("family", FAMILIES)
def test_a_restored_state_says_what_a_cold_start_says(tiny, family):
    """Cold, segmented, restored and restored again are equal at temperature 0."""
    decoder = new_decoder(tiny(family))
    cold = run(decoder, make_job(PROMPT, max_tokens=12))
    segmented = run(decoder, make_job(PROMPT, max_tokens=12), stops=[BOUNDARY])
    (sealed,) = segmented.at_stops

    restored = [run(decoder, make_job(PROMPT, max_tokens=12), sealed) for _ in range(2)]

    assert sealed.tokens == pack(PROMPT[:BOUNDARY])
    assert segmented.tokens == cold.tokens
    assert [each.tokens for each in restored] == [cold.tokens] * 2


@pytest.mark.parametrize("family", FAMILIES)
def test_a_restored_row_runs_right_beside_a_cold_one_of_another_length(tiny, family):
    """Batching restored and cold rows of unequal length changes neither."""
    decoder = new_decoder(tiny(family))
    alone = {
        "a": run(decoder, make_job(PROMPT, max_tokens=12), stops=[BOUNDARY]),
        "b": run(decoder, make_job(OTHER, max_tokens=12)),
    }
    (sealed,) = alone["a"].at_stops

    together = run_all(
        decoder,
        [
            (make_job(PROMPT, id="a", max_tokens=12), sealed, []),
            (make_job(OTHER, id="b", max_tokens=12), None, []),
        ],
    )

    assert {name: ran.tokens for name, ran in together.items()} == {
        name: ran.tokens for name, ran in alone.items()
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_the_state_at_a_replys_end_continues_the_conversation(tiny, family):
    """The completion's key is prompt and reply, and a longer prompt starts from it."""
    decoder = new_decoder(tiny(family))
    first = run(decoder, make_job(PROMPT, max_tokens=6))
    longer = [*PROMPT, *first.tokens, 5, 6, 7]

    assert first.at_end.tokens == pack([*PROMPT, *first.tokens])
    continued = run(decoder, make_job(longer, max_tokens=8), first.at_end)

    assert continued.tokens == run(decoder, make_job(longer, max_tokens=8)).tokens


@pytest.mark.parametrize("prompt", [PROMPT, PROMPT[: BOUNDARY + 1]], ids=["longer", "one token more"])
def test_penalties_look_back_over_what_was_restored(tiny, prompt):
    """A reply is the same whether its prompt's beginning was computed or restored."""
    decoder = new_decoder(tiny("llama"))
    sampling = Sampling(presence_penalty=2.0, frequency_penalty=2.0, repetition_penalty=1.8)
    (sealed,) = run(decoder, make_job(PROMPT, max_tokens=1), stops=[BOUNDARY]).at_stops
    job = make_job(prompt, max_tokens=30, sampling=sampling)

    cold, restored = run(decoder, job), run(decoder, job, sealed)

    assert restored.tokens == cold.tokens != run(decoder, make_job(prompt, max_tokens=30), sealed).tokens
    assert restored.at_end.tokens == cold.at_end.tokens == pack([*prompt, *cold.tokens])


def test_a_dense_state_cut_back_is_the_shorter_state(tiny):
    """A truncated restore equals cold at every length."""
    decoder = new_decoder(tiny("llama"))
    end = run(decoder, make_job(PROMPT, max_tokens=4)).at_end

    for length in (1, 17, BOUNDARY, len(PROMPT) - 1):
        assert end.payload.can_truncate_to(length)
        prompt = [*PROMPT[:length], *OTHER]
        ran = run(decoder, make_job(prompt, max_tokens=8), end, use_tokens=length)
        assert ran.tokens == run(decoder, make_job(prompt, max_tokens=8)).tokens


def test_a_sliding_window_can_be_cut_back_only_until_it_wraps(tiny):
    """Before the window is full all positions are there; after it, they are not, and it says so."""
    decoder = new_decoder(tiny("gemma3_text"))
    short = run(decoder, make_job(PROMPT[:50], max_tokens=2)).at_end
    long = run(decoder, make_job([*PROMPT, *OTHER], max_tokens=2)).at_end

    assert token_count(short.tokens) < WINDOW < token_count(long.tokens)
    assert short.payload.can_truncate_to(30)
    cut = run(decoder, make_job([*PROMPT[:30], *OTHER], max_tokens=8), short, use_tokens=30)
    assert cut.tokens == run(decoder, make_job([*PROMPT[:30], *OTHER], max_tokens=8)).tokens
    assert not long.payload.can_truncate_to(30)
    with pytest.raises(RestoreError, match="cannot be cut back"):
        decoder.restore(long.payload, 30)


@pytest.mark.parametrize("family", ["qwen3_next", "lfm2"])
def test_a_hybrid_state_is_used_whole_or_not_at_all(tiny, family):
    """Recurrent state has no earlier positions to go back to."""
    end = run(new_decoder(tiny(family)), make_job(PROMPT, max_tokens=2)).at_end

    assert end.payload.can_truncate_to(token_count(end.tokens))
    assert not end.payload.can_truncate_to(token_count(end.tokens) - 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_bytes_reported_are_bytes_held(tiny, family):
    """Dropping a snapshot's batch leaves exactly what the snapshot says it holds."""
    decoder = new_decoder(tiny(family))
    run(decoder, make_job(PROMPT, max_tokens=2))
    decoder.rebuild()
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory()

    kept = [run(decoder, make_job([*PROMPT * 9, i], max_tokens=2), stops=[500]).at_stops[0] for i in range(4)]
    decoder.rebuild()
    gc.collect()
    mx.clear_cache()

    reported = sum(each.payload.nbytes for each in kept)
    held = mx.get_active_memory() - before
    assert 0.99 * reported <= held <= 1.01 * reported + 4096 * sum(each.payload.arrays for each in kept)


def test_prefill_goes_in_chunks_and_counts_restored_tokens_as_done(tiny):
    """Progress is over the whole prompt, whatever was restored."""
    decoder = new_decoder(tiny("llama"), chunk=16)
    cold = run(decoder, make_job(PROMPT, max_tokens=1), stops=[BOUNDARY])
    restored = run(decoder, make_job(PROMPT, max_tokens=1), cold.at_stops[0])

    assert [each.done for each in cold.prefilled] == [16, 32, 40, 56, 60, 61]
    assert restored.prefilled[0].done == BOUNDARY + 16
    assert restored.prefilled[-1].done == restored.prefilled[-1].total == 61


def test_an_end_token_ends_the_reply_with_stop_and_a_limit_with_length(tiny):
    """The two ways a model's own reply ends."""
    model = tiny("llama")
    decoder = new_decoder(model)
    free = run(decoder, make_job(PROMPT, max_tokens=12))
    ending = type(decoder)(model.network, end_tokens=[free.tokens[3]], limits=decoder._limits)

    stopped = run(ending, make_job(PROMPT, max_tokens=12))

    assert free.generated[-1].finish is FinishReason.LENGTH
    assert stopped.generated[-1].finish is FinishReason.STOP
    assert stopped.tokens == free.tokens[: free.tokens.index(free.tokens[3]) + 1]


def test_long_prompts_are_computed_one_after_the_other_and_short_ones_beside_them(tiny):
    """The first has its first token before the second one begins; the last to come waits for neither."""
    decoder = new_decoder(tiny("llama"))
    decoder.restrict(replace(decoder._limits, long_prompts=1), truncatable=True)
    alone = {
        name: run(decoder, make_job(tokens)).tokens
        for name, tokens in (("long", PROMPT), ("short", OTHER[:9]))
    }
    for name, tokens in (("a", PROMPT), ("b", PROMPT), ("c", OTHER[:9])):
        decoder.admit(make_job(tokens, id=name), start=0, state=None, stops=[])
    began: list[str] = []
    first_token: list[str] = []
    said: dict[str, list[int]] = {name: [] for name in "abc"}
    while decoder._rows:
        output = decoder.step()
        began += [job for job, _ in output.prefilled if job not in began]
        for job, generated in output.generated:
            said[job].append(generated.token)
            if len(said[job]) == 1:
                first_token.append(job)
            if generated.finish:
                decoder.release(job)

    assert began == ["a", "c", "b"]
    assert first_token == ["c", "a", "b"]
    assert said == {"a": alone["long"], "b": alone["long"], "c": alone["short"]}


def test_what_suits_the_device_is_decided_where_nothing_is_asked_for(monkeypatch):
    """Larger chunks and one long prompt at a time on a GPU; what is asked for is taken."""
    for on_cpu, step_tokens, long_prompts in ((True, 512, None), (False, 2048, 1)):
        monkeypatch.setattr("app.engine.batch_limits.on_cpu", lambda here=on_cpu: here)
        limits = BatchLimits.here(max_running=4, prefill_batch=8)
        assert limits == BatchLimits(
            max_running=4, prefill_batch=4, prefill_step_tokens=step_tokens, long_prompts=long_prompts
        )
        assert (
            BatchLimits.here(max_running=4, prefill_batch=8, prefill_step_tokens=7).prefill_step_tokens == 7
        )


def test_discarded_jobs_leave_nothing_behind_at_any_stage(tiny):
    """Queued, prefilling, decoding: others go on and are right."""
    decoder = new_decoder(tiny("qwen3_next"), prefill_batch=2)
    expected = run(decoder, make_job(OTHER, max_tokens=20)).tokens
    names = "abcdef"
    for name in names:
        decoder.admit(make_job(OTHER, id=name, max_tokens=20), start=0, state=None, stops=[])
    tokens: dict[str, list[int]] = {name: [] for name in names}
    leaving: list[str | None] = ["b", "d", "f", *[None] * 60]
    for leaver in leaving:
        for job_id, generated in decoder.step().generated:
            tokens[job_id].append(generated.token)
            if generated.finish:
                decoder.release(job_id)
        if leaver:
            decoder.discard([JobId(leaver)])

    assert {name: tokens[name] for name in "ace"} == dict.fromkeys("ace", expected)
    assert decoder._rows == {}


def step_until_it_raises(decoder):
    for _ in range(20):
        decoder.step()


def test_a_failed_step_is_survived_by_a_rebuild(tiny, monkeypatch):
    """After an exception inside a step the old batch is gone and the next job is right."""
    decoder = new_decoder(tiny("llama"))
    expected = run(decoder, make_job(PROMPT, max_tokens=8)).tokens
    decoder.admit(make_job(OTHER, id="poison", max_tokens=8), start=0, state=None, stops=[])

    def broken(_logprobs):
        raise RuntimeError("a sampler failed on purpose")

    monkeypatch.setattr(decoder._samplers, "sampler", lambda _sampling: broken)
    decoder.admit(make_job(PROMPT, id="bad", max_tokens=8), start=0, state=None, stops=[])
    with pytest.raises(RuntimeError, match="on purpose"):
        step_until_it_raises(decoder)

    decoder.rebuild()
    monkeypatch.undo()

    assert run(decoder, make_job(PROMPT, max_tokens=8)).tokens == expected


def test_a_seed_repeats_a_reply_whatever_runs_beside_it(tiny):
    """Seeded sampling does not depend on the batch; another seed says something else."""
    decoder = new_decoder(tiny("llama"))
    seeded = Sampling(temperature=1.0, top_p=0.95, seed=7)
    alone = run(decoder, make_job(PROMPT, max_tokens=12, sampling=seeded)).tokens

    beside = run_all(
        decoder,
        [
            (make_job(PROMPT, id="seeded", max_tokens=12, sampling=seeded), None, []),
            (make_job(OTHER, id="hot", max_tokens=12, sampling=Sampling(temperature=1.5)), None, []),
        ],
    )
    other = run(decoder, make_job(PROMPT, max_tokens=12, sampling=Sampling(temperature=1.0, seed=8)))

    assert beside[JobId("seeded")].tokens == alone
    assert other.tokens != alone


def test_log_probabilities_are_those_of_the_chosen_and_the_likeliest_tokens(tiny):
    """Greedy: the chosen token leads the list, and the list is in order."""
    ran = run(new_decoder(tiny("llama")), make_job(PROMPT, max_tokens=5, sampling=Sampling(top_logprobs=3)))

    assert len(ran.logprobs) == 5
    for token, logprob in zip(ran.tokens, ran.logprobs, strict=True):
        assert len(logprob.top) == 3
        assert logprob.top[0] == (token, logprob.logprob)
        values = [value for _, value in logprob.top]
        assert values == sorted(values, reverse=True)
        assert logprob.logprob <= 0


def test_a_logit_bias_can_forbid_and_force_tokens(tiny):
    """The bias acts on the logits before sampling."""
    decoder = new_decoder(tiny("llama"))
    forced = run(decoder, make_job(PROMPT, max_tokens=3, sampling=Sampling(logit_bias=((42, 1000.0),))))

    assert forced.tokens == [42, 42, 42]


def test_a_state_of_an_unknown_kind_is_refused_not_guessed(tiny):
    """A cache class that the table does not know cannot be sealed."""
    from app.engine.payload import seal

    class NewKind:
        pass

    with pytest.raises(UnsupportedCacheError, match="NewKind"):
        seal([NewKind()], 3)


def test_a_state_of_another_model_is_not_restored(tiny):
    """Cache kinds are compared before a state enters a batch."""
    dense = run(new_decoder(tiny("llama")), make_job(PROMPT, max_tokens=2)).at_end

    with pytest.raises(RestoreError, match="other cache kinds"):
        new_decoder(tiny("qwen3_next")).restore(dense.payload, dense.payload.n_tokens)
