"use strict";
// Shows a running cluster. Everything comes from its own server, requested with the administrator's token,
// which the address brings behind its `#` (that part is sent to nobody) and the tab keeps.

const by = (id) => document.getElementById(id);
let token = new URLSearchParams(location.hash.slice(1)).get("token") || sessionStorage.getItem("token") || "";
let doc = null;      // the whole over time
let shown = null;    // the moment that is shown
let chosen = "";     // the object that is shown: resource, namespace, name as JSON
let against = null;  // the revision that it is held against; null: the write before
let asking = 0;

const FIRST = ["pods", "resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io", "deviceclasses.resource.k8s.io", "nodes", "deployments.apps", "jobs.batch"];

async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: { ...options.headers, Authorization: `Bearer ${token}` } });
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(value.error || `${answer.status} ${answer.statusText}`), { status: answer.status });
  return value;
}

function complain(text) {
  by("problem").hidden = !text;
  by("problem").textContent = text || "";
}

/** Asks for all that there is; then again whenever the log has grown. */
async function begin() {
  if (location.hash.includes("token=")) history.replaceState(null, "", location.pathname);
  try {
    await refresh();
  } catch (error) {
    complain(error.message);
    by("login").hidden = error.status !== 401;
    return;
  }
  sessionStorage.setItem("token", token);
  by("login").hidden = true;
  by("cluster").hidden = false;
  follow();
}

async function follow() {
  for (;;) {
    try {
      const { count } = await ask(`/api/grown?count=${doc.count}`);
      if (count !== doc.count) await refresh();
      else complain(doc.problem);
    } catch (error) {
      complain(`the page is no longer live: ${error.message}`);
      if (error.status === 401) return;
      await pause(2000);
    }
    await pause(700);
  }
}

function pause(milliseconds) {
  return new Promise((done) => setTimeout(done, milliseconds));
}

async function refresh() {
  doc = await ask("/api/timeline");
  complain(doc.problem);
  const slider = by("slider");
  slider.min = by("revision").min = doc.oldest;
  slider.max = by("revision").max = doc.newest;
  if (doc.began) draw();
  await Promise.all([by("live").checked || !shown ? showMoment(doc.newest) : placeCursor(), listComponents()]);
}

function draw() {
  const open = new Set([...by("lanes").querySelectorAll("details[open] > summary")].map((each) => each.textContent.split(":")[0]));
  const first = !by("lanes").firstChild;
  const lanes = drawLanes(doc);
  lanes.classList.add("timed");
  for (const part of lanes.querySelectorAll("details")) {
    const was = open.has(part.firstChild.textContent.split(":")[0]);
    if (was) part.draw(); else if (!first) part.open = false;
  }
  lanes.addEventListener("click", (event) => {
    const track = event.target.closest(".track");
    if (!track) return;
    const box = track.getBoundingClientRect();
    const began = Date.parse(doc.began), ended = Date.parse(doc.ended);
    const time = new Date(began + ((event.clientX - box.left) / box.width) * (ended - began) + 1);
    by("live").checked = false;
    showMoment(null, time.toISOString());
  });
  by("lanes").replaceChildren(lanes);
  placeCursor();
}

function placeCursor() {
  const lanes = by("lanes").firstChild;
  if (lanes && shown && shown.time) lanes.style.setProperty("--now", `calc(${lanes.scale.percent(shown.time)}% - 1px)`);
}

async function showMoment(revision, time) {
  const mine = ++asking;
  const found = await ask(`/api/moment?${time ? `time=${encodeURIComponent(time)}` : `at=${revision}`}`);
  if (mine !== asking) return;
  shown = found;
  by("slider").value = shown.revision;
  if (document.activeElement !== by("revision")) by("revision").value = shown.revision;
  by("when").textContent = shown.time ? `${shown.time.slice(0, 23).replace("T", " ")} UTC, of ${doc.newest}` : "the log is empty";
  placeCursor();
  by("happened").replaceChildren(...shown.happened.map(happening));
  drawPicture();
  listObjects();
  await showObject();
}

