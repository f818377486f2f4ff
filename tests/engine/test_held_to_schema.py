"""Replies that are held to a JSON schema: what a random model says is always of it, beside whatever rows."""

import json

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.chat import ReplySchema
from app.engine.constraint import TOO_COMPLEX
from app.engine.reply_rules import ReplyRules
from app.engine.vocabulary import grammar_vocabulary
from app.errors import RequestError
from app.scheduler.job import Failed, JobId, Sampling
from app.vocabulary import FinishReason
from tests.engine.conftest import new_decoder
from tests.support.decoding import run, run_all
from tests.support.held import FIELD, Holding
from tests.support.jobs import make_job
from tests.support.marked import marked_model
from tests.support.random_schemas import schemas

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
FORMATS = jsonschema.FormatChecker(["uuid", "ipv4"])
ROWS = 8


@pytest.fixture(scope="module")
def holding(tiny) -> Holding:
    return Holding(tiny("llama"))


@pytest.mark.slow
@settings(max_examples=32, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(schemas(), min_size=ROWS, max_size=ROWS))
def test_whatever_the_schema_the_reply_parses_and_is_of_it(holding, wanted):
    """Eight random schemas at a time, in one batch with a row that is free: each reply is JSON of its own."""
    decoder = new_decoder(holding.loaded)
    free = holding.job("free", None, max_tokens=50)
    jobs = {
        f"row {index}": (schema, holding.job(f"row {index}", holding.held(schema=schema), seed=index))
        for index, schema in enumerate(wanted)
    }

    ran = run_all(decoder, [(job, None, []) for _, job in jobs.values()] + [(free, None, [])])

    for name, (schema, _) in jobs.items():
        said = holding.read(ran[JobId(name)].generated, schema=schema)
        assert said.finish is FinishReason.STOP, (schema, said.content[:300])
        jsonschema.validate(json.loads(said.content), schema, format_checker=FORMATS)


@pytest.mark.parametrize("family", ["llama", "lfm2", "gemma3_text"])
def test_rows_with_and_without_a_schema_do_not_touch_each_other(tiny, family):
    """Drawn with seeds, each row says together with the others what it says alone."""
    holding = Holding(tiny(family))
    held = holding.held(schema=PERSON)
    jobs = [
        holding.job("held", held, seed=1),
        holding.job("free", None, seed=2, max_tokens=30),
        holding.job("held too", held, seed=3),
        holding.job("longer prompt", held, {"role": "user", "content": "Say it. " * 9}, seed=4),
    ]
    alone = {job.id: run(new_decoder(holding.loaded), job).tokens for job in jobs}

    together = run_all(new_decoder(holding.loaded), [(job, None, []) for job in jobs])

    assert {job: ran.tokens for job, ran in together.items()} == alone
    said = holding.read(together[JobId("held")].generated, schema=PERSON)
    jsonschema.validate(json.loads(said.content), PERSON)


@pytest.mark.parametrize("family", ["llama", "lfm2"])
def test_a_reply_from_a_snapshot_is_held_as_a_cold_one_is(tiny, family):
    """What is restored is the prompt's state; the grammar begins where the reply does, either way."""
    holding = Holding(tiny(family))
    decoder = new_decoder(holding.loaded)
    job = holding.job("held", holding.held(schema=PERSON), seed=5)
    cold = run(decoder, job, stops=[len(job.tokens) - 4])
    (sealed,) = cold.at_stops

    hit = run(decoder, job, sealed)

    assert hit.tokens == cold.tokens
    jsonschema.validate(json.loads(holding.read(hit.generated, schema=PERSON).content), PERSON)


def test_a_held_row_that_is_cancelled_leaves_the_others_as_they_are(holding):
    """Taken out in the middle of its JSON, it changes neither a held nor a free neighbour."""
    held = holding.held(schema=PERSON)
    jobs = [holding.job(name, held, seed=seed) for seed, name in enumerate(("goes", "stays"))]
    jobs.append(holding.job("free", None, seed=9, max_tokens=40))
    alone = {job.id: run(new_decoder(holding.loaded), job).tokens for job in jobs}
    decoder = new_decoder(holding.loaded)
    for job in jobs:
        decoder.admit(job, start=0, state=None, stops=[])
    said: dict[JobId, list[int]] = {job.id: [] for job in jobs}
    ended = 0
    while ended < 2:
        output = decoder.step()
        for name, generated in output.generated:
            said[name].append(generated.token)
            ended += generated.finish is not None
        if len(said[JobId("goes")]) == 3:
            decoder.discard([JobId("goes")])
            del said[JobId("goes")]
            said[JobId("goes")] = alone[JobId("goes")]

    assert said == alone


