// Reading a trace, see docs/trace.md.

const TRACE = JSON.parse(document.getElementById("trace").textContent);
const VERSION = 1;
const GLOBAL = 0, SHARED = 1;

function halfToFloat(h) {
  const sign = h & 0x8000 ? -1 : 1, exponent = h >> 10 & 31, fraction = h & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** Calls use(row, column, value) for every value that was shown. */
function forEachShown(shown, use) {
  const [firstRow, firstColumn, , columns] = shown.at;
  if (!shown.values) {
    const bytes = Uint8Array.from(atob(shown.f16 ?? shown.f32), c => c.charCodeAt(0));
    if (shown.f16 !== undefined) {
      const words = new Uint16Array(bytes.buffer);
      shown.absent = i => words[i] === 0xffff;
      shown.values = Float32Array.from(words, halfToFloat);
    } else {
      const words = new Uint32Array(bytes.buffer);
      shown.absent = i => words[i] === 0xffffffff;
      shown.values = new Float32Array(bytes.buffer);
    }
  }
  shown.values.forEach((value, i) => {
    if (!shown.absent(i)) use(firstRow + Math.floor(i / columns), firstColumn + i % columns, value);
  });
}

/** An access as the trace has it, with names: {memory, object, write, site, bytes, first[], last[]}. */
function readAccess(list) {
  const [memory, object, write, site, bytes] = list, first = [], last = [];
  for (let i = 5; i < list.length; i += 2) { first.push(list[i]); last.push(list[i + 1]); }
  return {memory, object, write: write === 1, site, bytes, first, last};
}

for (const run of TRACE.runs)
  for (const launch of run.launches) {
    const perQuery = run.problem.shapes.q?.slice(0, 3).join();
    for (const t of launch.tensors) t.vector = t.extents.length < 2 || t.extents.join() === perQuery;
    launch.blocks.forEach((block, number) => {
      block.number = number;
      block.recorded = block.moments !== undefined;
      block.moments ??= [];
      for (const moment of block.moments) {
        moment.access = (moment.access ?? []).map(readAccess);
        moment.show ??= [];
      }
      block.head = headOf(launch, block);
    });
    readParties(launch);
    launch.steps = Math.max(1, ...launch.blocks.map(b => b.moments.length));
  }

/** Which query head a block works on: that of the tensor with most heads, as there may be fewer key heads. */
function headOf(launch, block) {
  const accesses = block.moments.flatMap(m => m.access).filter(a => a.memory === GLOBAL && a.first.length === 4);
  const heads = a => launch.tensors[a.object].extents[1], most = Math.max(...accesses.map(heads));
  const access = accesses.find(a => heads(a) === most);
  return access ? [access.first[0], access.last[0], access.first[1], access.last[1]].join() : "";
}

/** The moments that make each step: [{launch, moments: [[block, moment number], …], ends: launch is over}, …]. */
function stepsOf(run, order) {
  const steps = [];
  for (const launch of run.launches) {
    const first = steps.length;
    const recorded = launch.blocks.filter(b => b.moments.length > 0);
    if (order === "together")
      for (let t = 0; t < launch.steps; ++t)
        steps.push({launch, moments: recorded.filter(b => t < b.moments.length).map(b => [b, t])});
    else
      for (const block of recorded) block.moments.forEach((_, t) => steps.push({launch, moments: [[block, t]]}));
    if (steps.length === first) steps.push({launch, moments: []});
    steps.at(-1).ends = true;
  }
  return steps;
}

/** Scores may be shown for rows and keys that only fill a tile up; the problem says how many there are. */
function scoreExtents(run) {
  let rows = 0, columns = 0, least = Infinity, most = -Infinity;
  for (const launch of run.launches)
    for (const block of launch.blocks)
      for (const moment of block.moments)
        for (const shown of moment.show)
          if (shown.name === "S")
            forEachShown(shown, (row, column, value) => {
              if (value === -Infinity) return;
              rows = Math.max(rows, row + 1);
              columns = Math.max(columns, column + 1);
              if (Number.isFinite(value)) { least = Math.min(least, value); most = Math.max(most, value); }
            });
  const {q, k, x} = run.problem.shapes;
  if (q && q[2] > 1) rows = q[2];
  if (k) columns = k[2];
  if (x) { rows = x[0]; columns = x[1]; }
  return {rows, columns, reach: Math.max(Math.abs(least), Math.abs(most), 1e-30)};
}
