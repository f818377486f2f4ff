"""docs/http.md names every route of the program, and no other."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

LIST_ROUTES = """
import asyncio, json
from app.bootstrap import build
from app.settings.layers import read_defaults
from app.settings.resolution import resolve
loaded = resolve([read_defaults()])
loop = asyncio.new_event_loop()
runtime = build(loaded.settings, loaded.provenance, loop=loop)
print(json.dumps([
    [method, route.path_format]
    for route in runtime.app.routes
    for method in sorted(route.methods - {"OPTIONS"})
]))
loop.close()
"""


def test_every_route_is_documented_and_every_documented_route_exists():
    """The table of docs/http.md is the table of the application."""
    built = subprocess.run(
        [sys.executable, "-c", LIST_ROUTES], cwd=ROOT, capture_output=True, text=True, check=True
    )
    served = {(method, path) for method, path in json.loads(built.stdout)}
    served.remove(("GET", "/docs/{path}"))  # Litestar's own 404 for pages that do not exist
    table = (ROOT / "docs" / "http.md").read_text().split("## Chat completions")[0]

    documented = set(re.findall(r"`(GET|POST|DELETE|PUT) (/\S*?)`", table))
    documented |= {("GET", path) for path in re.findall(r"`GET [^|]*?, `(?:GET )?(/\S+?)`", table)}

    assert documented == served
