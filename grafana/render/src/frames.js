// Makes data frames of Prometheus' answers, in the three forms in which Grafana's Prometheus data source does.
// It knows no panel.
import { FieldType, toDataFrame } from '@grafana/data';

const number = (text) => (text === '+Inf' ? Infinity : parseFloat(text));
const worded = (legend, labels) => legend.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, name) => labels[name] ?? '');

export function frames(answers) {
  return answers.flatMap((answer) => FORMS[answer.form](answer));
}

const FORMS = {
  time_series: ({ ref, legend, series }) =>
    series.map(({ metric, values }) => {
      const name = worded(legend, metric) || JSON.stringify(metric);
      return toDataFrame({
        refId: ref,
        name,
        fields: [
          { name: 'Time', type: FieldType.time, values: times(values), config: {} },
          {
            name: 'Value',
            type: FieldType.number,
            labels: metric,
            values: values.map(([, value]) => number(value)),
            config: { displayNameFromDS: name },
          },
        ],
      });
    }),

  table: ({ ref, series }) => {
    if (!series.length) return [];
    const labels = [...new Set(series.flatMap(({ metric }) => Object.keys(metric)))].sort();
    return [
      toDataFrame({
        refId: ref,
        fields: [
          { name: 'Time', type: FieldType.time, values: series.map(({ values }) => times(values)[0]) },
          ...labels.map((label) => ({
            name: label,
            type: FieldType.string,
            values: series.map(({ metric }) => metric[label] ?? ''),
          })),
          { name: 'Value', type: FieldType.number, values: series.map(({ values }) => number(values[0][1])) },
        ],
      }),
    ];
  },

  // Prometheus' buckets include the smaller ones; a heatmap shows each by itself.
  heatmap: ({ ref, series }) => {
    if (!series.length) return [];
    const sorted = [...series].sort((a, b) => number(a.metric.le) - number(b.metric.le));
    const columns = sorted.map(({ values }) => new Map(values));
    const moments = [...new Set(sorted.flatMap(({ values }) => values.map(([at]) => at)))].sort((a, b) => a - b);
    const count = (column, at) => (column < 0 ? 0 : number(columns[column].get(at) ?? '0'));
    return [
      toDataFrame({
        refId: ref,
        fields: [
          { name: 'Time', type: FieldType.time, values: moments.map((at) => at * 1000) },
          ...sorted.map(({ metric }, place) => ({
            name: metric.le,
            type: FieldType.number,
            values: moments.map((at) => Math.max(0, count(place, at) - count(place - 1, at))),
          })),
        ],
      }),
    ];
  },
};

const times = (values) => values.map(([at]) => at * 1000);
