// Parties of a block, what they wait for, and what they have under way: what of it happens when, and in words.

const THREADS = 0, COPIES = 1, PRODUCTS = 2;  // who reads or writes

/** Fills in what the strips need, where a trace leaves out what is not there. */
function readParties(launch) {
  launch.barriers ??= [];
  for (const tile of launch.tiles) tile.barriers = launch.barriers.some(b => b.name.startsWith(`${tile.name}[`));
  for (const block of launch.blocks) {
    block.parties ??= [];
    for (const list of ["fills", "groups", "stores"])
      for (const work of block[list] ??= []) work.boxes = work.boxes.map(readAccess);
    block.moments.forEach((moment, number) => {
      moment.events ??= [];
      moment.number = number;
      for (const e of moment.events) {
        e.moment = number;
        e.boxes = (e.boxes ?? []).map(readAccess);
      }
      moment.access.forEach((a, i) => { [a.party, a.agent] = moment.by?.[i] ?? [-1, THREADS]; });
    });
    // Of a fill each copy by itself: a barrier may wait for tiles of several tensors.
    for (const fill of block.fills)
      fill.copies = block.moments.flatMap(m => m.events.filter(e => e.kind === "copy" && e.barrier === fill.barrier && e.number === fill.phase));
    block.waits = block.moments.flatMap(m => m.events.filter(e => e.kind.startsWith("wait")));
  }
}

/** What has become of a stage by a moment: "free", "filling", "full" or "read". */
function stateOf(fill, moment) {
  if (moment < fill.asked) return "free";
  if (fill.full === undefined || moment <= fill.full) return "filling";
  if (fill.first_read === undefined || moment < fill.first_read) return moment > fill.released ? "free" : "full";
  return moment <= (fill.released ?? fill.last_read) ? "read" : "free";
}
const STATES = {filling: "is filling", full: "is full", read: "is being read", free: "is free"};

/** Whether what parties wait for is an element of global memory, which a block releases and another one acquires. */
const isFlag = barrier => barrier !== undefined && barrier.arrivals === 0;

const boxText = (launch, a) => objectName(launch, a) + indexText(objectExtents(launch, a), a);
const boxesText = (launch, boxes) => boxes.map(a => boxText(launch, a)).join(", ");
/** What a copy or a fill brings, as short as it gets: "K 64…127". */
function fillText(launch, {boxes}) {
  return boxes.filter(a => !a.write).map(a => {
    const tensor = launch.tensors[a.object], [first, last] = rowsOf(tensor, a);
    return `${tensor.name} ${range(first, last)}`;
  }).join(", ");
}

/** What happened, in words. Moments are counted from 1, as everywhere on the page. */
function eventText(launch, e) {
  const barrier = launch.barriers[e.barrier], name = barrier?.name;
  const phase = barrier?.numbered ? `opening ${e.number + 1}` : isFlag(barrier) ? `release ${e.number + 1}` : `phase ${e.number}`;
  const reads = e.boxes.filter(a => !a.write), writes = e.boxes.filter(a => a.write);
  const many = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  const groups = e.last === undefined ? `group ${e.number}` : `groups ${e.number} to ${e.last}`;
  const then = e.until === undefined ? ", and never goes on" : `; goes on in moment ${e.until + 1}`;
  // Of a cluster: at whose barrier, or who does it.
  const other = e.block === undefined ? "" : `block ${e.block} of the cluster`;
  const [who, whose] = e.party === undefined && other ? [`${other} `, ""] : ["", other && ` of ${other}`];
  switch (e.kind) {
    case "init": return `makes ${name}: ${many(e.number, "arrival")} end${e.number === 1 ? "s" : ""} a phase`;
    case "arrive": return isFlag(barrier) ? `releases ${name}: ${phase}` : [e.times === 0 ? "" : `${who}arrives at ${name}${whose}`, e.bytes ? `announces ${bytesText(e.bytes)}${e.times === 0 ? ` to ${name}` : ""}` : ""]
      .filter(Boolean).join(" and ") + `, ${phase}${e.times > 1 ? `: ${e.times} arrivals` : ""}`;
    case "wait": return e.number < 0 ? `passes ${name}, which nobody holds yet` : `waits at ${name} for ${phase}${then}`;
    case "over": return `${name}: ${phase} is ${isFlag(barrier) ? "there" : "over"}`;
    case "copy": return `${who}asks for ${boxesText(launch, reads) || "zeros"} to ${boxesText(launch, writes)}, ${bytesText(e.bytes)}, which report to ${name}${whose}, ${phase}`;
    case "land": return `${name}: ${bytesText(e.bytes)} have come, ${phase}`;
    case "multiply": return `issues ${many(e.times ?? 1, "product")} of ${groups}: the tensor cores read ${boxesText(launch, reads)}`;
    case "commit": return `closes ${groups} of products`;
    case "wait_products": return e.number > 0 ? `waits for products up to group ${e.number - 1}${then}` : "has no products to wait for yet";
    case "store": return `asks to store ${boxesText(launch, reads)} to ${boxesText(launch, writes)}, ${bytesText(e.bytes)}`;
    case "commit_stores": return `closes group ${e.number} of stores`;
    case "wait_read": return e.number > 0 ? `waits until its stores have read their tiles${then}` : "has no stores to wait for yet";
    case "wait_stores": return e.number > 0 ? `waits until its stores are done${then}` : "has no stores to wait for yet";
    case "give_registers": return `keeps ${e.number} registers per thread`;
    case "take_registers": return `takes ${e.number} registers per thread`;
  }
  return e.kind;
}

