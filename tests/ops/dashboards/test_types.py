"""Dashboards are of the type that Grafana itself declares for them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from grafana.render.draw import HERE
from tests.ops.dashboards.asking import NAMES, dashboard

# Enums of the schema become their values, as JSON has them. An annotation may also have what the Prometheus
# data source adds to it, which the schema leaves to each source; and the SDK gives every variable what only
# one of intervals needs.
PROGRAM = """import type {{ Dashboard }} from '@grafana/schema';
type Json<T> = T extends string ? (string extends T ? string : `${{T}}`)
  : T extends number | boolean | null | undefined ? T
  : T extends (infer Item)[] ? Json<Item>[]
  : T extends object ? {{ [Key in keyof T]: Json<T[Key]> }}
  : T;
type Plain = Json<Dashboard>;
type Annotation = NonNullable<NonNullable<Plain['annotations']>['list']>[number];
type Marked = Omit<Annotation, 'target'> & {{
  expr?: string; step?: string; titleFormat?: string; textFormat?: string; useValueForTime?: boolean;
  target?: {{ refId: string; expr: string; interval?: string; datasource?: Annotation['datasource'] }};
}};
type Variable = NonNullable<NonNullable<Plain['templating']>['list']>[number];
type Chosen = Variable & {{ auto?: boolean; auto_min?: string; auto_count?: number }};
type Ours = Omit<Plain, 'annotations' | 'templating'> & {{
  annotations?: {{ list?: Marked[] }};
  templating?: {{ list?: Chosen[] }};
}};
export const dashboard: Ours = {content};
"""


def complaints(folder: Path, board: dict[str, Any]) -> str:
    """What the TypeScript compiler has to say about a dashboard."""
    (folder / "dashboard.ts").write_text(PROGRAM.format(content=json.dumps(board, indent=1)))
    schema = HERE / "node_modules" / "@grafana" / "schema" / "dist" / "types" / "index.d.ts"
    options = {
        "strict": True,
        "noEmit": True,
        "skipLibCheck": True,
        "target": "es2022",
        "module": "esnext",
        "moduleResolution": "bundler",
        "types": [],
        "paths": {"@grafana/schema": [str(schema)]},
    }
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["dashboard.ts"]}))
    return subprocess.run(
        [HERE / "node_modules" / ".bin" / "tsc", "--project", folder],
        capture_output=True,
        text=True,
        check=False,
    ).stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_dashboard_has_the_type_of_grafanas_schema(name: str, drawing_page: Path, tmp_path: Path):
    """No property has a type that Grafana would not take."""
    assert complaints(tmp_path, dashboard(name)) == ""


@pytest.mark.slow
def test_a_dashboard_of_another_type_is_refused(drawing_page: Path, tmp_path: Path):
    """The check checks: a number where there is to be a text, and a word that is none of the schema's."""
    broken = dashboard("overview")
    broken["panels"][0]["title"] = 7
    broken["panels"][1]["fieldConfig"]["defaults"]["thresholds"]["mode"] = "sometimes"

    said = complaints(tmp_path, broken)

    assert "Type 'number' is not assignable to type 'string'" in said
    assert '"sometimes"' in said
