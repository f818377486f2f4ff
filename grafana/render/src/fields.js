// Which properties a field can have: what Grafana's panels register. It knows no panel of ours.
import { FieldConfigOptionsRegistry, identityOverrideProcessor } from '@grafana/data';

const STANDARD = [
  'unit', 'min', 'max', 'decimals', 'displayName', 'noValue', 'thresholds', 'mappings', 'color', 'links', 'filterable',
];
const CUSTOM = [
  'drawStyle', 'lineWidth', 'lineStyle', 'lineInterpolation', 'fillOpacity', 'gradientMode', 'stacking', 'spanNulls',
  'showPoints', 'pointSize', 'thresholdsStyle', 'scaleDistribution', 'hideFrom', 'axisPlacement', 'axisLabel',
  'axisSoftMin', 'axisSoftMax', 'axisGridShow', 'axisBorderShow', 'axisColorMode', 'barAlignment', 'barMaxWidth',
  'barWidthFactor', 'align', 'cellOptions', 'inspect',
];

const property = (path, isCustom) => ({
  id: isCustom ? `custom.${path}` : path,
  path,
  name: path,
  isCustom,
  process: identityOverrideProcessor,
  override: identityOverrideProcessor,
  shouldApply: () => true,
  editor: () => null,
  settings: {},
});

export const registry = new FieldConfigOptionsRegistry(() => [
  ...STANDARD.map((path) => property(path, false)),
  ...CUSTOM.map((path) => property(path, true)),
]);
