"use strict";
// Draws what happened in a cluster over time: one row per component, driver and object. The report of a run
// and the page of a running cluster both use it. What is drawn is `{began, ended, components, pods, objects,
// calls, faults, steps}`, as a cell of report.json has it.

/** Makes an element; texts are never read as markup. Children that are null, false or undefined are left out. */
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) made.style.setProperty(key, each);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== false && child !== undefined));
  return made;
}

const KILLED = new Set(["killed", "failed", "crashed", "ended"]);
const SIGNS = { killed: "✗", failed: "✗", crashed: "✗", ended: "✗", stopped: "■", forked: "⑂", rewound: "↶" };

/** Counts time in seconds from the beginning of what is drawn. */
class Scale {
  constructor(doc) {
    this.began = Date.parse(doc.began);
    this.whole = Math.max((Date.parse(doc.ended) - this.began) / 1000, 0.001);
  }
  seconds(time) { return (Date.parse(time) - this.began) / 1000; }
  percent(time) { return Math.min(Math.max((this.seconds(time) / this.whole) * 100, 0), 100); }
  text(time) { return `${this.seconds(time).toFixed(this.whole < 100 ? 2 : 0)} s`; }
  span(since, until) {
    const left = this.percent(since);
    return { left: `${left}%`, width: `max(3px, ${(until ? this.percent(until) : 100) - left}%)` };
  }
  ticks() {
    const rough = this.whole / (window.innerWidth < 700 ? 4 : 9);
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * unit).find((each) => each >= rough);
    const found = [];
    for (let at = 0; at <= this.whole * 0.97; at += step) found.push(at);
    return { step, found };
  }
}

function hue(version) {
  const minor = Number((/^\d+\.(\d+)/.exec(version) || [0, 0])[1]);
  return (minor * 67) % 360;
}

function lane(name, track, full) {
  return el("div", { class: "lane" }, el("div", { class: "name" }, name), track, full);
}

function axis(scale) {
  const { step, found } = scale.ticks();
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  const ticks = found.map((at) =>
    el("span", { class: "tick", style: { left: `${(at / scale.whole) * 100}%` } }, `${at.toFixed(digits)} s`));
  return el("div", { class: "lane axis", "aria-hidden": "true" }, el("div", { class: "name" }), el("div", { class: "track" }, ticks));
}

function groupBy(items, key) {
  const found = new Map();
  for (const item of items || []) {
    const name = key(item);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(item);
  }
  return found;
}

function componentLane(name, runs, scale) {
  const bars = [], labels = [];
  runs.forEach((run, index) => {
    const next = runs[index + 1];
    bars.push(el("span", { class: "bar", style: { ...scale.span(run.since, run.until), "--hue": hue(run.version) } },
      runs.length > 1 ? `${index + 1}: ${run.version}` : run.version));
    if (run.until && (KILLED.has(run.ended) || (next && Date.parse(next.since) - Date.parse(run.until) > 0 && run.ended)))
      bars.push(el("span", { class: "bar out", style: scale.span(run.until, next ? next.since : "") }, SIGNS[run.ended] || "■"));
    labels.push(el("li", {}, runs.length > 1 ? `${index + 1}: ` : "", el("b", {}, run.version),
      run.gates ? ` ${run.gates.replaceAll(",", ", ")}` : " no gates set",
      ` · ${scale.text(run.since)} to ${run.until ? scale.text(run.until) : "the end"}`,
      run.ended ? ` · ${SIGNS[run.ended] || ""} ${run.ended}` : ""));
  });
  const sentence = runs.map((run) => `${run.version} from ${scale.text(run.since)}`).join(", ");
  return lane(name, el("div", { class: "track", role: "img", "aria-label": `${name}: ${sentence}` }, bars),
    el("ul", { class: "full" }, labels));
}

function stepLane(steps, scale, glyphs) {
  const timed = steps.filter((step) => step.since);
  const bars = timed.map((step) => el("span",
    { class: `bar ${step.red ? "out" : ""}`, style: { ...scale.span(step.since, step.until), "--hue": 210 }, title: step.name },
    `${glyphs[step.result] || ""} ${steps.indexOf(step) + 1}`));
  return lane("steps, by their numbers", el("div", { class: "track", role: "img", "aria-label": `${timed.length} steps` }, bars));
}

function markLane(name, marks, scale) {
  const failed = marks.filter((mark) => mark.bad).length;
  return lane(name,
    el("div", { class: "track thin", role: "img", "aria-label": `${name}: ${marks.map((mark) => mark.text).join("; ")}` },
      marks.map((mark) => el("span", { class: `sign ${mark.bad ? "failed" : ""}`, style: { left: `${scale.percent(mark.time)}%` }, title: `${scale.text(mark.time)} ${mark.text}` }, mark.sign))),
    el("div", { class: "full" }, `${marks.length} in all${failed ? `, ${failed} ✗ failed` : ""}`));
}