function happening(each) {
  const who = [each.by && `by ${each.by}`, each.user && `as ${each.user}`, each.server && `through API server ${each.server}`].filter(Boolean).join(" ");
  return el("div", { class: "note" }, el("b", {}, each.what), who ? ` ${who}` : "",
    each.changes.length ? el("ul", {}, each.changes.slice(0, 8).map((change) => el("li", {}, el("code", {}, change))), each.changes.length > 8 ? el("li", {}, `and ${each.changes.length - 8} more`) : null) : null,
    each.key ? el("div", {}, el("button", { type: "button", onclick: () => choose(each.key) }, "Show the object")) : null);
}

function drawPicture() {
  const found = shown.picture;
  const parts = found.nodes.map((node) => el("div", { class: "node" },
    el("h3", {}, node.ready ? "✓ " : "✗ ", linked(["nodes", "", node.name], node.name), el("small", {}, ` kubelet ${node.version}${node.ready ? "" : ", not ready"}`)),
    node.devices.length ? held(node.devices) : el("p", { class: "dim" }, "no devices"),
    Object.entries(node.extendedResources).map(([name, count]) => el("p", { class: "dim" }, `${name}: ${count}`)),
    node.pods.length ? el("p", {}, "without devices: ", node.pods.map((pod) => [podLink(pod), " "])) : null));
  if (found.shared.length) parts.push(el("div", { class: "node" }, el("h3", {}, "devices of no single node"), held(found.shared)));
  if (found.waiting.pods.length + found.waiting.claims.length) parts.push(el("div", { class: "node" }, el("h3", {}, "waiting"),
    el("p", {}, found.waiting.pods.map((pod) => [podLink(pod), " "])),
    el("p", {}, found.waiting.claims.map((claim) => [linked(claimKey(claim), `claim ${claim.name}`), " "]))));
  by("picture").replaceChildren(...(parts.length ? parts : [el("p", { class: "dim" }, "no nodes then")]));
}

function claimKey(claim) {
  return ["resourceclaims.resource.k8s.io", ...claim.name.split("/")];
}

function podLink(pod) {
  return pod.phase === "gone" ? `${pod.name} (gone)` : linked(["pods", ...pod.name.split("/")], `${pod.name} (${pod.phase || "Pending"})`);
}

function linked(key, text) {
  return el("a", { href: "#", onclick: (event) => { event.preventDefault(); choose(key); } }, text);
}

/** Devices with their claims and pods, a row for each that holds a device. */
function held(devices) {
  const rows = devices.flatMap((device) => {
    const name = () => el("span", {}, el("b", {}, device.device), ` ${device.driver}`, device.withdrawn ? " ✗ withdrawn" : "", (device.taints || []).map((taint) => ` ⚠ ${taint}`));
    if (!device.claims.length) return [name(), el("span", { class: "free" }, "free"), el("span", { class: "free" }, "–")];
    return device.claims.flatMap((claim) => [name(), el("span", { class: "arrow" }, linked(claimKey(claim), claim.name)),
      claim.pods.length ? el("span", { class: "arrow" }, claim.pods.map((pod) => [podLink(pod), " "])) : el("span", { class: "free" }, "no pod")]);
  });
  return el("div", { class: "held" }, ["device", "claim", "pod"].map((title) => el("span", { class: "head" }, title)), rows);
}

