"use strict";
// Filters the grid, and shows a cell when its link is followed. What is shown stands in the address:
// `#cell=NAME`, or `#only=failed,expected&words=…`, so that it can be sent to someone.

const { glyphs, words, names } = JSON.parse(document.getElementById("summary").textContent);
const opened = document.getElementById("opened");
const search = document.getElementById("search");
const chips = [...document.querySelectorAll(".chip")];
const buttons = [...document.querySelectorAll("button[data-result]")];
let packed = null;

/** Returns what is known of a cell: a line of the page holds it, compressed. */
async function unpack(number) {
  packed = packed || document.getElementById("details").textContent.trim().split("\n");
  const bytes = Uint8Array.from(atob(packed[number]), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

function asked() {
  return new URLSearchParams(location.hash.slice(1));
}

function goTo(changes) {
  const now = asked();
  for (const [name, value] of Object.entries(changes)) value ? now.set(name, value) : now.delete(name);
  history.replaceState(null, "", `#${now}`);
  filter();
}

function filter() {
  const only = new Set((asked().get("only") || "").split(",").filter(Boolean));
  const parts = (asked().get("words") || "").toLowerCase().split(/\s+/).filter(Boolean);
  if (document.activeElement !== search) search.value = asked().get("words") || "";
  for (const button of buttons) button.setAttribute("aria-pressed", String(only.has(button.dataset.result)));
  let shown = 0;
  for (const chip of chips) {
    const name = names[chip.dataset.number].toLowerCase();
    const result = ["passed", "expected", "failed", "notRun"].find((each) => chip.classList.contains(each));
    chip.hidden = (only.size > 0 && !only.has(result)) || !parts.every((part) => name.includes(part));
    shown += chip.hidden ? 0 : 1;
  }
  for (const place of document.querySelectorAll(".grid tbody tr, section.grid"))
    place.hidden = !place.querySelector(".chip:not([hidden])");
  document.getElementById("shown").textContent = shown === chips.length ? "" : `${shown} of ${chips.length} shown`;
}

async function show() {
  const name = asked().get("cell");
  document.body.classList.toggle("opened", !!name);
  if (!name) { opened.replaceChildren(); filter(); return; }
  const number = names.indexOf(name);
  if (number < 0) { opened.replaceChildren(el("p", { class: "note failed" }, `This report has no cell ${name}. `, el("a", { href: "#" }, "All cells"))); return; }
  const cell = await unpack(number);
  if (asked().get("cell") !== name) return;
  opened.replaceChildren(...cellPage(cell, number));
  window.scrollTo(0, 0);
  opened.focus({ preventScroll: true });
}

function verdict(result, red) {
  return el("span", { class: `verdict ${red ? "failed" : result}` }, `${glyphs[result]} ${words[result]}`);
}

function link(number, text) {
  return names[number] === undefined ? null : el("a", { href: `#cell=${encodeURIComponent(names[number])}`, rel: text.includes("←") ? "prev" : "next" }, text);
}

function cellPage(cell, number) {
  const known = cell.steps.filter((step) => step.result === "expected").length;
  const counts = [`${cell.stepsRun} steps run`, known && `${known} fail as upstream`, cell.stepsNotRun && `${cell.stepsNotRun} not run`, `${cell.seconds.toFixed(1)} s`,
    cell.seed !== null && `simulated with seed ${cell.seed}`].filter(Boolean).join(", ");
  return [
    el("nav", { class: "row cell screen" }, el("a", { href: "#" }, "↑ all cells"), link(number - 1, "← previous"), link(number + 1, "next →"),
      el("span", { class: "dim" }, `${number + 1} of ${names.length}`)),
    el("h1", {}, verdict(cell.result), ` ${cell.name}`),
    el("p", { class: "dim" }, counts),
    cell.failure ? el("div", { class: "note failed" }, cell.failure) : null,
    ...cell.steps.filter((step) => step.reason).map((step) => el("div", { class: `note ${step.result}` },
      el("b", {}, step.name), `: ${step.result === "notRun" ? "not run: " : ""}${step.reason}${step.source ? ` (${step.source})` : ""}`)),
    ...Object.entries(cell.observations || {}).map(([name, value]) => el("p", {}, el("b", {}, name), `: ${typeof value === "string" ? value : JSON.stringify(value)}`)),
    cell.divergence ? divergence(cell) : null,
    Object.keys(cell.programs).length ? el("p", {}, el("b", {}, "Real programs"), `: ${Object.entries(cell.programs).map(([name, found]) => `${name}: ${found.join(" → ")}`).join("; ")}`) : null,
    cell.sideBySide ? sideBySide(cell) : null,
    cell.command ? el("div", {}, el("h2", {}, "Again"), el("div", { class: "row" }, el("code", {}, cell.command), copyButton(cell.command))) : null,
    cell.began ? el("div", {}, el("h2", {}, "Over time ", el("small", {}, `${cell.seed === null ? "" : "virtual time, "}from ${cell.began} on`)), drawLanes(cell, glyphs)) : null,
    el("h2", {}, "Steps"),
    ...cell.steps.map((step, index) => stepPart(step, index, cell)),
    ...(Object.keys(cell.logs).length ? [el("h2", {}, "Logs ", el("small", {}, "the last lines of each process")),
      ...Object.entries(cell.logs).map(([name, text]) => folded(`${name}: ${text ? text.split("\n").length : 0} lines`, () => el("pre", {}, text)))] : []),
  ].filter(Boolean);
}

function copyButton(text) {
  const button = el("button", { type: "button", class: "screen", onclick: async () => {
    try { await navigator.clipboard.writeText(text); button.textContent = "copied"; }
    catch { button.textContent = "select it and copy it by hand"; }
  } }, "copy");
  return button;
}

function divergence(cell) {
  const found = cell.divergence, first = found.differences[0];
  const rows = found.differences.map((each, index) => ({ mark: index ? "" : "first",
    cells: [`${index ? "" : "▶ "}${each.kind}`, `${each.resource} ${each.namespace ? `${each.namespace}/` : ""}${each.name}`, each.path, each.value, String(each.revision), each.by] }));
  return el("section", {}, el("h2", {}, "The first difference"),
    el("p", {}, "From ", el("a", { href: `#cell=${encodeURIComponent(found.baseline)}` }, found.baseline), ` it first differs in the step “${found.step}”: `,
      el("code", {}, `${first.resource} ${first.name} ${first.path}`), first.kind === "missing" ? " is missing here" : " is here alone",
      `, written at revision ${first.revision} by ${first.by}.`),
    folded(`${found.total} differences in this step`, () => table(["", "Object", "Path", "Value", "Revision", "By"], rows), cell.result !== "passed"));
}

function sideBySide(cell) {
  const { emulated, differences } = cell.sideBySide;
  const rows = cell.steps.map((step, index) => {
    const other = emulated.steps[index];
    const same = other && other.name === step.name ? other : emulated.steps.find((each) => each.name === step.name);
    return { mark: differences.some((each) => each.step === step.name) ? "first" : "",
      cells: [`${index + 1}. ${step.name}`, verdict(step.result, step.red), same ? verdict(same.result, same.red) : "no such step"] };
  });
  return el("section", {}, el("h2", {}, "Side by side"),
    emulated.failure ? el("div", { class: "note failed" }, `Emulated: ${emulated.failure}`) : null,
    differences.length ? table(["Step", "Differs", "Real", "Emulated"], differences.map((each) => [each.step, `${each.kind} ${each.about}`, each.real, each.emulated]))
      : el("p", {}, "The emulated cell came out alike."),
    folded("each step in both lanes", () => table(["Step", "Real", "Emulated"], rows), false));
}

function stepPart(step, index, cell) {
  const title = el("span", {}, verdict(step.result, step.red), ` ${index + 1}. ${step.name} `, el("small", {}, `${step.seconds.toFixed(2)} s`));
  return folded(title, () => el("div", {},
    step.result !== "passed" && step.why ? el("p", { class: "dim" }, step.why) : null,
    step.operations.filter((operation) => operation.result === "failed").map((operation) => el("div", { class: "sides" },
      el("div", {}, el("small", {}, `expected: ${operation.title}`), el("pre", {}, operation.expected)),
      el("div", {}, el("small", {}, "found"), el("pre", {}, operation.found)))),
    table(["Operation", "Kind", "Result", "Seconds"], step.operations.map((operation) => [operation.title,
      `${operation.kind} ${operation.about}${operation.block === "try" ? "" : ` (${operation.block})`}`,
      el("span", {}, verdict(operation.result), operation.notRun ? `: ${operation.notRun}` : ""), operation.seconds.toFixed(2)]), "no operation was run"),
    step.operations.filter((operation) => operation.shown).map((operation) => folded(`what ${operation.title} shows`, () => el("pre", {}, operation.shown), false)),
    step.events.length ? el("div", {}, el("h3", {}, "What was written in this step"), table(["Revision", "Verb", "Object", "By", "Server"],
      step.events.map((event) => ({ mark: cell.divergence && cell.divergence.differences.some((each) => each.kind === "extra" && each.revision === event.revision) ? "first" : "",
        cells: [String(event.revision), event.verb || "", event.object || "", event.by || "", event.server || ""] })))) : null), step.result !== "passed");
}

const KEYS = [
  ["/", "search", () => { location.hash = ""; search.focus(); }],
  ["j", "the next cell", () => step(1)],
  ["k", "the previous cell", () => step(-1)],
  ["Escape", "back to all cells", () => { location.hash = ""; }],
  ["f", "only what failed, or all", () => goTo({ only: asked().get("only") === "failed" ? "" : "failed" })],
];

function step(by) {
  const shown = chips.filter((chip) => !chip.hidden).map((chip) => names[chip.dataset.number]);
  const now = shown.indexOf(asked().get("cell"));
  const next = shown[now < 0 ? 0 : now + by];
  if (next) location.hash = `cell=${encodeURIComponent(next)}`;
}

document.getElementById("keys").append(...KEYS.flatMap(([key, text]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, text)]));
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, textarea") && event.key !== "Escape") return;
  const found = KEYS.find(([key]) => key === event.key);
  if (found) { event.preventDefault(); if (event.key === "Escape") document.activeElement.blur(); found[2](); }
});
for (const button of buttons) button.addEventListener("click", () => {
  const only = new Set((asked().get("only") || "").split(",").filter(Boolean));
  only.has(button.dataset.result) ? only.delete(button.dataset.result) : only.add(button.dataset.result);
  goTo({ only: [...only].join(",") });
});
search.addEventListener("input", () => goTo({ words: search.value }));
window.addEventListener("hashchange", show);
window.addEventListener("beforeprint", () => { for (const part of opened.querySelectorAll("details")) if (part.draw) part.draw(); });
show();
