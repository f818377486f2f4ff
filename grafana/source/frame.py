"""What all dashboards have in common: variables, annotations, links, the grid. It knows no single panel."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard, prometheus

from grafana.source.panels import DATASOURCE, Link, Panel
from grafana.source.promql import series

COLUMNS = 24
TAG = "samovar"
RUNBOOKS = "docs/runbooks"
"""Where the runbooks are until somebody serves them: a folder of the repository."""

Runbooks = Callable[[str, str], Sequence[Link]]
"""A dashboard's uid and a panel's title → the runbooks of the alerts that are shown there."""


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading that says what they answer; without one they stand at the top."""

    heading: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard. `uid` stays for ever: links name it."""

    uid: str
    title: str
    description: str
    rows: Sequence[Row]

    def json(self, runbooks: Runbooks) -> str:
        """The file that Grafana reads."""
        return json.dumps(self.built(runbooks), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"

    def built(self, runbooks: Runbooks) -> dashboard.Dashboard:
        """The dashboard as Grafana's SDK has it.

        Raises:
            ValueError: two panels have one number, or a row of panels does not fill the grid's width.
        """
        panels = list(_placed(self, runbooks))
        numbers = [panel.id_val for panel in panels]
        if len(set(numbers)) != len(numbers):
            raise ValueError(f"{self.uid}: the numbers of its panels have to differ: {numbers}")
        return dashboard.Dashboard(
            uid=self.uid,
            title=self.title,
            description=self.description,
            tags=[TAG],
            timezone="browser",
            editable=False,
            graph_tooltip=dashboard.DashboardCursorSync.CROSSHAIR,
            time=dashboard.DashboardDashboardTime(from_val="now-6h", to="now"),
            refresh="30s",
            version=1,
            panels=panels,
            templating=dashboard.DashboardDashboardTemplating(list_val=_variables()),
            annotations=dashboard.AnnotationContainer(list_val=_annotations()),
            links=[
                dashboard.DashboardLink(
                    title="Samovar",
                    type_val=dashboard.DashboardLinkType.DASHBOARDS,
                    tags=[TAG],
                    include_vars=True,
                    keep_time=True,
                )
            ],
        )


def _placed(board: Board, runbooks: Runbooks) -> Iterator[dashboard.Panel | dashboard.RowPanel]:
    """The panels from left to right and top to bottom, each line as high as its panels."""
    y = 0
    for place, row in enumerate(board.rows):
        if row.heading:
            yield dashboard.RowPanel(
                id_val=_ROW_NUMBERS + place,
                title=row.heading,
                collapsed=False,
                panels=[],
                grid_pos=dashboard.GridPos(x=0, y=y, w=COLUMNS, h=1),
            )
            y += 1
        x = 0
        for panel in row.panels:
            yield panel.built(runbooks(board.uid, panel.title), x, y)
            x += panel.width
            if x == COLUMNS:
                x, y = 0, y + panel.height
        if x:
            raise ValueError(f"{board.uid}, {row.heading!r}: its last line is {x} wide instead of {COLUMNS}")


_ROW_NUMBERS = 1000
"""Rows are counted from here, away from the numbers of panels."""


def _variables() -> list[dashboard.VariableModel]:
    return [
        _source("datasource", "Data source", "prometheus", "Where the metrics are."),
        _label("job", "Job", "label_values(samovar_build_info, job)", "Samovar servers by scrape job."),
        _label(
            "instance",
            "Instance",
            'label_values(samovar_build_info{job=~"$job"}, instance)',
            "Single servers: each has a snapshot store of its own.",
        ),
        dashboard.VariableModel(
            type_val=dashboard.VariableType.TEXTBOX,
            name="runbooks",
            label="Runbooks",
            description="Where docs/runbooks of the repository is served, for the links to runbooks.",
            query=RUNBOOKS,
            current=dashboard.VariableOption(selected=True, text=RUNBOOKS, value=RUNBOOKS),
        ),
        _source(
            "traces",
            "Traces",
            "tempo",
            "Where the spans are, for the links to traces; not needed for the rest.",
        ),
    ]


def _source(name: str, label: str, kind: str, description: str) -> dashboard.VariableModel:
    return dashboard.VariableModel(
        type_val=dashboard.VariableType.DATASOURCE,
        name=name,
        label=label,
        description=description,
        query=kind,
        refresh=dashboard.VariableRefresh.ON_DASHBOARD_LOAD,
    )


def _label(name: str, label: str, query: str, description: str) -> dashboard.VariableModel:
    return dashboard.VariableModel(
        type_val=dashboard.VariableType.QUERY,
        name=name,
        label=label,
        description=description,
        datasource=DATASOURCE,
        query={"query": query, "refId": f"variable-{name}", "qryType": 5},
        refresh=dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED,
        sort=dashboard.VariableSort.ALPHABETICAL_ASC,
        multi=True,
        include_all=True,
        all_value=".+",
        current=dashboard.VariableOption(selected=True, text=["All"], value=["$__all"]),
    )


def _annotations() -> list[dashboard.AnnotationQuery]:
    config = series("samovar_config_info")
    model = series("samovar_model_info")
    cleared = series("samovar_snapshot_removals_total", 'reason="cleared"')
    return [
        # The sample says when the process started, not that it does so now.
        _marks(
            "Starts",
            "blue",
            f"{series('process_start_time_seconds')} * 1000",
            "{{instance}}",
            value_is_time=True,
        ),
        _marks(
            "Settings changed",
            "purple",
            f"({config} unless on (job, instance, digest) last_over_time({config}[1d] offset 1m))"
            f" and on (job, instance) last_over_time({config}[1d] offset 1m)",
            "{{instance}}: other settings than before",
        ),
        _marks(
            "Model loaded",
            "green",
            f"{model} unless on (job, instance, model) {model} offset 1m",
            "{{instance}}: {{model}}",
        ),
        _marks(
            "Store cleared", "orange", f"{cleared} > ({cleared} offset 1m)", "{{instance}}: by an operator"
        ),
    ]


def _marks(
    name: str, color: str, expression: str, text: str, *, value_is_time: bool = False
) -> dashboard.AnnotationQuery:
    """Marks where the query has a sample, or at the times (milliseconds) that its samples are."""
    step = "60s"
    return dashboard.AnnotationQuery(
        name=name,
        datasource=DATASOURCE,
        enable=True,
        icon_color=color,
        # Older versions of Grafana read the query here, newer ones in the target.
        expr=expression,
        step=step,
        target=prometheus.Dataquery(ref_id="Anno", datasource=DATASOURCE, expr=expression, interval=step),
        use_value_for_time=value_is_time,
        title_format=name,
        text_format=text,
    )
