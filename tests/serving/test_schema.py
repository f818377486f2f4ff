"""The OpenAPI schema and a real server, held against each other by schemathesis; and the schema is whole."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support.process import Samovar, samovar

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
EXAMPLES = 5
"""Requests that are made up for each operation, besides those at the bounds of what its schema allows."""

INFERENCE = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Any) -> Iterator[Samovar]:
    """A server of a tiny model whose replies are short."""
    flags = ("--context-length", "256", "--scheduler-default-max-tokens", "4")
    folder = tmp_path_factory.mktemp("schema")
    with samovar("--model", str(tiny_folder("llama")), *flags, folder=folder) as server:
        yield server


@pytest.fixture(scope="module")
def document(server: Samovar) -> Any:
    """The schema as it is served."""
    return server.get("/docs/openapi.json").json()


@pytest.mark.slow
def test_whatever_is_sent_is_answered_as_the_schema_says(server: Samovar, tmp_path: Path) -> None:
    """No 5xx, no status, content type or body that the schema does not have, for good and bad requests."""
    held = subprocess.run(
        [
            *(Path(sys.executable).with_name("st"), "run", f"{server.url}/docs/openapi.json"),
            *("--checks", ",".join(CHECKS), "--phases", "coverage,fuzzing", "--continue-on-failure"),
            *("--max-examples", str(EXAMPLES), "--seed", "1", "--request-timeout", "60", "--no-color"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert held.returncode == 0, held.stdout + held.stderr
    assert server.get("/livez").status_code == 200


GETS = {
    "/v1/models/{name}": "/v1/models/llama",
}
"""The address of each template that has a parameter."""


def test_a_real_answer_of_every_get_is_of_its_schema(server: Samovar, document: Any) -> None:
    """After a reply, so that there is something to tell of; a body that is JSON validates, whole."""
    server.client().chat.completions.create(
        model="llama", messages=[{"role": "user", "content": "Hi"}], max_tokens=2, user="somebody"
    )
    gets = [path for path, operations in document["paths"].items() if "get" in operations]
    assert len(gets) > 7
    for path in gets:
        answer = server.get(GETS.get(path, path))
        assert answer.status_code == 200, path
        described = document["paths"][path]["get"]["responses"]["200"]["content"]
        kind = answer.headers["content-type"].partition(";")[0]
        assert kind in described, path
        if kind == "application/json":
            # References are to the document's own components.
            schema = {**described[kind]["schema"], "components": document["components"]}
            assert refers_to(document["paths"][path]["get"]["responses"]["200"]) != {"none"}, path
            jsonschema.Draft202012Validator(schema).validate(answer.json())


def test_the_numbers_of_the_store_have_no_field_that_the_schema_does_not_name(
    server: Samovar, document: Any
) -> None:
    """Each number is in the schema, and those that may be missing are told from those that may not."""
    schema = document["components"]["schemas"]["CacheStats"]
    stats = server.stats()

    assert stats.keys() <= schema["properties"].keys()
    assert schema["properties"].keys() - stats.keys() == {"tenant"}
    assert {"snapshot_entries", "snapshot_hits", "enabled"} <= set(schema["required"])
    assert "tenant" not in schema["required"]


def test_every_operation_is_described_with_all_its_answers(document: Any) -> None:
    """A summary, a sentence, a tag; each answer a description and a model; each refusal an error's."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            assert operation["summary"], where
            assert operation["description"].endswith("."), where
            assert operation["tags"], where
            for status, answer in operation["responses"].items():
                assert answer["description"], (where, status)
                assert answer["content"], (where, status)
                if int(status) >= 400:
                    assert refers_to(answer) <= {"ErrorBody", "AnthropicError", "Probe"}, (where, status)


def test_every_answer_that_can_be_a_stream_says_so(document: Any) -> None:
    """The routes that take `stream` have both content types, and no other has."""
    streaming = {
        path
        for path, operations in document["paths"].items()
        for operation in operations.values()
        if "text/event-stream" in operation["responses"]["200"]["content"]
    }
    assert streaming == set(INFERENCE)


def test_every_model_says_what_it_is(document: Any) -> None:
    """What clients are told of has a sentence of its own."""
    models = document["components"]["schemas"]
    assert len(models) > 20
    assert [name for name, model in models.items() if not model.get("description")] == []


def refers_to(answer: Any) -> set[str]:
    """The models an answer has."""
    return {kind["schema"].get("$ref", "none").rsplit("/", 1)[-1] for kind in answer["content"].values()}