def test_a_reply_that_is_cut_is_the_beginning_of_the_whole_one(holding):
    """`max_tokens` ends it wherever it is; what there is of it was held all the same."""
    held = holding.held(schema=PERSON)
    whole = holding.read(run(new_decoder(holding.loaded), holding.job("a", held)).generated, schema=PERSON)
    cut = run(new_decoder(holding.loaded), holding.job("a", held, max_tokens=9))
    said = holding.read(cut.generated, schema=PERSON)

    assert said.finish is FinishReason.LENGTH
    assert whole.content.startswith(said.content)
    assert 0 < len(said.content) < len(whole.content)


def test_nothing_that_sampling_does_leads_out_of_the_grammar(holding):
    """Biases, penalties and filters choose among what is allowed; log-probabilities name nothing else."""
    _, prompt = holding.prompt()
    (letter,) = holding.model.tokenise("z", special=False)
    sampling = Sampling(
        temperature=2.0,
        top_p=0.95,
        top_k=40,
        min_p=0.01,
        seed=3,
        presence_penalty=-2.0,
        frequency_penalty=2.0,
        repetition_penalty=1.3,
        logit_bias=((letter, 100.0),),
        top_logprobs=20,
    )
    schema = {
        "type": "object",
        "properties": {"n": {"enum": [1, 2]}},
        "required": ["n"],
        "additionalProperties": False,
    }
    job = make_job(prompt.tokens, max_tokens=500, constraint=holding.held(schema=schema), sampling=sampling)

    ran = run(new_decoder(holding.loaded), job)

    jsonschema.validate(json.loads(holding.read(ran.generated, schema=schema).content), schema)
    tops = [[value for _, value in each.top] for each in ran.logprobs]
    assert min(map(len, tops)) == 1, "there are places where one token alone can come"
    assert all(value > -1000 for values in tops for value in values)


def test_a_grammar_that_grows_too_complex_fails_its_row_alone(holding):
    """More optional properties than the library follows: that reply ends with a 400, the others as ever."""
    many = {"type": "object", "properties": {f"p{index}": {"type": "null"} for index in range(700)}}
    jobs = [holding.job("many", holding.held(schema=many)), holding.job("held", holding.held(schema=PERSON))]
    alone = run(new_decoder(holding.loaded), jobs[1]).tokens
    decoder = new_decoder(holding.loaded)
    for job in jobs:
        decoder.admit(job, start=0, state=None, stops=[])
    said: list[int] = []
    failed: list[tuple[JobId, Failed]] = []
    finish = None
    while finish is None:
        output = decoder.step()
        for name, why in output.failed:
            failed.append((name, why))
            decoder.discard([name])
        for name, generated in output.generated:
            if name == "held":
                said.append(generated.token)
                finish = generated.finish

    assert failed == [(JobId("many"), Failed(TOO_COMPLEX, 400))]
    assert said == alone


@pytest.mark.parametrize(
    ("schema", "because"),
    [
        ({"not": {"type": "string"}}, '"not"'),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"type": "string", "pattern": "(?=a)b"}, "look-around"),
        ({"type": "string", "format": "banana"}, "banana"),
        ({"type": "strin"}, "strin"),
        ({"properties": 3}, "properties"),
        ({"enum": []}, "empty"),
        ({"type": "integer", "minimum": 5, "maximum": 2}, "minimum"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf"),
        ({"$ref": "#/$defs/nowhere"}, "nowhere"),
        ({"$ref": "http://127.0.0.1:1/elsewhere"}, "does not fetch"),
        ({"type": "object", "x-guidance": {"lenient": True}, "if": {}}, '"if"'),
    ],
)
def test_a_schema_that_cannot_be_followed_is_refused_by_what_is_wrong_in_it(holding, schema, because):
    """The refusal names the field and the keyword, in one line, and fetches nothing."""
    with pytest.raises(RequestError) as refused:
        holding.held(schema=schema)
    assert (refused.value.status, refused.value.param) == (400, FIELD)
    assert refused.value.code == "unsupported_schema"
    assert because in refused.value.message
    assert refused.value.message.startswith(f"{FIELD}: ")
    assert "\n" not in refused.value.message


def test_white_space_ends_even_if_the_model_would_go_on_with_it(holding):
    """A model that wants spaces and new lines above all still comes to the end of its JSON."""
    _, prompt = holding.prompt()
    loved = tuple(sorted((token, 100.0) for token in holding.model.tokenise(" \n\t", special=False)))
    schema = {"type": "array", "items": {"type": "null"}, "minItems": 2, "maxItems": 2}
    job = make_job(
        prompt.tokens,
        max_tokens=1000,
        constraint=holding.held(schema=schema),
        sampling=Sampling(temperature=1.0, seed=0, logit_bias=loved),
    )

    said = holding.read(run(new_decoder(holding.loaded), job).generated, schema=schema)

    assert said.finish is FinishReason.STOP
    assert json.loads(said.content) == [None, None]


