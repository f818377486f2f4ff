"""Which kind of device MLX computes on. Knows no model."""

import mlx.core as mx


def on_cpu() -> bool:
    """Whether it is the processor, where there is no launch to pay for and no compiler but the system's."""
    return mx.default_device().type == mx.DeviceType.cpu
