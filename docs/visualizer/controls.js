// The step that all panes show, the keys, and the address that names the moment.

const SPEEDS = [0.5, 1, 2, 4, 8, 16, 32, 64];
const ui = {step: 0, speed: 4, order: "together", a: 0, b: -1, playing: null};
let panes = [];

const get = id => document.getElementById(id);
const length = () => Math.max(1, ...panes.map(p => p.playback.steps.length));

function openPanes() {
  const chosen = [ui.a, ui.b].filter(i => i >= 0 && i < TRACE.runs.length);
  panes = chosen.map((run, i) => new Pane("ab"[i], new Playback(TRACE.runs[run])));
  for (const pane of panes) if (ui.order !== "together") pane.playback.setOrder(ui.order);
  get("panes").replaceChildren(...panes.map(p => p.element));
  get("panes").classList.toggle("two", panes.length > 1);
}

function seek(step) {
  ui.step = Math.max(0, Math.min(step, length() - 1));
  refresh();
}

function refresh() {
  for (const pane of panes) {
    pane.playback.seek(ui.step);
    pane.draw();
  }
  const scrub = get("scrub");
  scrub.max = length() - 1;
  scrub.value = ui.step;
  get("position").textContent = `step ${ui.step + 1} of ${length()}`;
  get("play").textContent = ui.playing ? "❚❚ pause" : "▶ play";
  writeAddress();
}

function toFault(pane) {
  const {playback} = pane, step = playback.faultStep();
  if (step < 0) return;
  const [block] = playback.steps[step].moments.find(([b, n]) => b.moments[n].fault);
  ui.step = step;
  pane.block = block.number;
  pane.row = null;
  refresh();
}

/** To the next step after, or the last one before, at which the chosen block of the first pane passes a barrier. */
function toBarrier(direction) {
  const {steps} = panes[0].playback;
  for (let s = ui.step + direction; s >= 0 && s < steps.length; s += direction) {
    const block = steps[s].launch.blocks[Math.min(panes[0].block, steps[s].launch.blocks.length - 1)];
    if (steps[s].moments.some(([b, n]) => (ui.order === "single" || b === block) && b.moments[n].barrier !== undefined)) return seek(s);
  }
  seek(direction < 0 ? 0 : length() - 1);
}

function play(on = !ui.playing) {
  clearInterval(ui.playing);
  ui.playing = null;
  if (on) {
    if (ui.step >= length() - 1) ui.step = 0;
    ui.playing = setInterval(() => {
      if (ui.step >= length() - 1) return play(false);
      seek(ui.step + 1);
    }, 1000 / ui.speed);
  }
  refresh();
}

function setSpeed(speed) {
  ui.speed = speed;
  get("speed").value = speed;
  if (ui.playing) play(true); else writeAddress();
}

function setOrder(order) {
  const share = ui.step / Math.max(1, length() - 1);
  ui.order = get("order").value = order;
  for (const pane of panes) pane.playback.setOrder(order);
  seek(Math.round(share * (length() - 1)));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  if (panes.length) refresh();
}

/** The address names the moment: a, b runs; s step; x, y blocks; r, q rows; order, speed and theme where not as usual. */
function writeAddress() {
  const words = new URLSearchParams();
  words.set("a", ui.a);
  if (ui.b >= 0) words.set("b", ui.b);
  words.set("s", ui.step);
  panes.forEach((pane, i) => {
    if (pane.block) words.set("xy"[i], pane.block);
    if (pane.row !== null) words.set("rq"[i], pane.row);
  });
  if (ui.order !== "together") words.set("order", ui.order);
  if (ui.speed !== 4) words.set("speed", ui.speed);
  if (ui.theme) words.set("theme", ui.theme);
  if (ui.embedded) words.set("embed", "");
  const hash = `#${words}`;
  if (hash !== location.hash && !(ui.playing && ui.step % 8)) history.replaceState(null, "", hash);
}