/** Lives of all objects, pods among them, in one shape. */
function lives(doc) {
  const pods = (doc.pods || []).map((pod) => {
    const last = pod.events[pod.events.length - 1];
    return { ...pod, resource: "pods", since: pod.events.length ? pod.events[0].time : doc.began, until: last && last.what === "gone" ? last.time : "" };
  });
  return [...pods, ...(doc.objects || [])];
}

function place(life) {
  return `${life.namespace ? `${life.namespace}/` : ""}${life.name}`;
}

function lifeLane(life, scale) {
  const track = el("div", { class: "track thin", role: "img", "aria-label": `${place(life)}: ${life.events.map((each) => each.what).join("; ")}` },
    el("span", { class: "bar life", style: scale.span(life.since, life.until) }),
    life.events.map((each) => el("span", { class: "dot", style: { left: `${scale.percent(each.time)}%` }, title: `${scale.text(each.time)} ${each.what}, by ${each.by}` })));
  const last = life.events[life.events.length - 1];
  return lane(`${place(life)}${life.node ? ` on ${life.node}` : ""}`, track,
    el("div", { class: "full" }, last ? `${scale.text(life.since)} to ${life.until ? scale.text(life.until) : "the end"}; last: ${last.what}` : ""));
}

function callText(call) {
  return `${call.call} ${call.namespace}/${call.name}${call.error ? `: ${call.error}` : ""}`;
}

function table(titles, rows, empty) {
  if (!rows.length) return el("p", { class: "dim" }, empty || "none");
  return el("div", { class: "scroll" }, el("table", { class: "list" },
    el("thead", {}, el("tr", {}, titles.map((title) => el("th", { scope: "col" }, title)))),
    el("tbody", {}, rows.map((row) => el("tr", { class: row.mark }, (row.cells || row).map((cell) => el("td", {}, cell)))))));
}

/** A part that is drawn when it is opened first. */
function folded(title, draw, open = false) {
  const made = el("details", { open }, el("summary", {}, title));
  const fill = () => { if (made.open && !made.dataset.drawn) { made.dataset.drawn = "1"; made.append(draw()); } };
  made.addEventListener("toggle", fill);
  made.draw = () => { made.open = true; fill(); };
  fill();
  return made;
}

/** The whole picture of `doc`. */
function drawLanes(doc, glyphs = {}) {
  const scale = new Scale(doc);
  const made = el("div", { class: "lanes" }, axis(scale));
  if ((doc.steps || []).some((step) => step.since)) made.append(stepLane(doc.steps, scale, glyphs));
  made.append(el("h3", {}, "Versions and gates"));
  for (const [name, runs] of groupBy(doc.components, (run) => run.component)) made.append(componentLane(name, runs, scale));
  if ((doc.faults || []).length) {
    made.append(el("h3", {}, "Faults"));
    for (const [name, found] of groupBy(doc.faults, (each) => each.component))
      made.append(markLane(name, found.map((each) => ({ time: each.time, sign: "⚡", text: `${each.what} ${each.detail}` })), scale));
  }
  if ((doc.calls || []).length) {
    made.append(el("h3", {}, "Calls of drivers: ▲ prepare, ▽ unprepare, ✗ failed"));
    for (const [name, found] of groupBy(doc.calls, (call) => `${call.driver} on ${call.node}`))
      made.append(markLane(name, found.map((call) => ({ time: call.time, bad: !!call.error,
        sign: call.error ? "✗" : call.call.includes("Unprepare") ? "▽" : "▲", text: callText(call) })), scale));
  }
  const all = lives(doc);
  for (const [resource, found] of groupBy(all, (life) => life.resource)) {
    const draw = () => el("div", {}, found.map((life) => lifeLane(life, scale)));
    made.append(folded(`${resource}: ${found.length}`, draw, found.length <= 12 && (resource === "pods" || resource.startsWith("resourceclaims."))));
  }
  made.append(folded("Calls and lives as a table", () => lifeTable(doc, all, scale)));
  made.scale = scale;
  return made;
}

function lifeTable(doc, all, scale) {
  const rows = [];
  for (const call of doc.calls || []) rows.push({ time: call.time, cells: [scale.text(call.time), "", `${call.namespace}/${call.name}`, `${call.call}${call.error ? ` ✗ ${call.error}` : ""}`, `${call.driver} on ${call.node}`] });
  for (const life of all)
    for (const each of life.events) rows.push({ time: each.time, cells: [scale.text(each.time), String(each.revision), `${life.resource.split(".")[0]} ${place(life)}`, each.what, each.by] });
  rows.sort((one, other) => (one.time < other.time ? -1 : one.time > other.time ? 1 : 0));
  return table(["Time", "Revision", "Object", "What", "By"], rows);
}
