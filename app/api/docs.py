"""`/docs`: the page that lists the routes, and the headers of every page for people. Needs no other host."""

from html import escape
from typing import Any

from litestar import Request
from litestar.openapi.plugins import OpenAPIRenderPlugin

PAGE_HEADERS = {
    # The page runs nothing and loads nothing, whatever gets into it; nobody puts it into a frame.
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; } code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
details { border: 1px solid #8884; border-radius: .5rem; margin: .5rem 0; padding: .5rem 1rem; }
summary { cursor: pointer; } .method { display: inline-block; width: 4.5rem; font-weight: 700; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top; }
td, th { border-top: 1px solid #8884; padding: .25rem .75rem .25rem 0; } .muted { opacity: .7; }
"""


class RoutesPage(OpenAPIRenderPlugin):
    """Renders the OpenAPI document as one plain page.

    Litestar's own pages load scripts from other hosts, and a server for models often has no way to them.
    """

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:  # noqa: ARG002
        """The page, as HTML."""
        by_tag: dict[str, list[str]] = {}
        for path, operations in openapi_schema["paths"].items():
            for method, operation in operations.items():
                for tag in operation["tags"]:
                    by_tag.setdefault(tag, []).append(_operation(path, method, operation, openapi_schema))
        info = openapi_schema["info"]
        sections = "".join(f"<h2>{escape(tag)}</h2>{''.join(items)}" for tag, items in by_tag.items())
        return (
            "<!doctype html><html lang=en><meta charset=utf-8>"
            "<meta name=viewport content='width=device-width'>"
            f"<title>{escape(info['title'])}</title><style>{_STYLE}</style>"
            f"<h1>{escape(info['title'])} <span class=muted>{escape(info['version'])}</span></h1>"
            f"<p>{escape(info['description'])}</p>"
            "<p class=muted>Machines read <a href=/docs/openapi.json>/docs/openapi.json</a>.</p>"
            f"{sections}</html>"
        ).encode()


def _operation(path: str, method: str, operation: dict[str, Any], document: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    return (
        f"<details><summary><span class=method>{escape(method.upper())}</span> <code>{escape(path)}</code> "
        f"{escape(operation.get('summary', ''))}</summary>"
        f"<p>{escape(operation.get('description', '') + _key(operation))}</p>"
        f"{_fields(body, document) if body else ''}{_answers(operation['responses'])}</details>"
    )


def _key(operation: dict[str, Any]) -> str:
    """Which API key it takes, as a sentence; none where it takes none, or the server has none."""
    asked = operation.get("security", [])
    if not asked or {} in asked:
        return ""
    scopes = dict.fromkeys(scope for each in asked for named in each.values() for scope in named)
    return f" It takes an API key{' of the scope ' if scopes else ''}{' or '.join(scopes)}."


def _fields(schema: dict[str, Any], document: dict[str, Any]) -> str:
    resolved = _resolve(schema, document)
    required = set(resolved.get("required", ()))
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code>{' (required)' if name in required else ''}"
        f"<td>{escape(_type(field, document))}<td>{escape(field.get('description', ''))}"
        for name, field in resolved.get("properties", {}).items()
    )
    return f"<table><tr><th>Field<th>Type<th>Meaning{rows}</table>"


def _answers(responses: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(status)}<td>{escape(answer['description'])}"
        for status, answer in sorted(responses.items())
    )
    return f"<table><tr><th>Status<th>Answer{rows}</table>"


def _resolve(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    resolved: dict[str, Any] = document["components"]["schemas"][reference.rsplit("/", 1)[1]]
    return resolved


def _type(schema: dict[str, Any], document: dict[str, Any]) -> str:
    """A field's type in words, one level deep: alternatives, element types, bounds."""
    if "$ref" in schema:
        return str(_resolve(schema, document).get("title", "object"))
    if alternatives := schema.get("oneOf"):
        name = " or ".join(_type(each, document) for each in alternatives if each != {"type": "null"})
    elif "enum" in schema:
        name = ", ".join(map(str, schema["enum"]))
    elif "items" in schema:
        name = f"array of {_type(schema['items'], document)}"
    else:
        name = str(schema.get("type", "any"))
    bounds = {"minimum": "at least {}", "maximum": "at most {}"}
    return ", ".join([name, *(text.format(schema[key]) for key, text in bounds.items() if key in schema)])
