"""The pod keeps to the strictest level that Kubernetes knows, and to what an independent checker asks for."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.ops.chart.helm import CI_VALUES, Object, objects_of, only, rendered
from tests.ops.chart.restricted import violations

# What the checker asks for and the chart does not do, with the reason.
NOT_FOLLOWED = {
    "CKV_K8S_11": "a limit of CPUs throttles the engine in the middle of a step; requests protect the others",
    "CKV_K8S_15": "a tag that moves is not pulled behind anybody's back: pods of one release run one image",
    "CKV_K8S_43": "the digest is the operator's to say (image.digest); the default is the tag of the release",
}

RUNS_PODS = [values for values in CI_VALUES if not values.startswith("macs")]


def _pod(values: str) -> Object:
    pod: Object = only(objects_of(values), "Deployment")["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize("values", RUNS_PODS)
def test_the_pod_is_restricted(values: str):
    """The restricted level refuses no pod of ci/, but for the one with its model's folder on the node."""
    allowed = ["volume models: hostPath"] if values == "hostpath-values.yaml" else []

    assert list(violations(_pod(values))) == allowed


@pytest.mark.parametrize("values", RUNS_PODS)
def test_the_root_is_read_only_and_the_cluster_out_of_reach(values: str):
    """Beyond the level: only mounted folders can be written, and no token of the cluster is in the pod."""
    pod = _pod(values)

    assert pod["automountServiceAccountToken"] is False
    assert [container["securityContext"]["readOnlyRootFilesystem"] for container in pod["containers"]] == [
        True
    ]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("hostNetwork", True, "hostNetwork"),
        ("volumes.0", {"name": "x", "hostPath": {"path": "/"}}, "volume x: hostPath"),
        ("securityContext.sysctls", [{"name": "kernel.msgmax"}], "sysctl kernel.msgmax"),
        ("securityContext.runAsNonRoot", False, "runAsNonRoot"),
        ("securityContext.runAsUser", 0, "runAsUser"),
        ("securityContext.seccompProfile", {"type": "Unconfined"}, "seccompProfile"),
        ("containers.0.securityContext.privileged", True, "privileged"),
        ("containers.0.securityContext.allowPrivilegeEscalation", True, "allowPrivilegeEscalation"),
        ("containers.0.securityContext.procMount", "Unmasked", "procMount"),
        ("containers.0.securityContext.capabilities", {"drop": ["CHOWN"]}, "not all dropped"),
        ("containers.0.securityContext.capabilities", {"drop": ["ALL"], "add": ["SYS_ADMIN"]}, "are added"),
        ("containers.0.ports.0.hostPort", 8080, "hostPort"),
    ],
)
def test_each_control_of_the_level_is_checked(path: str, value: object, said: str):
    """A pod that breaks one control is refused for it alone."""
    twin = copy.deepcopy(_pod("default-values.yaml"))
    *way, last = path.split(".")
    holder: object = twin
    for step in way:
        holder = holder[int(step)] if isinstance(holder, list) else holder[step]  # type: ignore[index]
    holder[int(last) if isinstance(holder, list) else last] = value  # type: ignore[index]

    (fault,) = violations(twin)

    assert said in fault


def _checked(folder: Path) -> tuple[list[str], int]:
    """What the checker finds in a folder of manifests, and how many checks passed."""
    program = Path(sys.prefix) / "checkov" / "bin" / "checkov"
    if not program.is_file():
        raise FileNotFoundError(f"{program} is missing; run `make tools`")
    skipped = [flag for check in NOT_FOLLOWED for flag in ("--skip-check", check)]
    options = ["--framework", "kubernetes", "--skip-download", "--output", "json", *skipped]
    done = subprocess.run(
        [str(program), "--directory", str(folder), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout)
    failed = [f"{check['check_id']} {check['resource']}" for check in report["results"]["failed_checks"]]
    return failed, report["summary"]["passed"]


@pytest.mark.slow
def test_an_independent_checker_finds_nothing_but_what_is_not_followed(tmp_path: Path):
    """checkov passes all that ci/ makes, but for three checks with a reason; a privileged twin fails."""
    for values in CI_VALUES:
        (tmp_path / values).write_text(rendered(values), encoding="utf-8")
    twin = copy.deepcopy(only(objects_of("default-values.yaml"), "Deployment"))
    twin["metadata"]["name"] = "twin"
    twin["spec"]["template"]["spec"]["containers"][0]["securityContext"]["privileged"] = True
    (tmp_path / "twin.yaml").write_text(yaml.safe_dump(twin), encoding="utf-8")

    failed, passed = _checked(tmp_path)

    assert failed == ["CKV_K8S_16 Deployment.chat.twin"]
    assert passed > 300
