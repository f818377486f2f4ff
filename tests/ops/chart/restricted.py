"""Kubernetes' Pod Security Standard, level "restricted", as checks of one pod.

The controls are those of the standard's page in Kubernetes' documentation, in its order.
"""

from collections.abc import Iterator

from tests.ops.chart.helm import Object

_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
_SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
}
_SECCOMP = {"RuntimeDefault", "Localhost"}


def violations(pod: Object) -> Iterator[str]:
    """What the level does not allow in a pod's specification."""
    of_pod = pod.get("securityContext", {})
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(key):
            yield key
    for volume in pod.get("volumes", []):
        if kinds := set(volume) - {"name"} - _VOLUMES:
            yield f"volume {volume['name']}: {', '.join(sorted(kinds))}"
    for sysctl in of_pod.get("sysctls", []):
        if sysctl["name"] not in _SYSCTLS:
            yield f"sysctl {sysctl['name']}"
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        yield from (f"container {container['name']}: {fault}" for fault in _of_container(container, of_pod))


def _of_container(container: Object, of_pod: Object) -> Iterator[str]:
    own = container.get("securityContext", {})
    capabilities = own.get("capabilities", {})
    if own.get("privileged"):
        yield "privileged"
    if own.get("allowPrivilegeEscalation", True):
        yield "allowPrivilegeEscalation"
    if own.get("procMount", "Default") != "Default":
        yield "procMount"
    if not own.get("runAsNonRoot", of_pod.get("runAsNonRoot", False)):
        yield "runAsNonRoot"
    if own.get("runAsUser", of_pod.get("runAsUser")) == 0:
        yield "runAsUser"
    if own.get("seccompProfile", of_pod.get("seccompProfile", {})).get("type") not in _SECCOMP:
        yield "seccompProfile"
    if "ALL" not in capabilities.get("drop", []):
        yield "capabilities are not all dropped"
    if set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
        yield "capabilities are added"
    if any(port.get("hostPort") for port in container.get("ports", [])):
        yield "hostPort"
