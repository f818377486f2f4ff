"""The first token of a row that is alone is given out before the step after it; of others, in their turn."""

from dataclasses import dataclass, field

import pytest
from mlx_lm.generate import BatchGenerator

from app.engine.decoder import BatchDecoder
from app.engine.first_token import computed_token
from app.scheduler.job import Generated, Sampling
from app.vocabulary import FinishReason
from tests.engine.conftest import new_decoder
from tests.support.decoding import run
from tests.support.jobs import make_job

PROMPT = [(7 * i + i * i) % 250 for i in range(40)]
OTHER = [(11 * i + 3) % 250 for i in range(40)]
FAMILIES = ("llama", "lfm2", "gemma3_text")


@dataclass
class Told:
    """The numbers of the step that ended a job's prompt and of those that gave it a token; its tokens."""

    prompt: int = -1
    steps: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)


def steps_of(decoder, *jobs):
    """What each of the jobs was told, and when."""
    for job in jobs:
        decoder.admit(job, start=0, state=None, stops=[])
    told = {job.id: Told() for job in jobs}
    step = 0
    while decoder._rows:
        output = decoder.step()
        for job, progress in output.prefilled:
            if progress.done == progress.total:
                told[job].prompt = step
        for job, generated in output.generated:
            told[job].steps.append(step)
            told[job].tokens.append(generated.token)
            if generated.finish:
                decoder.release(job)
        step += 1
    return told


def mlx_lm_says(model, prompt, n_tokens):
    """What mlx-lm's generator hands out by itself, and what was known of each token before."""
    generator = BatchGenerator(
        model.network, stop_tokens=[[token] for token in model.tokenizer.eos_token_ids]
    )
    (uid,) = generator.insert([prompt], max_tokens=[n_tokens])
    said: list[int] = []
    known: list[tuple[int, bool]] = []
    try:
        while len(said) < n_tokens:
            computed = computed_token(generator, uid)
            _, replies = generator.next()
            for reply in replies:
                assert computed is not None
                said.append(reply.token)
                known.append((computed[0], bool((computed[1] == reply.logprobs).all())))
    finally:
        generator.close()
    return said, known


@pytest.mark.parametrize("family", FAMILIES)
def test_what_mlx_lm_has_computed_is_what_it_hands_out_next(tiny, family):
    """Token and log-probabilities; held to because nothing public tells them."""
    said, known = mlx_lm_says(tiny(family), PROMPT, 6)

    assert known == [(token, True) for token in said]


@pytest.mark.parametrize("family", FAMILIES)
def test_alone_the_first_token_comes_with_the_end_of_its_prompt(tiny, family):
    """A step earlier than mlx-lm hands it out; the reply is the same, and no token comes twice."""
    model = tiny(family)
    job = make_job(PROMPT, max_tokens=6)

    told = steps_of(new_decoder(model), job)[job.id]

    assert told.steps[0] == told.prompt
    assert told.tokens == mlx_lm_says(model, PROMPT, 6)[0]


def test_beside_others_it_comes_with_the_next_step(tiny):
    """The device has that step to do meanwhile."""
    jobs = [make_job(PROMPT, id="a", max_tokens=6), make_job(OTHER, id="b", max_tokens=6)]

    told = steps_of(new_decoder(tiny("llama")), *jobs)

    assert [each.steps[0] - each.prompt for each in told.values()] == [1, 1]


def test_a_reply_that_ends_with_its_first_token_says_it_once(tiny):
    """By its limit or by the model."""
    model = tiny("llama")
    limited = run(new_decoder(model), make_job(PROMPT, max_tokens=1))
    ending = BatchDecoder(model.network, end_tokens=limited.tokens, limits=new_decoder(model)._limits)

    assert limited.generated == [Generated(limited.tokens[0], None, FinishReason.LENGTH)]
    assert run(ending, make_job(PROMPT, max_tokens=5)).generated == [
        Generated(limited.tokens[0], None, FinishReason.STOP)
    ]


def test_its_log_probabilities_come_with_it(tiny):
    """The same as beside another row."""
    sampling = Sampling(top_logprobs=3)
    decoder = new_decoder(tiny("llama"))
    alone = run(decoder, make_job(PROMPT, max_tokens=2, sampling=sampling)).logprobs
    decoder.admit(make_job(OTHER, id="other", max_tokens=9), start=0, state=None, stops=[])
    beside = run(decoder, make_job(PROMPT, max_tokens=2, sampling=sampling)).logprobs

    assert alone[0].logprob == pytest.approx(beside[0].logprob, abs=1e-4)
    assert [token for token, _ in alone[0].top] == [token for token, _ in beside[0].top]


def test_a_reply_that_is_ended_at_its_first_token_leaves_a_state_of_its_prompt(tiny):
    """The token is not in it yet: the state says so, and what starts from it is right."""
    decoder = new_decoder(tiny("lfm2"))
    job = make_job(PROMPT, max_tokens=6)
    cold = run(decoder, job)
    decoder.admit(job, start=0, state=None, stops=[])
    while not decoder.step().generated:
        pass
    sealed = decoder.seal(job.id)
    decoder.discard([job.id])

    longer = make_job([*PROMPT, cold.tokens[0], 5, 6, 7], max_tokens=6)
    assert sealed.tokens == job.packed
    assert run(decoder, longer, sealed).tokens == run(decoder, longer).tokens
