"""Puts the docstring of each model into the schema, where Litestar puts only its fields."""

from dataclasses import is_dataclass
from inspect import cleandoc
from typing import Any

from litestar.plugins import OpenAPISchemaPlugin
from litestar.typing import FieldDefinition
from msgspec import Struct


class DescribedModels(OpenAPISchemaPlugin):
    """Goes before Litestar's own plugins, lets them do the work, and adds the docstring."""

    @staticmethod
    def is_plugin_supported_type(value: Any) -> bool:
        """Whether it is a struct or a dataclass."""
        return isinstance(value, type) and (issubclass(value, Struct) or is_dataclass(value))

    def to_openapi_schema(self, field_definition: FieldDefinition, schema_creator: Any) -> Any:
        """The schema of a model, described."""
        litestars = next(
            plugin
            for plugin in schema_creator.plugins
            if isinstance(plugin, OpenAPISchemaPlugin)
            and plugin is not self
            and plugin.is_plugin_supported_field(field_definition)
        )
        made = litestars.to_openapi_schema(field_definition, schema_creator)
        schema = schema_creator.schema_registry.get_schema_for_field_definition(field_definition)
        schema.description = cleandoc(field_definition.type_.__doc__ or "")
        return made
