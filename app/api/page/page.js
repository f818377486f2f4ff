// Asks for /v1/overview every few seconds and shows the answer. Text is set as text: nothing that
// comes from the server or its clients is ever read as HTML.

const PAUSE_MILLISECONDS = 2000;
const KEY = "samovar-api-key";
const byId = (id) => document.getElementById(id);

function set(id, text) {
  byId(id).textContent = text;
}

function show(id, shown) {
  byId(id).hidden = !shown;
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${unit === 0 || bytes >= 100 ? Math.round(bytes) : bytes.toFixed(1)} ${units[unit]}`;
}

function span(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const whole = (number) => number.toLocaleString("en");
const cacheOf = (request) => (request.hit === null ? "–" : request.hit ? "hit" : `miss: ${request.miss ?? "unknown"}`);

function showState(overview) {
  set("version", overview.version);
  set("phase", overview.phase.replace("_", " "));
  byId("phase").className = `badge ${{ ready: "good", stalled: "bad", failing: "bad", failed: "bad", crash_loop: "bad" }[overview.phase] ?? ""}`;
  set("reason", overview.reason);
  show("reason", overview.reason !== "");
  set("uptime", span(overview.uptime_seconds));
  set("running", whole(overview.running));
  set("waiting", whole(overview.waiting));
  const load = overview.progress;
  show("load", load !== null);
  if (load === null) return;
  set("load-what", load.percent === null ? load.what : `${load.what}: ${load.percent} %`);
  // Without a value the bar says that nobody can say.
  if (load.percent === null) byId("load-bar").removeAttribute("value");
  else byId("load-bar").value = load.percent;
}

function showModel(model) {
  set("model", model === null ? "not loaded yet" : model.name);
  set("aliases", model === null || model.aliases.length === 0 ? "–" : model.aliases.join(", "));
  set("context", model === null ? "–" : `${whole(model.context_length)} tokens`);
}

function showStore(store) {
  const on = store !== null && store.enabled;
  set("fill", store === null ? "not open yet" : on ? `${size(store.bytes)} of ${size(store.capacity_bytes)}` : "off");
  show("fill-line", on);
  if (on) byId("fill-bar").value = Math.min(store.bytes / store.capacity_bytes, 1);
  set("entries", on ? whole(store.entries) : "–");
  const right = on ? store.recommended_bytes : null;
  set("recommended", right === null ? "–" : size(right));
  show("advice", right !== null && right > store.capacity_bytes);
}

function cell(heading, content, kind) {
  const made = document.createElement("td");
  // Said anew, because a table that is laid out as cards is no table to every screen reader.
  made.setAttribute("role", "cell");
  made.dataset.heading = heading;
  if (kind) made.className = kind;
  made.append(content);
  return made;
}

function row(request) {
  const ended = document.createElement("time");
  const when = new Date(request.ended_unix_seconds * 1000);
  ended.dateTime = when.toISOString();
  ended.textContent = when.toLocaleTimeString();
  const session = document.createElement("code");
  session.textContent = request.session_hash ?? "–";
  const first = request.time_to_first_token_seconds;
  const made = document.createElement("tr");
  made.setAttribute("role", "row");
  made.append(
    cell("Ended", ended),
    cell("Route", request.route),
    cell("Outcome", `${request.outcome} (${request.status})`, request.outcome === "completed" ? "" : "bad"),
    cell("Cache", cacheOf(request), request.hit ? "good" : ""),
    cell("Prompt", whole(request.prompt_tokens), "number"),
    cell("of it cached", whole(request.cached_tokens), "number"),
    cell("Reply", whole(request.completion_tokens), "number"),
    cell("First token", first === null ? "–" : span(first), "number"),
    cell("Session", session),
  );
  return made;
}

function showRequests(requests) {
  show("no-requests", requests.length === 0);
  show("requests", requests.length > 0);
  byId("requests").tBodies[0].replaceChildren(...requests.map(row));
}

function complain(text) {
  // Said once, or a screen reader would repeat it every few seconds.
  if (byId("notice").textContent !== text) set("notice", text);
  show("notice", text !== "");
}

async function refresh() {
  const key = sessionStorage.getItem(KEY);
  const answer = await fetch("/v1/overview", { headers: key ? { authorization: `Bearer ${key}` } : {} });
  if (answer.status === 401 || answer.status === 403) {
    const body = await answer.json();
    show("shown", false);
    show("key-form", true);
    // A browser that follows a link sends no key.
    show("links", false);
    complain(body.error.message);
    return false;
  }
  if (!answer.ok) throw new Error(`The server answers ${answer.status}.`);
  const overview = await answer.json();
  showState(overview);
  showModel(overview.model);
  showStore(overview.snapshots);
  showRequests(overview.requests);
  show("key-form", false);
  show("links", key === null);
  show("shown", true);
  complain("");
  return true;
}

async function watch() {
  let goOn = true;
  // A page that nobody sees asks for nothing.
  if (!document.hidden) {
    try {
      goOn = await refresh();
    } catch (error) {
      complain(error instanceof TypeError ? "The server does not answer; what is shown is old." : error.message);
    }
  }
  if (goOn) setTimeout(watch, PAUSE_MILLISECONDS);
}

byId("key-form").addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  sessionStorage.setItem(KEY, byId("key").value);
  byId("key").value = "";
  watch();
});

watch();
