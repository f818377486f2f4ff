"""Puts the comments of values.yaml into the schema, where editors show them. Knows no value by name."""

from charts.source.shapes import Schema


def described(schema: Schema, comments: dict[str, str], prefix: str = "") -> Schema:
    """The schema with a description for each key that has a comment."""
    properties = {}
    for key, shape in schema["properties"].items():
        dotted = f"{prefix}{key}"
        inner = described(shape, comments, f"{dotted}.") if "properties" in shape else shape
        properties[key] = {**inner, "description": comments[dotted]} if dotted in comments else inner
    return {**schema, "properties": properties}
