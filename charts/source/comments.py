"""What values.yaml says about each key: the comment right above it. Knows no meaning.

The file is read line by line, because YAML readers drop comments. It keeps to what this needs: a key a line,
two spaces a level, a description on one line of its own.
"""

import re

_KEY = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z_]+):( .*)?")
_LEVEL = 2


def comments_by_key(text: str) -> dict[str, str]:
    """Dotted key → its comment, for the keys that have one.

    Raises:
        ValueError: a comment stands above no key, or is longer than its line.
    """
    comments: dict[str, str] = {}
    path: list[str] = []
    pending = ""
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.strip()
        if content.startswith("# "):
            if pending:
                raise ValueError(f"values.yaml:{number}: a comment has one line")
            pending = content.removeprefix("# ")
            continue
        if match := _KEY.fullmatch(line):
            path = [*path[: len(match["indent"]) // _LEVEL], match["key"]]
            if pending:
                comments[".".join(path)] = pending
                pending = ""
        elif pending and number > 1 and comments:
            raise ValueError(f"values.yaml:{number}: the comment above it belongs to no key")
        else:
            # The first comment of the file is about the file.
            pending = ""
    return comments
