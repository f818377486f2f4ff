"""docs/security.md and the code say the same."""

import re
import tomllib

from app.auth.key import Scope
from app.auth.key_file import FIELDS, read_keys
from app.settings.keys import all_keys
from app.settings.units import parse_bytes
from tests.shape.documents import DOCS, code, tables_of

PAGE = "security.md"
TEXT = (DOCS / PAGE).read_text(encoding="utf-8")


def test_the_example_is_a_file_of_keys_with_every_field() -> None:
    """It can be used as it stands, and the table beside it has all that a key can say."""
    [example] = re.findall(r"```toml\n(.*?)```", TEXT, flags=re.DOTALL)
    (key,) = read_keys(example, source="example", parse_bytes=parse_bytes)
    assert (key.name, key.tenant, key.quota_bytes) == ("ann", "research", 8 * 2**30)
    documented = {name for row in tables_of(PAGE)["field"] for name in code(row[0])}
    assert documented == set(FIELDS)
    assert documented - {"key"} == tomllib.loads(example)["ann"].keys()


def test_every_scope_is_described() -> None:
    """The table of scopes has those that there are."""
    assert [name for row in tables_of(PAGE)["scope"] for name in code(row[0])] == [
        str(each) for each in Scope
    ]


def test_every_setting_that_is_named_exists() -> None:
    """Settings and variables of the text are the schema's."""
    known = {key.dotted for key in all_keys()}
    sections = "|".join({key.section for key in all_keys() if key.section})
    assert set(re.findall(rf"`((?:{sections})\.[a-z_]+)`", TEXT)) <= known
    assert set(re.findall(r"SAMOVAR_\w+__\w+", TEXT)) <= {key.environment for key in all_keys()}