def test_a_reply_that_is_continued_goes_on_within_the_schema(holding):
    """What the last message has of the JSON counts as said; where it is no beginning of it, it is refused."""
    begun = ({"role": "user", "content": "Say it."}, {"role": "assistant", "content": '{"name": "Jo'})
    job = holding.job("held", holding.held(*begun, schema=PERSON), *begun, seed=7)

    said = holding.read(run(new_decoder(holding.loaded), job).generated, *begun, schema=PERSON)

    whole = json.loads(begun[-1]["content"] + said.content)
    jsonschema.validate(whole, PERSON)
    assert whole["name"].startswith("Jo")
    with pytest.raises(RequestError, match="does not begin") as refused:
        holding.held(begun[0], {"role": "assistant", "content": "Sure:"}, schema=PERSON)
    assert refused.value.param == "messages"


def test_one_schema_is_compiled_once(holding):
    """Its second request gets another walk over what the first one compiled."""
    first, second = holding.held(schema=PERSON), holding.held(schema=dict(PERSON))
    assert first is not None
    assert second is not None
    assert first.grammar is second.grammar
    assert first.begin() is not first.begin()


_KEYWORDS = st.sampled_from(
    [
        *["type", "properties", "required", "items", "enum", "const", "$ref", "$defs", "anyOf", "allOf"],
        *["oneOf", "not", "format", "minLength", "maxLength", "pattern", "minimum", "multipleOf", "minItems"],
        *["additionalProperties", "maxProperties", "patternProperties", "x-guidance", "$schema", "$id"],
        "\ud800",
    ]
)
_ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["object", "string", "#", "#/$defs/a", "(", "[a-", "(a{1,999}){1,999}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYWORDS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(_KEYWORDS, _ANYTHING, max_size=4))
def test_whatever_is_sent_as_a_schema_is_followed_or_refused(holding, schema):
    """Nonsense of any kind comes back as a refusal in one line, or can be begun; nothing else is raised."""
    try:
        held = holding.held(schema=schema)
    except RequestError as error:
        refused = error
    else:
        assert held is not None
        assert any(held.begin().allowed())
        return
    assert (refused.status, refused.param) == (400, FIELD)
    assert "\n" not in refused.message


class WithoutBackend:
    """A tokenizer as those that are written in Python look from outside."""

    def __init__(self, tokenizer) -> None:
        self._tokenizer = tokenizer

    def __getattr__(self, name):
        if name == "backend_tokenizer":
            raise AttributeError(name)
        return getattr(self._tokenizer, name)


def test_a_tokenizer_that_cannot_be_read_is_told_at_the_start_and_refused_a_form(holding, caplog):
    """A warning once, and a 400 for each request that asks for one; free replies are as ever."""
    rules = ReplyRules(WithoutBackend(holding.loaded.tokenizer), None)
    rules.read_vocabulary()
    assert "cannot be held" in caplog.text
    caplog.clear()
    chat, prompt = holding.prompt()
    assert rules.constraint(chat, prompt, schema=None, tools=None) is None
    with pytest.raises(RequestError, match="tokenizer") as refused:
        rules.constraint(chat, prompt, schema=ReplySchema(PERSON, FIELD), tools=None)
    assert refused.value.param == FIELD
    assert caplog.text == ""


def test_a_vocabulary_is_read_once_and_not_for_free_replies(holding, monkeypatch):
    """Ahead of requests or with the first that asks for a form; a start does not wait for it."""
    read = []

    def counted(tokenizer):
        read.append(tokenizer)
        return grammar_vocabulary(tokenizer)

    monkeypatch.setattr("app.engine.reply_rules.grammar_vocabulary", counted)
    rules = ReplyRules(holding.loaded.tokenizer, None)
    chat, prompt = holding.prompt()

    assert rules.constraint(chat, prompt, schema=None, tools=None) is None
    assert read == []
    rules.read_vocabulary()
    assert rules.constraint(chat, prompt, schema=ReplySchema(PERSON, FIELD), tools=None) is not None
    assert len(read) == 1


def test_replies_with_marks_between_parts_of_their_own_are_refused_a_form(tmp_path):
    """A family whose answer stands between marks that only it knows cannot begin with JSON."""
    marks = ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>")
    of = Holding(marked_model(tmp_path, marks))
    with pytest.raises(RequestError, match="marks") as refused:
        of.held(schema=PERSON)
    assert refused.value.param == FIELD
