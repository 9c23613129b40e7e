// What is said in words and numbers.

function bytesText(n) {
  if (n < 1024) return `${n} B`;
  if (n < 1024 ** 2) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / 1024 ** 2).toFixed(2)} MiB`;
}

function numberText(x) {
  if (x === undefined) return "";
  if (x === Infinity) return "∞";
  if (x === -Infinity) return "−∞";
  if (Number.isNaN(x)) return "NaN";
  if (x === 0) return "0";
  const size = Math.abs(x);
  return (size !== 0 && (size < 1e-3 || size >= 1e5) ? x.toExponential(2) : x.toPrecision(4)).replace("-", "−");
}

function objectName(launch, a) {
  if (a.memory === GLOBAL) return launch.tensors[a.object].name;
  return a.object < 0 ? "shared memory" : launch.tiles[a.object].name;
}
function objectExtents(launch, a) {
  if (a.memory === GLOBAL) return launch.tensors[a.object].extents;
  return a.object < 0 ? [] : [launch.tiles[a.object].rows, launch.tiles[a.object].columns];
}

/** "reads K[0, 0, 32…63, :]; writes K_j" */
function momentText(launch, moment) {
  const list = write => [...new Set(moment.access.filter(a => a.write === write).map(a =>
    objectName(launch, a) + (a.memory === GLOBAL ? indexText(objectExtents(launch, a), a) : "")))];
  const reads = list(false), writes = list(true);
  const shows = [...new Set(moment.show.map(s => s.name))];
  const parts = [];
  if (reads.length) parts.push(`reads ${reads.join(", ")}`);
  if (shows.length) parts.push(`computes ${shows.join(", ")}`);
  if (writes.length) parts.push(`writes ${writes.join(", ")}`);
  return parts.join("; ") || "waits";
}

/** How a tile lies in shared memory. */
function layoutText(t) {
  if (!t.panel_columns) return "row by row";
  const panels = Math.ceil(t.columns / t.panel_columns), span = t.panel_columns * t.element_bytes;
  return `${panels > 1 ? `${panels} panels, ` : ""}${t.swizzle_bits ? `${span}-byte swizzle` : "no swizzle"}`;
}

/** Where an element of a panel tile lies: panel by panel, and in a row the pieces of 16 bytes exchanged. */
function placeText(t, row, column) {
  const span = t.panel_columns * t.element_bytes, panel = Math.floor(column / t.panel_columns), inRow = column % t.panel_columns * t.element_bytes;
  const plain = row * span + inRow, place = plain ^ plain >> 3 & t.swizzle_bits, piece = byte => Math.floor(byte % span / 16);
  return `${t.name}(${row}, ${column}): piece ${piece(plain)} of its row lies in place ${piece(place)}, ` +
         `byte ${t.offset + panel * t.rows * span + place} of shared memory`;
}

function escape(text) {
  return String(text).replace(/[&<>"]/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;"})[c]);
}

function runName(run) {
  const p = run.problem, more = [];
  if (p.causal) more.push("causal");
  if (p.splits) more.push(`${p.splits} split${p.splits > 1 ? "s" : ""}`);
  return `${run.phase} · ${run.entry}${more.length ? ", " + more.join(", ") : ""}`;
}

function problemText(run) {
  const shapes = Object.entries(run.problem.shapes).map(([name, sizes]) => `${name} [${sizes.join(", ")}]`).join("  ");
  return `${shapes}  ${run.problem.dtype}${run.problem.causal ? ", causal" : ""} · ${run.device.name}`;
}

/** The element of `name`, with `rank` indices, that the diagnosis speaks of: "V_j(12, 24)". */
function faultyElement(run, name, rank) {
  for (let at = -1; (at = (run.words ?? "").indexOf(`${name}(`, at + 1)) >= 0;) {
    if (/\w/.test(run.words[at - 1] ?? "")) continue;
    const indices = run.words.slice(at + name.length + 1).split(")")[0].split(", ").map(Number);
    if (indices.length === rank && indices.every(Number.isInteger)) return indices;
  }
  return null;
}
