"""Whatever stands in a file or the environment: settings, or one message with a line for each fault."""

import string

from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import ConfigurationError
from app.settings.keys import all_keys
from app.settings.layers import load
from app.settings.schema import Settings

KEYS = all_keys()
NAMES = st.sampled_from([key.dotted for key in KEYS])
WORDS = st.sampled_from(
    (
        *("auto", "off", "0", "-1", "1e999", "nan", "inf", "8GiB", "8 gib", "-5s", "1h30m", "9" * 40, "true"),
        *(
            "yes",
            "",
            " ",
            "\u0661",
            "0x10",
            "1_000",
            "[]",
            "{}",
            "@json 1",
            "@format {env}",
            "%(x)s",
            "${HOME}",
        ),
    )
)


def outcome(folder, *, text: bytes = b"", environ=None) -> Settings | str:
    """Settings, or what stops the start."""
    file = folder / "samovar.toml"
    file.write_bytes(text)
    try:
        return load(
            {}, config=file, environ=environ or {}, folder=folder, system_file=folder / "none.toml"
        ).settings
    except ConfigurationError as error:
        said = str(error)
        assert said
        assert "Traceback" not in said
        return said


@given(text=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_file_is_read_or_refused(tmp_path_factory, text):
    """Bytes, broken UTF-8, broken TOML."""
    outcome(tmp_path_factory.mktemp("file"), text=text)


scalars = (
    WORDS
    | st.integers()
    | st.floats()
    | st.booleans()
    | st.text(string.printable, max_size=12)
    | st.lists(st.integers(), max_size=2)
)


def as_toml(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + "".join(f"\\u{ord(each):04x}" for each in value) + '"'
    return str(value)


@given(said=st.dictionaries(NAMES, scalars, min_size=1, max_size=5))
@settings(max_examples=100)
def test_any_values_of_known_keys_are_taken_or_refused_by_name(tmp_path_factory, said):
    """Of every type; what is refused is named with what is allowed."""
    text = "\n".join(f"{name} = {as_toml(value)}" for name, value in said.items() if "." not in name)
    for section in {name.partition(".")[0] for name in said if "." in name}:
        text += f"\n[{section}]\n" + "\n".join(
            f"{name.partition('.')[2]} = {as_toml(value)}"
            for name, value in said.items()
            if name.startswith(f"{section}.")
        )
    said_back = outcome(tmp_path_factory.mktemp("values"), text=text.encode())

    if isinstance(said_back, str):
        assert any(name in said_back for name in said)


@given(
    environ=st.dictionaries(
        st.sampled_from([key.environment for key in KEYS])
        | st.text("ABC_", max_size=12).map(lambda name: f"SAMOVAR_{name}"),
        WORDS | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
        max_size=4,
    )
)
@settings(max_examples=100)
def test_any_environment_is_taken_or_refused(tmp_path_factory, environ):
    """Known and unknown names, any text."""
    outcome(tmp_path_factory.mktemp("environment"), environ=environ)
