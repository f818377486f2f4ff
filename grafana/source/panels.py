"""One panel, as a dashboard's author writes it. It knows no query and no dashboard.

`Panel.built` makes of it what Grafana reads, with Grafana's own SDK.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grafana_foundation_sdk.models import common, dashboard, prometheus

from grafana.source.kinds import Kind
from grafana.source.thresholds import Threshold

DATASOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")

NO_TRAFFIC = "no requests yet"


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL and what its series are called; `exemplar`: its points lead to traces."""

    expression: str
    legend: str
    exemplar: bool = False


@dataclass(frozen=True, slots=True)
class Limit:
    """From `threshold` on a value has this colour."""

    threshold: Threshold
    color: str = "red"


@dataclass(frozen=True, slots=True)
class Link:
    """Where a reader goes from here."""

    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel. `number` is its id, and never given to another one: links to a panel name it.

    `shows` and `act` are its description: what is seen, and what to do when it is red or looks wrong.
    `colors` and `dashed` are by legend; `column_units` by column of a table. `lowest` and `highest` bound
    the axis; `ground` is the colour below all limits.
    """

    number: int
    title: str
    kind: Kind
    queries: Sequence[Query]
    unit: str
    width: int
    height: int
    shows: str
    act: str
    limits: Sequence[Limit] = ()
    ground: str = ""
    colors: Mapping[str, str] = field(default_factory=dict)
    dashed: Sequence[str] = ()
    column_units: Mapping[str, str] = field(default_factory=dict)
    lowest: float | None = 0
    highest: float | None = None
    decimals: int | None = None
    no_value: str = NO_TRAFFIC
    mappings: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    links: Sequence[Link] = ()

    def built(self, runbooks: Sequence[Link], x: int, y: int) -> dashboard.Panel:
        """The panel at a place of the grid, with links to the runbooks of its alerts."""
        return dashboard.Panel(
            type_val=self.kind.name,
            id_val=self.number,
            title=self.title,
            description=f"{self.shows}\n\n**What to do:** {self.act}",
            datasource=DATASOURCE,
            targets=[self._target(place, query) for place, query in enumerate(self.queries)],
            grid_pos=dashboard.GridPos(x=x, y=y, w=self.width, h=self.height),
            links=[_panel_link(link) for link in (*runbooks, *self.links)],
            options=self.kind.options,
            transformations=list(self.kind.transformations),
            field_config=dashboard.FieldConfigSource(
                defaults=dashboard.FieldConfig(
                    unit=self.unit,
                    min_val=self.lowest,
                    max_val=self.highest,
                    decimals=self.decimals,
                    no_value=self.no_value,
                    color=self._color(),
                    thresholds=_thresholds(self.limits, self.ground),
                    mappings=[_mapping(self.mappings)] if self.mappings else [],
                    custom=self.kind.custom,
                ),
                overrides=self._overrides(),
            ),
        )

    def _target(self, place: int, query: Query) -> prometheus.Dataquery:
        return prometheus.Dataquery(
            ref_id=chr(ord("A") + place),
            datasource=DATASOURCE,
            expr=query.expression,
            legend_format=query.legend,
            exemplar=query.exemplar,
            instant=self.kind.instant,
            range_val=not self.kind.instant,
            format_val=self.kind.form,
            editor_mode=prometheus.QueryEditorMode.CODE,
        )

    def _color(self) -> dashboard.FieldColor:
        if self.kind.name in {"stat", "bargauge"}:
            return dashboard.FieldColor(mode=dashboard.FieldColorModeId.THRESHOLDS)
        return dashboard.FieldColor(mode=dashboard.FieldColorModeId.PALETTE_CLASSIC_BY_NAME)

    def _overrides(self) -> list[dashboard.DashboardFieldConfigSourceOverrides]:
        """What single fields have of their own, by their name."""
        # A limit is a line, not a part of the pile that it limits.
        limit = {
            "custom.lineStyle": {"fill": "dash", "dash": [8, 6]},
            "custom.lineWidth": 1,
            "custom.fillOpacity": 0,
            "custom.stacking": {"mode": "none", "group": "A"},
        }
        properties: dict[str, dict[str, object]] = {}
        for name, color in self.colors.items():
            properties.setdefault(name, {})["color"] = {"mode": "fixed", "fixedColor": color}
        for name in self.dashed:
            properties.setdefault(name, {}).update(limit)
        for name, unit in self.column_units.items():
            properties.setdefault(name, {})["unit"] = unit
        for name, more in self.kind.properties.items():
            properties.setdefault(name, {}).update(more)
        return [_override(name, each) for name, each in properties.items()]


def _thresholds(limits: Sequence[Limit], ground: str) -> dashboard.ThresholdsConfig:
    # Without a limit nothing is good or bad, and green would say that it is.
    ground = ground or ("green" if limits else "text")
    return dashboard.ThresholdsConfig(
        mode=dashboard.ThresholdsMode.ABSOLUTE,
        steps=[
            dashboard.Threshold(value=None, color=ground),
            *(dashboard.Threshold(value=limit.threshold.value, color=limit.color) for limit in limits),
        ],
    )


def _mapping(words: Mapping[str, tuple[str, str]]) -> dashboard.ValueMap:
    return dashboard.ValueMap(
        options={
            value: dashboard.ValueMappingResult(text=text, color=color)
            for value, (text, color) in words.items()
        }
    )


def _override(name: str, properties: Mapping[str, object]) -> dashboard.DashboardFieldConfigSourceOverrides:
    return dashboard.DashboardFieldConfigSourceOverrides(
        matcher=dashboard.MatcherConfig(id_val="byName", options=name),
        properties=[
            dashboard.DynamicConfigValue(id_val=key, value=value) for key, value in properties.items()
        ],
    )


def _panel_link(link: Link) -> dashboard.DashboardLink:
    return dashboard.DashboardLink(
        title=link.title, type_val=dashboard.DashboardLinkType.LINK, url=link.url, target_blank=True
    )