function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  const number = (key, otherwise) => {
    const value = Number.parseInt(words.get(key) ?? "", 10);
    return Number.isFinite(value) ? value : otherwise;
  };
  const runs = TRACE.runs.length;
  ui.a = Math.max(0, Math.min(number("a", 0), runs - 1));
  ui.b = Math.min(number("b", words.has("a") || !TRACE.beside ? -1 : TRACE.beside), runs - 1);
  ui.order = words.get("order") === "single" ? "single" : "together";
  ui.speed = SPEEDS.includes(Number(words.get("speed"))) ? Number(words.get("speed")) : 4;
  ui.theme = ["dark", "light"].includes(words.get("theme")) ? words.get("theme") : undefined;
  document.documentElement.dataset.theme = ui.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  ui.embedded = words.has("embed");
  document.documentElement.classList.toggle("embedded", ui.embedded);
  get("run-a").value = ui.a;
  get("run-b").value = ui.b;
  get("order").value = ui.order;
  get("speed").value = ui.speed;
  openPanes();
  panes.forEach((pane, i) => {
    pane.block = Math.max(0, number("xy"[i], 0));
    pane.row = number("rq"[i], null);
  });
  const faulty = panes.find(p => p.playback.faultStep() >= 0);
  if (faulty && !words.has("s")) return toFault(faulty);
  seek(number("s", 0));
}

function start() {
  if (TRACE.version !== VERSION) {
    get("panes").textContent = `This page plays traces of version ${VERSION}, and this one has version ${TRACE.version}.`;
    return;
  }
  const options = TRACE.runs.map((run, i) => `<option value="${i}">${escape(runName(run))}</option>`).join("");
  get("run-a").innerHTML = options;
  get("run-b").innerHTML = `<option value="-1">nothing</option>${options}`;
  get("speed").innerHTML = SPEEDS.map(s => `<option value="${s}">${s} / s</option>`).join("");
  for (const id of ["run-a", "run-b"])
    get(id).onchange = event => {
      ui[id.at(-1)] = Number(event.target.value);
      openPanes();
      seek(ui.step);
    };
  get("first").onclick = () => seek(0);
  get("back").onclick = () => seek(ui.step - 1);
  get("on").onclick = () => seek(ui.step + 1);
  get("last").onclick = () => seek(length() - 1);
  get("play").onclick = () => play();
  get("speed").onchange = event => setSpeed(Number(event.target.value));
  get("order").onchange = event => setOrder(event.target.value);
  get("scrub").oninput = event => seek(Number(event.target.value));
  get("theme").onclick = () => { ui.theme = dark() ? "light" : "dark"; setTheme(ui.theme); };
  get("help-button").onclick = () => {
    get("help").hidden = !get("help").hidden;
    get("help-button").setAttribute("aria-expanded", String(!get("help").hidden));
  };
  const keys = {
    " ": () => play(), ArrowLeft: e => e.shiftKey ? toBarrier(-1) : seek(ui.step - 1),
    ArrowRight: e => e.shiftKey ? toBarrier(1) : seek(ui.step + 1), Home: () => seek(0), End: () => seek(length() - 1),
    ArrowUp: () => panes.forEach(p => p.moveRow(-1)), ArrowDown: () => panes.forEach(p => p.moveRow(1)),
    "[": () => panes.forEach(p => p.chooseBlock(p.block - 1)), "]": () => panes.forEach(p => p.chooseBlock(p.block + 1)),
    "-": () => setSpeed(SPEEDS[Math.max(0, SPEEDS.indexOf(ui.speed) - 1)]),
    "+": () => setSpeed(SPEEDS[Math.min(SPEEDS.length - 1, SPEEDS.indexOf(ui.speed) + 1)]),
    o: () => setOrder(ui.order === "together" ? "single" : "together"), d: () => get("theme").click(),
    e: () => panes.forEach(toFault), "?": () => get("help-button").click(),
  };
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "SELECT") return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act(event);
  });
  addEventListener("hashchange", readAddress);
  addEventListener("resize", refresh);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (!ui.theme) readAddress(); });
  readAddress();
}

start();
