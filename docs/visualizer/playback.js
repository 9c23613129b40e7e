// What is known of a run at a step.

const MASKED = -Infinity;

/** All that has happened in a run up to and including one step. Forward it adds a step; backward it begins anew. */
class Playback {
  constructor(run) {
    this.run = run;
    this.extents = scoreExtents(run);
    this.setOrder("together");
  }

  setOrder(order) {
    this.order = order;
    this.steps = stepsOf(this.run, order);
    this.reset();
  }

  reset() {
    this.at = -1;
    this.traffic = new Map();      // tensor name -> [read, written], all launches
    this.sharedTraffic = [0, 0];
    this.barriers = 0;
    this.scores = new Map();       // head -> values, and which of them are known
    this.startLaunch(this.steps[0]?.launch);
  }

  startLaunch(launch) {
    this.launch = launch;
    this.touched = new Map();      // tensor and its leading indices -> {read, written}: a flag for each row
    this.tiles = new Map();        // block -> tile index -> {rows: a flag for each that holds something, text}
    this.states = new Map();       // block -> row -> name -> part -> value
    this.lastTile = new Map();     // block -> the last scores it showed
  }

  seek(step) {
    step = Math.max(0, Math.min(step, this.steps.length - 1));
    if (step < this.at) this.reset();
    while (this.at < step) this.advance();
  }

  advance() {
    const step = this.steps[++this.at];
    if (!step) return;
    if (step.launch !== this.launch) this.startLaunch(step.launch);
    for (const [block, number] of step.moments) this.apply(step.launch, block, block.moments[number]);
    if (step.ends)
      for (const block of step.launch.blocks)
        if (!block.recorded) this.addCounters(block.counters);
  }

  addCounters(counters) {
    for (const [name, [read, written]] of Object.entries(counters.tensors)) this.addTraffic(name, read, written);
    this.sharedTraffic[0] += counters.shared_read;
    this.sharedTraffic[1] += counters.shared_written;
    this.barriers += counters.barriers;
  }

  addTraffic(name, read, written) {
    const sum = this.traffic.get(name) ?? [0, 0];
    this.traffic.set(name, [sum[0] + read, sum[1] + written]);
  }

  apply(launch, block, moment) {
    const source = copySource(launch, moment);
    for (const a of moment.access)
      if (a.memory === GLOBAL) {
        const tensor = launch.tensors[a.object];
        this.addTraffic(tensor.name, a.write ? 0 : a.bytes, a.write ? a.bytes : 0);
        const rows = this.touchedRows(a.object, tensor, leadOf(tensor, a.first)), [first, last] = rowsOf(tensor, a);
        (a.write ? rows.written : rows.read).fill(1, first, last + 1);
      } else {
        this.sharedTraffic[a.write ? 1 : 0] += a.bytes;
        if (a.object < 0 || !a.write || a.agent === COPIES) continue;  // what copies bring has states of its own
        const tiles = this.tilesOf(block), tile = launch.tiles[a.object];
        const content = tiles.get(a.object) ?? {rows: new Uint8Array(tile.rows), text: ""};
        content.rows.fill(1, a.first[0], a.last[0] + 1);
        content.text = block.parties.length ? "computed" : source ?? "computed";
        tiles.set(a.object, content);
      }
    for (const shown of moment.show) {
      if (shown.name === "S") {
        this.lastTile.set(block, shown);
        this.addScores(block.head, shown);
      } else this.addState(block, shown);
    }
    if (moment.barrier !== undefined) ++this.barriers;
  }

  touchedRows(object, tensor, lead) {
    const key = object + ":" + lead;
    if (!this.touched.has(key)) {
      const rows = matrixOf(tensor).rows;
      this.touched.set(key, {read: new Uint8Array(rows), written: new Uint8Array(rows)});
    }
    return this.touched.get(key);
  }

  tilesOf(block) {
    if (!this.tiles.has(block)) this.tiles.set(block, new Map());
    return this.tiles.get(block);
  }

  scoresOf(head) {
    const {rows, columns} = this.extents;
    if (!this.scores.has(head))
      this.scores.set(head, {values: new Float32Array(rows * columns), known: new Uint8Array(rows * columns), stride: columns,
                             reach: this.extents.reach, hasNan: false});
    return this.scores.get(head);
  }

  addScores(head, shown) {
    const {rows, columns} = this.extents, scores = this.scoresOf(head), {values, known} = scores;
    forEachShown(shown, (row, column, value) => {
      if (row < 0 || column < 0 || row >= rows || column >= columns) return;
      values[row * columns + column] = value;
      known[row * columns + column] = 1;
      if (Number.isNaN(value)) scores.hasNan = true;
    });
  }

  addState(block, shown) {
    if (!this.states.has(block)) this.states.set(block, new Map());
    const states = this.states.get(block);
    forEachShown(shown, (row, part, value) => {
      if (this.extents.rows && row >= this.extents.rows) return;
      if (!states.has(row)) states.set(row, {});
      (states.get(row)[shown.name] ??= [])[part] = value;
    });
  }

  currentMoment(block) {
    const found = this.steps[this.at]?.moments.find(([b]) => b === block);
    return found ? {number: found[1], moment: block.moments[found[1]]} : null;
  }

  /** The step at which the machine diagnosed the run, if it did. */
  faultStep() {
    return this.steps.findIndex(s => s.moments.some(([b, n]) => b.moments[n].fault));
  }
}

/** The indices before those of the figure: sequence and head, or nothing. */
function leadOf(tensor, first) { return first.slice(0, tensor.vector ? -1 : Math.max(0, first.length - 2)).join(); }

/** A tensor as a figure: its last two dimensions, or a column for what has one number for each query. */
function matrixOf(tensor) {
  const e = tensor.extents;
  return tensor.vector ? {rows: e.at(-1) ?? 1, columns: 1} : {rows: e.at(-2), columns: e.at(-1)};
}
function rowsOf(tensor, a) {
  const d = a.first.length - (tensor.vector ? 1 : 2);
  return d < 0 ? [0, 0] : [a.first[d], a.last[d]];
}
function columnsOf(tensor, a) { return tensor.vector ? [0, 0] : [a.first.at(-1), a.last.at(-1)]; }

/** What a moment copies into shared memory, as text: nothing if it does more than copy. */
function copySource(launch, moment) {
  const elements = a => a.bytes / (a.memory === GLOBAL ? launch.tensors : launch.tiles)[a.object].element_bytes;
  const shared = moment.access.filter(a => a.memory === SHARED && a.object >= 0);
  if (moment.show.length > 0 || shared.length !== 1 || !shared[0].write) return undefined;
  const from = moment.access.filter(a => a.memory === GLOBAL && !a.write && elements(a) <= elements(shared[0]));
  return from.map(a => launch.tensors[a.object].name + indexText(launch.tensors[a.object].extents, a)).join(", ") || undefined;
}

const range = (first, last) => first === last ? `${first}` : `${first}…${last}`;

/** "[1, 32…63, :]": what of an object was touched; ":" is a whole dimension, and only sequences and heads that are alone go
 *  without saying. */
function indexText(extents, a) {
  const parts = a.first.map((f, d) => f === 0 && a.last[d] === extents[d] - 1 && extents[d] > 1 ? ":" : range(f, a.last[d]));
  return `[${parts.filter((_, d) => d >= parts.length - 2 || extents[d] > 1).join(", ")}]`;
}
