// A heatmap. Grafana keeps its own inside the server, so this one is ours, in Grafana's colours and units.
import { colorManipulator, dateTimeFormat, formattedValueToString, getValueFormat } from '@grafana/data';

const LEFT = 62;
const BOTTOM = 22;

export function Heatmap({ frame, panel, theme, range, width, height }) {
  const [time, ...rows] = frame.fields;
  const columns = time.values.length;
  const [wide, high] = [(width - LEFT) / columns, (height - BOTTOM) / rows.length];
  const most = Math.max(1e-9, ...rows.flatMap((row) => row.values));
  const color = theme.visualization.getColorByName(panel.options.color.fill);
  const unit = getValueFormat(panel.options.yAxis.unit);
  const words = (le) => (le === '+Inf' ? '+Inf' : formattedValueToString(unit(parseFloat(le), 0)));
  const every = Math.ceil(rows.length / (height / 22));
  const text = { fill: theme.colors.text.primary, fontSize: 11 };
  const top = (place) => height - BOTTOM - (place + 1) * high;
  return (
    <svg width={width} height={height}>
      {rows.map((row, place) => (
        <g key={row.name}>
          {place % every === 0 && (
            <text x={LEFT - 6} y={top(place) + high / 2 + 4} textAnchor="end" {...text}>
              {words(row.name)}
            </text>
          )}
          {row.values.map(
            (value, column) =>
              value > panel.options.filterValues.le && (
                <rect
                  key={column}
                  x={LEFT + column * wide}
                  y={top(place)}
                  width={Math.max(wide, 1)}
                  height={high - 1}
                  fill={colorManipulator.alpha(color, Math.max(0.15, (value / most) ** panel.options.color.exponent))}
                />
              )
          )}
        </g>
      ))}
      {[0, 0.25, 0.5, 0.75].map((part) => (
        <text key={part} x={LEFT + part * (width - LEFT)} y={height - 6} {...text}>
          {dateTimeFormat(range.from.valueOf() + part * (range.to.valueOf() - range.from.valueOf()), {
            timeZone: 'utc',
            format: 'HH:mm',
          })}
        </text>
      ))}
    </svg>
  );
}
