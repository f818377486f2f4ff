"""What the tests of keys and certificates look for in the pod: variables, and files of Secrets."""

from dataclasses import dataclass

from app.auth.key import ApiKey
from app.auth.key_file import read_keys
from app.settings.units import parse_bytes
from tests.ops.chart.helm import Object, only


@dataclass(frozen=True)
class Mounted:
    """A file of a Secret as the container has it: whose it is, and under which key."""

    secret: str
    key: str


def pod_template(made: list[Object]) -> Object:
    """The template of the Deployment's pods."""
    template: Object = only(made, "Deployment")["spec"]["template"]
    return template


def environment_of(made: list[Object]) -> dict[str, str]:
    """The container's variables."""
    (container,) = pod_template(made)["spec"]["containers"]
    return {entry["name"]: entry["value"] for entry in container["env"]}


def keys_of(made: list[Object]) -> tuple[ApiKey, ...]:
    """The keys in the chart's Secret, as the server reads them."""
    text = only(made, "Secret")["stringData"]["keys.toml"]
    return read_keys(text, source="the Secret", parse_bytes=parse_bytes)


def mounted(made: list[Object], path: str) -> Mounted:
    """The file at a path of the container; it must be read-only, and not readable by everybody."""
    pod = pod_template(made)["spec"]
    (container,) = pod["containers"]
    folder, _, name = path.rpartition("/")
    (mount,) = [mount for mount in container["volumeMounts"] if mount["mountPath"] == folder]
    (volume,) = [volume["secret"] for volume in pod["volumes"] if volume["name"] == mount["name"]]
    assert mount["readOnly"] is True
    # A file mounted by its subPath never changes, so that SIGHUP would find the old keys.
    assert "subPath" not in mount
    assert volume["defaultMode"] == 0o440
    keys = {item["path"]: item["key"] for item in volume.get("items", [])}
    return Mounted(volume["secretName"], keys.get(name, name))
