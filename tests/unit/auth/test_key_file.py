"""The file of keys: what a table means, and what is said of one that cannot be used."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.auth.key import ApiKey, Scope, digest_of, new_secret
from app.auth.key_file import read_keys
from app.errors import ConfigurationError
from app.settings.units import parse_bytes

SECRET = "sk-samovar-0123456789"


def read(text: str) -> tuple[ApiKey, ...]:
    return read_keys(text, source="keys.toml", parse_bytes=parse_bytes)


def faults(text: str) -> list[str]:
    """What is said of a file, without its name."""
    with pytest.raises(ConfigurationError) as raised:
        read(text)
    return [line.removeprefix("keys.toml: ") for line in str(raised.value).splitlines()]


def test_a_table_says_everything_about_a_key() -> None:
    """Every field reaches the key in its own unit."""
    (key,) = read(
        f"""
        ["ann.laptop"]
        sha256 = "{hashlib.sha256(SECRET.encode()).hexdigest().upper()}"
        tenant = "team"
        scopes = ["inference", "admin"]
        quota_bytes = "4GiB"
        max_concurrent = 3
        requests_per_minute = 60
        """
    )
    assert key == ApiKey(
        name="ann.laptop",
        digest=digest_of(SECRET.encode()),
        tenant="team",
        scopes=frozenset({Scope.INFERENCE, Scope.ADMIN}),
        quota_bytes=4 * 2**30,
        max_concurrent=3,
        requests_per_minute=60,
    )


def test_a_bare_secret_is_enough() -> None:
    """In clear or hashed, it is the same key: for inference, its own tenant, without limits."""
    (plain,) = read(f'[ann]\nkey = "{SECRET}"')
    (hashed,) = read(f'[ann]\nsha256 = "{hashlib.sha256(SECRET.encode()).hexdigest()}"')
    assert plain == hashed
    assert (plain.tenant, plain.scopes, plain.quota_bytes) == ("ann", frozenset({Scope.INFERENCE}), None)


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ("[ann]", "[ann]: one of key and sha256 must be there"),
        (f'[ann]\nkey = "{SECRET}"\nsha256 = "{"0" * 64}"', "[ann]: one of key and sha256 must be there"),
        ('[ann]\nkey = "too-short"', "[ann]: key must have at least 16 characters"),
        ('[ann]\nsha256 = "12"', "[ann]: sha256 must be 64 hexadecimal digits"),
        (f'["a b"]\nkey = "{SECRET}"', "[a b]: the name of a key must be 1 to 64 letters"),
        (f'[ann]\nkey = "{SECRET}"\ntenant = ""', "[ann]: tenant must be 1 to 64 letters"),
        (
            f'[ann]\nkey = "{SECRET}"\nscopes = []',
            "[ann]: scopes must be a list of at least one of inference",
        ),
        (f'[ann]\nkey = "{SECRET}"\nscopes = ["root"]', "[ann]: scopes must be a list of at least one of"),
        (f'[ann]\nkey = "{SECRET}"\nscope = "admin"', "[ann]: Object contains unknown field `scope`"),
        (f'[ann]\nkey = "{SECRET}"\nquota_bytes = 0', "[ann]: quota_bytes must be a size"),
        (f'[ann]\nkey = "{SECRET}"\nquota_bytes = "lots"', "[ann]: quota_bytes must be a size"),
        (f'[ann]\nkey = "{SECRET}"\nmax_concurrent = 0', "[ann]: Expected `int` >= 1"),
        (f'[ann]\nkey = "{SECRET}"\nrequests_per_minute = 1.5', "[ann]: Expected `int | null`"),
        ("[ann]\nkey = 5", "[ann]: Expected `str | null`"),
        ('ann = "secret"', "[ann]: Expected `object`"),
        ("", "there is no key in it"),
        ("[ann", "the file of keys is not TOML"),
    ],
)
def test_a_table_that_cannot_be_used_is_named(table: str, fault: str) -> None:
    """The message names file and key and says what is allowed."""
    (said,) = faults(table)
    assert said.startswith(fault)


def test_every_fault_is_told_at_once_and_no_secret_is() -> None:
    """One line a fault; what somebody wrote in the wrong place is not repeated."""
    said = faults(f'[a]\nkey = "{SECRET}"\nmax_concurrent = "{SECRET}"\n[b]\nsha256 = "{SECRET}"\n[c]')
    assert [line[:4] for line in said] == ["[a]:", "[b]:", "[c]:"]
    assert SECRET not in "".join(said)


def test_keys_must_be_told_apart_and_agree_on_their_tenant() -> None:
    """One secret is one key; a tenant has one quota, said once or the same each time."""
    other = f"{SECRET}-2"
    assert faults(f'[a]\nkey = "{SECRET}"\n[b]\nkey = "{SECRET}"') == [
        "[b] has the same secret as [a]; each key needs its own"
    ]
    team = 'tenant = "t"\nquota_bytes = '
    assert faults(f'[a]\nkey = "{SECRET}"\n{team}1\n[b]\nkey = "{other}"\n{team}2') == [
        "[b] and [a] give the tenant t different quotas; let one of them say quota_bytes"
    ]
    assert len(read(f'[a]\nkey = "{SECRET}"\n{team}1\n[b]\nkey = "{other}"\n{team}1')) == 2
    assert len(read(f'[a]\nkey = "{SECRET}"\n{team}1\n[b]\nkey = "{other}"\ntenant = "t"')) == 2


def test_no_representation_of_a_key_shows_its_hash() -> None:
    """What ends up in a traceback or a log by mistake is of no use to anybody."""
    (key,) = read(f'[ann]\nkey = "{SECRET}"')
    assert key.digest.hex() not in repr(key)
    assert repr(key.digest) not in repr(key)


def test_new_secrets_are_long_and_never_the_same() -> None:
    """256 random bits behind a prefix that scanners can know."""
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert all(secret.startswith("sk-samovar-") and len(secret) >= 11 + 43 for secret in secrets)


@given(st.text())
def test_any_text_is_keys_or_one_kind_of_error(text: str) -> None:
    """Nothing that can stand in a file breaks the reader."""
    said = ""
    try:
        assert read(text)
    except ConfigurationError as error:
        said = str(error)
    assert said == "" or said.startswith("keys.toml: ")
