"""Does without fused kernels where nothing can compile them. Knows no model."""

import shutil

import mlx.core as mx

COMPILER = "g++"
"""What MLX's CPU backend calls, through a shell, at the first use of each fused kernel."""


def fuse_only_with_compiler() -> bool:
    """Switch fused kernels off on the CPU of a machine without a compiler, where the first one would raise.

    Metal and CUDA bring their own compilers. Returns whether kernels are fused.
    """
    if mx.default_device() == mx.Device(mx.DeviceType.cpu) and shutil.which(COMPILER) is None:
        mx.disable_compile()
        return False
    return True
