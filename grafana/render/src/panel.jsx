// One panel: its answers as fields with units and colours, drawn by Grafana's own component for its kind.
import {
  applyFieldOverrides,
  FieldType,
  getDisplayValueAlignmentFactors,
  getFieldDisplayName,
  getFieldDisplayValues,
  standardTransformers,
  standardTransformersRegistry,
  transformDataFrame,
} from '@grafana/data';
import { BarGauge, BigValue, Table, TimeSeries } from '@grafana/ui';
import { firstValueFrom } from 'rxjs';

import { registry } from './fields.js';
import { frames } from './frames.js';
import { Heatmap } from './heatmap.jsx';

const as_written = (text) => text;

// Some stand there under two names, with one id.
const byId = new Map(Object.values(standardTransformers).map((each) => [each.id, each]));
standardTransformersRegistry.setInit(() =>
  [...byId].map(([id, transformation]) => ({ id, name: id, transformation: async () => transformation, editor: () => null }))
);

// The panel's data as its component takes it; `null` where nothing was found.
export async function prepared(panel, answers, theme) {
  const found = frames(answers);
  if (!found.some((frame) => frame.length)) return null;
  const transformed = await firstValueFrom(
    transformDataFrame(panel.transformations ?? [], found, { interpolate: as_written })
  );
  const fields = applyFieldOverrides({
    data: transformed,
    fieldConfig: panel.fieldConfig,
    fieldConfigRegistry: registry,
    replaceVariables: as_written,
    theme,
    timeZone: 'utc',
  });
  let place = 0;
  for (const frame of fields) {
    for (const field of frame.fields) {
      if (field.type === FieldType.number) field.state = { ...field.state, seriesIndex: place++ };
    }
  }
  return fields;
}

export function Panel({ panel, data, theme, range, width, height }) {
  if (!data) return <div style={{ color: theme.colors.text.secondary }}>{panel.fieldConfig.defaults.noValue}</div>;
  return KINDS[panel.type]({ panel, data, theme, range, width, height });
}

const KINDS = {
  timeseries: ({ panel, data, range, width, height }) => (
    <TimeSeries frames={data} timeRange={range} timeZone="utc" width={width} height={height} legend={panel.options.legend} />
  ),
  trend: ({ panel, data, range, width, height }) => (
    <TimeSeries
      frames={[alongLogarithm(data[0], panel.options.xField)]}
      preparePlotFrame={(all) => all[0]}
      timeRange={range}
      timeZone="utc"
      width={width}
      height={height}
      legend={panel.options.legend}
    />
  ),
  heatmap: ({ data, ...rest }) => <Heatmap frame={data[0]} {...rest} />,
  table: ({ data, width, height }) => <Table data={data[0]} width={width} height={height} />,
  stat: ({ panel, data, theme, width, height }) => (
    <div style={{ display: 'flex', flexWrap: 'wrap' }}>
      {values(panel, data, theme).map((value, place, all) => (
        <BigValue
          key={place}
          width={width / Math.min(all.length, 4)}
          height={height / Math.ceil(all.length / 4)}
          value={value.display}
          sparkline={value.sparkline}
          graphMode={panel.options.graphMode}
          colorMode={panel.options.colorMode}
          justifyMode={panel.options.justifyMode}
          textMode={textMode(panel, all)}
          theme={theme}
        />
      ))}
    </div>
  ),
  bargauge: ({ panel, data, theme, width, height }) => (
    <div>
      {values(panel, data, theme).map((value, place, all) => (
        <BarGauge
          alignmentFactors={getDisplayValueAlignmentFactors(all)}
          key={place}
          width={width}
          height={height / all.length}
          value={value.display}
          field={value.field}
          display={value.view?.getFieldDisplayProcessor(value.colIndex)}
          orientation="horizontal"
          displayMode={panel.options.displayMode}
          theme={theme}
        />
      ))}
    </div>
  ),
};

// A single number needs no name: the panel's title has it.
const textMode = (panel, all) =>
  panel.options.textMode === 'auto' ? (all.length > 1 ? 'value_and_name' : 'value') : panel.options.textMode;

const values = (panel, data, theme) =>
  getFieldDisplayValues({
    fieldConfig: panel.fieldConfig,
    reduceOptions: panel.options.reduceOptions,
    replaceVariables: as_written,
    theme,
    data,
    sparkline: true,
    timeZone: 'utc',
  });

// Grafana's Trend panel spaces its axis as the field says; the published component cannot, so the numbers are spaced here.
function alongLogarithm(frame, axis) {
  const place = frame.fields.findIndex((field) => getFieldDisplayName(field, frame) === axis);
  const field = frame.fields[place];
  const spaced = {
    ...field,
    values: field.values.map(Math.log10),
    display: (value, decimals) => field.display(10 ** value, decimals),
  };
  // The legend asks each field where it stood.
  const kept = frame.fields.map((each, at) => ({
    ...each,
    state: { ...each.state, origin: { frameIndex: 0, fieldIndex: at } },
  }));
  return { ...frame, fields: [spaced, ...kept.filter((_, other) => other !== place)] };
}
