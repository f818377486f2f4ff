"""Writes the YAML of generated files: keys in the order given, long queries as blocks, one header."""

from typing import Any

import yaml

HEADER = "# Written by `python -m grafana.source.write` from grafana/source: change it there.\n"


class _Dumper(yaml.SafeDumper):
    """A dumper that writes text of several lines as a block, and what comes twice twice."""

    def ignore_aliases(self, _data: Any) -> bool:
        """Whether `_data` is written out again instead of being referred to."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(document: Any) -> str:
    """`document` as a file's text."""
    return HEADER + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