/** A party's events of a moment: what ends the moment, since it is waited for, comes last. */
function inOrder(events) {
  const ends = e => e.kind.startsWith("wait") && e.until !== e.moment;
  return [...events.filter(e => !ends(e)), ...events.filter(ends)];
}

/** One event for the products that one line issues in a moment, in group after group, and for the groups that it closes. */
function together(events) {
  const lines = new Map();
  for (const e of events) {
    const key = ["multiply", "commit"].includes(e.kind) ? `${e.kind} ${e.site}` : e, known = lines.get(key);
    if (!known) { lines.set(key, {...e, boxes: e.boxes.map(a => ({...a, first: [...a.first], last: [...a.last]}))}); continue; }
    known.last = e.number;
    known.times = (known.times ?? 1) + (e.times ?? 1);
    for (const box of e.boxes) {
      const same = known.boxes.find(a => a.object === box.object);
      if (!same) known.boxes.push(box);
      else for (const d in box.first) {
        same.first[d] = Math.min(same.first[d], box.first[d]);
        same.last[d] = Math.max(same.last[d], box.last[d]);
      }
    }
  }
  return [...lines.values()];
}

/** What the threads of a party read, show and write in a moment, beside what they have set off. */
function ownAccess(launch, moment, party) {
  return moment.access.filter(a => a.party === party && a.agent === THREADS && !(a.memory === SHARED && launch.tiles[a.object]?.barriers));
}

const VERBS = {asks: "asks for copies", stores: "stores", multiplies: "issues products", works: "works on"};
/** What a party does in a moment, in a word of VERBS; nothing if it does nothing. */
function deedOf(launch, moment, party) {
  const events = moment.events.filter(e => e.party === party), access = ownAccess(launch, moment, party);
  if (!events.length && !access.length) return undefined;
  return events.some(e => e.kind === "copy") ? "asks"
    : events.some(e => e.kind === "store") || access.some(a => a.memory === GLOBAL && a.write) ? "stores"
    : events.some(e => e.kind === "multiply") ? "multiplies" : "works";
}

/** "warp 0 of warpgroup 0 asks for copies; warpgroup 1 waits" */
function partiesText(launch, block, moment) {
  return block.parties.map((party, p) => {
    const deed = deedOf(launch, moment, p), {number} = moment;
    if (deed) return `${party.name} ${VERBS[deed]}`;
    return idleOf(block, p).some(([first, last]) => first <= number && number <= last) ? `${party.name} waits` : "";
  }).filter(Boolean).join("; ");
}

/** Moments that a party waits through: [first, last, event]. */
function idleOf(block, party) {
  return block.waits.filter(e => e.party === party).map(e => [e.moment + 1, (e.until ?? block.moments.length) - 1, e])
    .filter(([first, last]) => first <= last);
}