function listObjects() {
  const parts = by("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  const options = shown.objects.map((each) => [JSON.stringify([each.resource, each.namespace, each.name]), `${each.resource} ${each.namespace ? `${each.namespace}/` : ""}${each.name}`, each])
    .filter(([, text]) => parts.every((part) => text.toLowerCase().includes(part)))
    .sort(([, , one], [, , other]) => rank(one.resource) - rank(other.resource));
  by("objects").replaceChildren(...options.map(([key, text, each]) => el("option", { value: key, selected: key === chosen }, `${text}  @${each.revision}`)));
}

/** Those that people look for come first. */
function rank(resource) {
  const place = FIRST.indexOf(resource);
  return place < 0 ? FIRST.length : place;
}

function choose(key) {
  chosen = JSON.stringify(key);
  against = null;
  listObjects();
  showObject().then(() => by("object").scrollIntoView({ block: "nearest" }), (error) => complain(error.message));
}

async function showObject() {
  if (!chosen) { by("object").replaceChildren(el("p", { class: "dim" }, "Choose an object to see what it was.")); return; }
  const [resource, namespace, name] = JSON.parse(chosen);
  const query = new URLSearchParams({ resource, namespace, name, at: shown.revision });
  if (against !== null) query.set("against", against);
  let found;
  try {
    found = await ask(`/api/object?${query}`);
  } catch (error) {
    if (error.status !== 404) throw error;
    by("object").replaceChildren(el("p", { class: "note" }, error.message));
    return;
  }
  const go = (text, revision) => el("button", { type: "button", disabled: revision === null, onclick: () => goTo(revision) }, text);
  const classes = { "+": "new", "-": "gone", " ": "" };
  by("object").replaceChildren(
    el("h3", {}, `${found.resource} ${found.namespace ? `${found.namespace}/` : ""}${found.name}`),
    el("p", {}, `Write ${found.number} of ${found.writes}: `, el("b", {}, found.verb), ` at revision ${found.revision} by ${found.by || "somebody"}`,
      found.user ? ` as ${found.user}` : "", found.server ? ` through API server ${found.server}` : ""),
    el("div", { class: "row" }, go("◀ write before", found.previous), go("write after ▶", found.next),
      el("button", { type: "button", onclick: () => { against = against === null ? shown.revision : null; showObject(); } }, against === null ? "Hold later states against this one" : `Held against revision ${against}: stop`)),
    el("p", { class: "dim" }, found.against === null ? "There was nothing before." : `+ new and - gone since revision ${found.against}`),
    el("div", { class: "lines" }, found.lines.map(([sign, line]) => el("div", { class: classes[sign] }, `${sign} ${line}`))));
}

function goTo(revision) {
  by("live").checked = false;
  showMoment(Math.min(Math.max(Number(revision) || doc.newest, doc.oldest), doc.newest)).catch((error) => complain(error.message));
}

async function listComponents() {
  const { components, versions, problem } = await ask("/api/components");
  if (problem) complain(problem);
  const every = [["", "every component"], ...components.map((each) => [each.name, `${each.name} ${each.version}${each.runs ? "" : " (down)"}`])];
  fill(by("moved"), every);
  fill(by("gated"), every);
  fill(by("component"), every.slice(1));
  fill(by("to"), versions.map((version) => [version, version]), components.length ? components[0].version : "");
}

function fill(select, entries, preset) {
  const before = select.value || preset;
  select.replaceChildren(...entries.map(([value, text]) => el("option", { value, selected: value === before }, text)));
}

function requested(action) {
  const some = (id) => (by(id).value ? [by(id).value] : []);
  if (action === "upgrade" || action === "downgrade") return { to: by("to").value, components: some("moved"), force: by("force").checked };
  if (action === "gates") return { gates: by("gates").value, components: some("gated") };
  if (action === "fork") return { at: shown.revision, directory: by("directory").value };
  return { component: by("component").value };
}

async function act(action) {
  const buttons = document.querySelectorAll("[data-action]"), notice = by("notice");
  for (const button of buttons) button.disabled = true;
  notice.hidden = false;
  notice.className = "note";
  notice.textContent = `${action}: under way …`;
  try {
    const done = await ask(`/api/actions/${action}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(requested(action)) });
    notice.textContent = [`✓ ${done.message}`, ...done.progress.map((line) => `· ${line}`)].join("\n");
  } catch (error) {
    notice.className = "note failed";
    notice.textContent = `✗ ${error.message}`;
  }
  for (const button of buttons) button.disabled = false;
  listComponents().catch(() => {});
}

by("login").addEventListener("submit", (event) => { event.preventDefault(); token = by("token").value.trim(); complain(""); begin(); });
by("slider").addEventListener("input", () => goTo(by("slider").value));
by("revision").addEventListener("change", () => goTo(by("revision").value));
by("before").addEventListener("click", () => goTo(shown.revision - 1));
by("after").addEventListener("click", () => goTo(shown.revision + 1));
by("live").addEventListener("change", () => { if (by("live").checked) showMoment(doc.newest); });
by("words").addEventListener("input", listObjects);
by("objects").addEventListener("change", () => choose(JSON.parse(by("objects").value)));
for (const button of document.querySelectorAll("[data-action]")) button.addEventListener("click", () => act(button.dataset.action));
begin();
