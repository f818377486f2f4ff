"""The keys that the settings ask for: from a file, from one setting, and again from a file that changed."""

import logging
from pathlib import Path

import pytest

from app.auth.key import Scope
from app.auth.keyring import Keyring
from app.cli import main
from app.errors import ConfigurationError
from app.keys import load_keys, reload_keys
from app.settings.sections.auth import Auth

SECRET = "sk-samovar-0123456789"
OTHER = "sk-samovar-9876543210"


def test_without_settings_there_are_no_keys() -> None:
    """Nothing asked for is an open server."""
    assert load_keys(Auth(keys_file="", key="")) == ()


def test_the_one_key_may_do_everything(tmp_path: Path) -> None:
    """`auth.key` is a key named default with every scope, beside those of the file."""
    (alone,) = load_keys(Auth(keys_file="", key=SECRET))
    assert (alone.name, alone.tenant, alone.scopes) == ("default", "default", frozenset(Scope))
    assert Keyring([alone]).find(SECRET.encode()) == alone
    file = tmp_path / "keys.toml"
    file.write_text(f'[ann]\nkey = "{OTHER}"')
    assert [key.name for key in load_keys(Auth(keys_file=str(file), key=SECRET))] == ["default", "ann"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "the file of keys cannot be read: No such file"),
        (b"\xff", "the file of keys is not UTF-8"),
        (b"", "there is no key in it"),
        (f'[default]\nkey = "{OTHER}"'.encode(), "[default] is the name of auth.key"),
        (f'[ann]\nkey = "{SECRET}"'.encode(), "[ann] has the same secret as [default]"),
    ],
)
def test_keys_that_cannot_be_used_stop_the_start(tmp_path: Path, text: bytes | None, said: str) -> None:
    """A server that was asked to have keys never starts without them."""
    file = tmp_path / "keys.toml"
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(ConfigurationError) as raised:
        load_keys(Auth(keys_file=str(file), key=SECRET))
    assert said in str(raised.value)
    assert SECRET not in str(raised.value)


def test_a_changed_file_is_read_again_and_a_bad_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A rotation takes effect at once; a mistake in it is one line, and the old keys stay."""
    file = tmp_path / "keys.toml"
    file.write_text(f'[ann]\nkey = "{SECRET}"')
    asked = Auth(keys_file=str(file), key="")
    ring = Keyring(load_keys(asked))
    caplog.set_level(logging.INFO)

    file.write_text(f'[ann]\nkey = "{OTHER}"')
    reload_keys(ring, asked)
    assert ring.find(OTHER.encode()) is not None
    assert ring.find(SECRET.encode()) is None

    for text in ("[ann", "", f'[ann]\nkey = "{SECRET}"\nscopes = ["root"]\n[bob]'):
        file.write_text(text)
        caplog.clear()
        reload_keys(ring, asked)
        (line,) = caplog.messages
        assert line.startswith("the API keys stay as they were: ")
        assert "\n" not in line
        assert ring.find(OTHER.encode()) is not None
    assert SECRET not in caplog.text


def test_a_new_key_can_be_appended_to_a_file_and_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its table goes to standard output, its secret to standard error, and the two belong together."""
    file = tmp_path / "keys.toml"
    secrets = []
    for flags in (["ann.laptop"], ["bob", "--tenant", "team", "--scope", "metrics", "--scope", "admin"]):
        assert main(["keys", "new", *flags]) == 0
        out, err = capsys.readouterr()
        secrets.append(err.strip())
        assert err.strip() not in out
        with file.open("a") as appended:
            appended.write(out)
    ann, bob = load_keys(Auth(keys_file=str(file), key=""))
    ring = Keyring([ann, bob])
    assert [ring.find(secret.encode()) for secret in secrets] == [ann, bob]
    assert (ann.name, ann.tenant, ann.scopes) == ("ann.laptop", "ann.laptop", frozenset({Scope.INFERENCE}))
    assert (bob.tenant, bob.scopes) == ("team", frozenset({Scope.METRICS, Scope.ADMIN}))

    assert main(["keys", "check", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ann.laptop: tenant ann.laptop; inference",
        "bob: tenant team; metrics, admin",
    ]


@pytest.mark.parametrize("argv", [["new", "a b"], ["new", "ann", "--tenant", "/"], ["check", "none.toml"]])
def test_what_cannot_be_a_key_is_refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A name that the file would not take is not printed as if it would; a bad file is said to be one."""
    assert main(["keys", *argv]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("samovar: ")
