"""A running server searches for garbage among what requests leave, not among its modules and its model."""

from pathlib import Path

from tests.support.process import samovar

AT_END = """
import atexit, gc, os, sys

def tell():
    with open(os.environ["TOLD"], "a") as told:
        told.write(f"{len(gc.get_objects())} {gc.get_freeze_count()}\\n")

if "serve" in sys.argv:
    atexit.register(tell)
"""


def test_modules_and_model_are_not_searched(tmp_path, tiny_folder):
    """Of all objects next to none are left to look at."""
    (tmp_path / "sitecustomize.py").write_text(AT_END)
    told = tmp_path / "told"
    root = Path(__file__).parents[2]
    environment = {"PYTHONPATH": f"{tmp_path}:{root}", "TOLD": str(told)}
    with samovar("--model", str(tiny_folder("llama")), folder=tmp_path, environment=environment) as server:
        for number in range(20):
            server.client().chat.completions.create(
                model=server.model, messages=[{"role": "user", "content": f"{number}"}], max_tokens=2
            )
        assert server.stop() == 0

    searched, kept = map(int, told.read_text().split())
    assert kept > 50_000
    assert searched < kept / 10
