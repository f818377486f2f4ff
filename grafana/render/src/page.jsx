// A whole dashboard on one page, from `window.DASHBOARD` and `window.ANSWERS`; when it is drawn it says what each panel shows.
import 'uplot/dist/uPlot.min.css';
import { createTheme, DashboardCursorSync, dateTime, EventBusSrv } from '@grafana/data';
import { GlobalStyles, PanelChrome, PanelContextProvider, ThemeContext } from '@grafana/ui';
import { createRoot } from 'react-dom/client';

import { Panel, prepared } from './panel.jsx';

const { DASHBOARD, ANSWERS, RANGE, WIDTH } = window;
const GAP = 8;
const UNIT = 38;
const HEAD = 48;

const theme = createTheme({ colors: { mode: 'dark' } });
const range = { from: dateTime(RANGE[0] * 1000), to: dateTime(RANGE[1] * 1000), raw: { from: '', to: '' } };
const context = {
  eventsScope: 'page',
  eventBus: new EventBusSrv(),
  sync: () => DashboardCursorSync.Off,
  onToggleSeriesVisibility: () => {},
  canAddAnnotations: () => false,
};

const place = ({ x, y, w, h }) => ({
  position: 'absolute',
  left: (x * WIDTH) / 24 + GAP / 2,
  top: y * UNIT + HEAD,
  width: (w * WIDTH) / 24 - GAP,
  height: h * UNIT - GAP,
});

function Placed({ panel, data }) {
  const box = place(panel.gridPos);
  if (panel.type === 'row') return <h4 style={{ ...box, margin: 0, paddingTop: 6 }}>{panel.title}</h4>;
  return (
    <div style={box} data-panel={panel.id}>
      <PanelChrome title={panel.title} width={box.width} height={box.height}>
        {(width, height) => <Panel panel={panel} data={data} theme={theme} range={range} width={width} height={height} />}
      </PanelChrome>
    </div>
  );
}

function Page({ panels }) {
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <PanelContextProvider value={context}>
        <div style={{ position: 'relative', background: theme.colors.background.canvas, height: window.HEIGHT }}>
          <h3 style={{ padding: '10px 12px', margin: 0 }}>{DASHBOARD.title}</h3>
          {panels.map(({ panel, data }) => (
            <Placed key={panel.id} panel={panel} data={data} />
          ))}
        </div>
      </PanelContextProvider>
    </ThemeContext.Provider>
  );
}

async function draw() {
  const panels = await Promise.all(
    DASHBOARD.panels.map(async (panel) => ({
      panel,
      data: panel.type === 'row' ? null : await prepared(panel, ANSWERS[panel.id], theme),
    }))
  );
  createRoot(document.getElementById('root')).render(<Page panels={panels} />);
  // Plots are laid out by then; the clock of the page is the browser's virtual one.
  setTimeout(report, 1000);
}

function report() {
  for (const box of document.querySelectorAll('[data-panel]')) {
    const marks = box.querySelectorAll('canvas, rect, [role="row"]').length;
    console.info('PANEL ' + JSON.stringify({ id: Number(box.dataset.panel), marks, text: box.innerText }));
  }
}

draw();
