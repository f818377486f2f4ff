// The package's main export as its default one, as Grafana's modules import it; the bundler takes it for the whole module.
module.exports = require('../node_modules/react-custom-scrollbars-2/lib/index.js').Scrollbars;
