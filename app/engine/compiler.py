"""Does without fused kernels where nothing can compile them. Knows no model."""

import shutil

import mlx.core as mx

from app.engine.device import on_cpu

COMPILER = "g++"
"""What MLX's CPU backend calls, through a shell, at the first use of each fused kernel."""


def fuse_where_possible() -> str:
    """Switch fused kernels off on the CPU of a machine that cannot compile or load one; why, or empty.

    Metal and CUDA bring their own compilers. Otherwise the first kernel of a request would raise.
    """
    if not on_cpu():
        return ""
    reason = f"there is no {COMPILER}" if shutil.which(COMPILER) is None else _why_not()
    if reason:
        mx.disable_compile()
    return reason


def _why_not() -> str:
    """What keeps a small kernel from being made: the folder for them may be missing, full or barred."""
    try:
        mx.eval(mx.compile(_curve)(mx.zeros(4)))
    except RuntimeError as error:
        return str(error).partition("\n")[0]
    return ""


def _curve(values: mx.array) -> mx.array:
    return mx.exp(values) * values + 1
