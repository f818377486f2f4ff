"""What every span says of the process it comes from. Knows no setting and no event.

Names and values are those of OpenTelemetry's resource conventions.
"""

import os
import platform
import sys

from opentelemetry.sdk.resources import (
    HOST_ARCH,
    HOST_NAME,
    OS_TYPE,
    PROCESS_PID,
    PROCESS_RUNTIME_NAME,
    PROCESS_RUNTIME_VERSION,
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    SERVICE_VERSION,
    OTELResourceDetector,
    Resource,
)

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""What the convention calls processors that the system calls otherwise."""


def build_resource(*, service_name: str, name_is_default: bool, version: str, instance_id: str) -> Resource:
    """The process and its host; `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` add to it and go first.

    Args:
        service_name: `service.name`; one that somebody set goes before the environment's.
        name_is_default: whether nobody set it.
        version: `service.version`, which nothing overrides.
        instance_id: `service.instance.id`, where the environment names none: unlike any other process's.
    """
    machine = platform.machine()
    ours: dict[str, str | int] = {
        SERVICE_NAME: service_name,
        SERVICE_INSTANCE_ID: instance_id,
        HOST_NAME: platform.node(),
        HOST_ARCH: ARCHITECTURES.get(machine, machine),
        OS_TYPE: sys.platform,
        PROCESS_PID: os.getpid(),
        PROCESS_RUNTIME_NAME: sys.implementation.name,
        PROCESS_RUNTIME_VERSION: platform.python_version(),
    }
    fixed = (
        {SERVICE_VERSION: version}
        if name_is_default
        else {SERVICE_VERSION: version, SERVICE_NAME: service_name}
    )
    return Resource.create({**ours, **OTELResourceDetector().detect().attributes, **fixed})


def service_name_of(resource: Resource) -> str:
    """The name that log lines carry as well."""
    return str(resource.attributes[SERVICE_NAME])
