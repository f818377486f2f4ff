"""The ways in which a panel can be drawn. It knows no panel, no query and no dashboard."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from grafana_foundation_sdk.models import (
    bargauge,
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    table,
    timeseries,
    trend,
)


@dataclass(frozen=True, slots=True)
class Kind:
    """How a panel is drawn: Grafana's name for it, its options, and what goes with each field.

    `instant`: it shows one moment, not a course of time. `form`: in which form it wants its query's answer.
    `properties`: what goes with single fields, by their name.
    """

    name: str
    options: object
    custom: object = None
    instant: bool = False
    form: prometheus.PromQueryFormat = prometheus.PromQueryFormat.TIME_SERIES
    transformations: tuple[dashboard.DataTransformerConfig, ...] = ()
    properties: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


def number(*, graph: bool = True, text: common.BigValueTextMode = common.BigValueTextMode.AUTO) -> Kind:
    """A big number for each query, with its course behind it if `graph`; `text` may show its name instead."""
    return Kind(
        "stat",
        stat.Options(
            graph_mode=common.BigValueGraphMode.AREA if graph else common.BigValueGraphMode.NONE,
            color_mode=common.BigValueColorMode.VALUE,
            justify_mode=common.BigValueJustifyMode.AUTO,
            text_mode=text,
            orientation=common.VizOrientation.AUTO,
            reduce_options=_last(),
        ),
        instant=not graph,
    )


def lines(*, stacked: bool = False, points: bool = False, logarithmic: bool = False) -> Kind:
    """Values over time.

    `stacked` where their sum means something, `points` where single moments have to be seen, `logarithmic`
    where the large would hide the small.
    """
    strokes = _strokes(stacked=stacked, points=points)
    if logarithmic:
        strokes.scale_distribution = common.ScaleDistributionConfig(
            type_val=common.ScaleDistribution.LOG, log=10
        )
    return Kind("timeseries", timeseries.Options(legend=_legend(), tooltip=_tooltip()), strokes)


def curves(row: str, unit: str, mark: str) -> Kind:
    """Shares along a value instead of over time, on a logarithmic axis.

    There is one curve for each `curve` label, along the numbers in the label `row`; the one called `mark`
    has a single point, and is drawn as an upright line.
    """
    custom = _strokes(stacked=False, points=False)
    custom.span_nulls = True
    return Kind(
        "trend",
        trend.Options(legend=_legend(), tooltip=_tooltip(), x_field=row),
        custom,
        instant=True,
        form=prometheus.PromQueryFormat.TABLE,
        transformations=(
            _number(row),
            dashboard.DataTransformerConfig(
                id_val="sortBy", options={"fields": {}, "sort": [{"field": row}]}
            ),
            *_matrix(row=row, column="curve"),
        ),
        properties={
            row: {"unit": unit, "custom.scaleDistribution": {"type": "log", "log": 10}},
            mark: {"custom.drawStyle": "bars", "custom.barMaxWidth": 4, "custom.lineWidth": 2},
        },
    )


def heat(unit: str) -> Kind:
    """How a distribution changes over time, from a histogram's buckets."""
    return Kind(
        "heatmap",
        heatmap.Options(
            calculate=False,
            cell_gap=1,
            color=heatmap.HeatmapColorOptions(
                mode=heatmap.HeatmapColorMode.SCHEME,
                scheme="Oranges",
                exponent=0.5,
                steps=64,
                reverse=False,
                fill="dark-orange",
            ),
            y_axis=heatmap.YAxisConfig(unit=unit, axis_placement=common.AxisPlacement.LEFT, reverse=False),
            filter_values=heatmap.FilterValueRange(le=1e-9),
            legend=heatmap.HeatmapLegend(show=True),
            tooltip=heatmap.HeatmapTooltip(mode=common.TooltipDisplayMode.SINGLE, y_histogram=False),
        ),
        heatmap.FieldConfig(),
        form=prometheus.PromQueryFormat.HEATMAP,
    )


def bars() -> Kind:
    """One bar for each series, as it is now."""
    return Kind(
        "bargauge",
        bargauge.Options(
            display_mode=common.BarGaugeDisplayMode.GRADIENT,
            value_mode=common.BarGaugeValueMode.COLOR,
            name_placement=common.BarGaugeNamePlacement.AUTO,
            sizing=common.BarGaugeSizing.AUTO,
            orientation=common.VizOrientation.HORIZONTAL,
            legend=common.VizLegendOptions(
                show_legend=False,
                display_mode=common.LegendDisplayMode.HIDDEN,
                placement=common.LegendPlacement.BOTTOM,
            ),
            reduce_options=_last(),
        ),
        instant=True,
    )


def grid(row: str) -> Kind:
    """A table: one line for each value of the label `row`, one column for each `column` label."""
    return Kind(
        "table",
        table.Options(show_header=True, cell_height=common.TableCellHeight.SM),
        common.TableFieldOptions(align=common.FieldTextAlignment.AUTO, inspect=False),
        instant=True,
        form=prometheus.PromQueryFormat.TABLE,
        transformations=_matrix(row=row, column="column"),
    )


def labels() -> Kind:
    """A table of the labels themselves, one line for each series."""
    return Kind(
        "table",
        table.Options(show_header=True, cell_height=common.TableCellHeight.SM),
        common.TableFieldOptions(align=common.FieldTextAlignment.AUTO, inspect=False),
        instant=True,
        form=prometheus.PromQueryFormat.TABLE,
        transformations=(
            dashboard.DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": {"Time": True, "Value": True},
                    "indexByName": {},
                    "renameByName": {},
                },
            ),
        ),
    )


def _matrix(*, row: str, column: str) -> tuple[dashboard.DataTransformerConfig, ...]:
    """From one sample a line to one line for each `row` and one field for each `column`."""
    return (
        dashboard.DataTransformerConfig(
            id_val="groupingToMatrix",
            options={"rowField": row, "columnField": column, "valueField": "Value", "emptyValue": "null"},
        ),
        dashboard.DataTransformerConfig(
            id_val="organize",
            options={"renameByName": {f"{row}\\{column}": row}, "excludeByName": {}, "indexByName": {}},
        ),
    )


def _number(name: str) -> dashboard.DataTransformerConfig:
    """A label is text; along an axis it has to be a number."""
    return dashboard.DataTransformerConfig(
        id_val="convertFieldType",
        options={"fields": {}, "conversions": [{"targetField": name, "destinationType": "number"}]},
    )


def _strokes(*, stacked: bool, points: bool) -> common.GraphFieldConfig:
    mode = common.StackingMode.NORMAL if stacked else common.StackingMode.NONE
    return common.GraphFieldConfig(
        draw_style=common.GraphDrawStyle.LINE,
        # A pile's layer of height zero would otherwise still be seen as a line upon it.
        line_width=0 if stacked else 1,
        fill_opacity=60 if stacked else 8,
        show_points=common.VisibilityMode.AUTO if points else common.VisibilityMode.NEVER,
        span_nulls=False,
        stacking=common.StackingConfig(mode=mode, group="A"),
        thresholds_style=common.GraphThresholdsStyleConfig(mode=common.GraphThresholdsStyleMode.DASHED),
        scale_distribution=common.ScaleDistributionConfig(type_val=common.ScaleDistribution.LINEAR),
    )


def _last() -> common.ReduceDataOptions:
    return common.ReduceDataOptions(calcs=["lastNotNull"], fields="", values=False)


def _legend() -> common.VizLegendOptions:
    return common.VizLegendOptions(
        show_legend=True,
        display_mode=common.LegendDisplayMode.LIST,
        placement=common.LegendPlacement.BOTTOM,
        calcs=[],
    )


def _tooltip() -> common.VizTooltipOptions:
    return common.VizTooltipOptions(mode=common.TooltipDisplayMode.MULTI, sort=common.SortOrder.DESCENDING)
