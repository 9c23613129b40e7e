// Parties of a block, what they wait for, and what they have under way: strips over the block's moments.

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
  if (fill.first_read === undefined || moment < fill.first_read) return fill.released !== undefined && moment > fill.released ? "free" : "full";
  return moment <= (fill.released ?? fill.last_read) ? "read" : "free";
}
const STATES = {filling: "is filling", full: "is full", read: "is being read", free: "is free"};

const boxText = (launch, a) => objectName(launch, a) + indexText(objectExtents(launch, a), a);
const boxesText = (launch, boxes) => boxes.map(a => boxText(launch, a)).join(", ");
/** What a copy or a fill brings, as short as it gets: "K 64…127". */
function fillText(launch, {boxes}) {
  return boxes.filter(a => !a.write).map(a => {
    const {extents, name} = launch.tensors[a.object], rows = Math.max(0, extents.length - 2);
    return `${name} ${range(a.first[rows], a.last[rows])}`;
  }).join(", ");
}

/** What happened, in words. Moments are counted from 1, as everywhere on the page. */
function eventText(launch, e) {
  const barrier = launch.barriers[e.barrier], name = barrier?.name, phase = barrier?.numbered ? `opening ${e.number + 1}` : `phase ${e.number}`;
  const reads = e.boxes.filter(a => !a.write), writes = e.boxes.filter(a => a.write), many = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  const then = e.until === undefined ? ", and never goes on" : `; goes on in moment ${e.until + 1}`;
  switch (e.kind) {
    case "init": return `makes ${name}: ${many(e.number, "arrival")} end a phase`;
    case "arrive": return e.bytes ? `arrives at ${name} and announces ${bytesText(e.bytes)}, ${phase}` : `arrives at ${name}, ${phase}${e.times > 1 ? `: ${e.times} arrivals` : ""}`;
    case "wait": return e.number < 0 ? `passes ${name}, which nobody holds yet` : `waits at ${name} for ${phase}${then}`;
    case "over": return `${name}: ${phase} is over`;
    case "copy": return `asks for ${boxesText(launch, reads) || "zeros"} to ${boxesText(launch, writes)}, ${bytesText(e.bytes)}, which report to ${name}, ${phase}`;
    case "land": return `${name}: ${bytesText(e.bytes)} have come, ${phase}`;
    case "multiply": return `issues ${many(e.times ?? 1, "product")} of group ${e.number}: the tensor cores read ${boxesText(launch, reads)}`;
    case "commit": return `closes group ${e.number} of products`;
    case "wait_products": return e.number > 0 ? `waits for products up to group ${e.number - 1}${then}` : "has no products to wait for yet";
    case "store": return `asks to store ${boxesText(launch, reads)} to ${boxesText(launch, writes)}, ${bytesText(e.bytes)}`;
    case "commit_stores": return `closes group ${e.number} of stores`;
    case "wait_read": return e.number > 0 ? `waits until its stores have read their tiles${then}` : "has no stores to wait for yet";
    case "wait_stores": return e.number > 0 ? `waits until its stores are done${then}` : "has no stores to wait for yet";
    case "give_registers": return `keeps ${e.number} registers a thread`;
    case "take_registers": return `takes ${e.number} registers a thread`;
  }
  return e.kind;
}

/** What the threads of a party read, show and write in a moment, beside what they have set off. */
function ownAccess(launch, moment, party) {
  return moment.access.filter(a => a.party === party && a.agent === THREADS && !(a.memory === SHARED && launch.tiles[a.object]?.barriers));
}

const VERBS = {asks: "asks for copies", stores: "stores", multiplies: "issues products", works: "works on"};
/** What a party does in a moment, in a word of VERBS; nothing if it does nothing. */
function deedOf(launch, block, party, moment) {
  const events = moment.events.filter(e => e.party === party), access = ownAccess(launch, moment, party);
  if (!events.length && !access.length) return undefined;
  return events.some(e => e.kind === "copy") ? "asks"
    : events.some(e => e.kind === "store") || access.some(a => a.memory === GLOBAL && a.write) ? "stores"
    : events.some(e => e.kind === "multiply") ? "multiplies" : "works";
}

/** "warp 0 of warpgroup 0 asks for copies; warpgroup 1 waits" */
function partiesText(launch, block, moment) {
  return block.parties.map((party, p) => {
    const deed = deedOf(launch, block, p, moment), number = moment.number;
    if (deed) return `${party.name} ${VERBS[deed]}`;
    return idleOf(block, p).some(([first, last]) => first <= number && number <= last) ? `${party.name} waits` : "";
  }).filter(Boolean).join("; ");
}

/** Moments that a party waits through: [first, last, event]. */
function idleOf(block, party) {
  return block.waits.filter(e => e.party === party).map(e => [e.moment + 1, (e.until ?? block.moments.length) - 1, e])
    .filter(([first, last]) => first <= last);
}

/** The strips of a block: [{label, title, height, draw(x) -> svg}, …]; `x` is where a moment begins. */
function stripsOf(launch, block) {
  const strips = [], end = block.moments.length;
  const cell = (x, first, last, height, kind, title, site, text = "") => {
    const left = x(first) + .5, width = Math.max(1, x(last + 1) - x(first) - 1);
    const words = text && width > text.length * 6 + 7 ? `<text class="in ${kind}" x="${left + 4}" y="${height / 2 + 3.5}">${escape(text)}</text>` : "";
    return `<rect class="${kind}" x="${left}" y="1.5" width="${width}" height="${height - 3}" rx="1.5"${site === undefined ? "" : ` data-site="${site}"`}><title>${escape(title)}</title></rect>${words}`;
  };
  block.parties.forEach((party, number) => {
    strips.push({label: party.name, soft: party.role, height: 20, kind: "party", title: `${party.name}, threads ${party.first_thread} to ${party.first_thread + party.threads - 1}`, draw: x => {
      let svg = "";
      block.moments.forEach((moment, m) => {
        const events = moment.events.filter(e => e.party === number), access = ownAccess(launch, moment, number);
        const kind = deedOf(launch, block, number, moment);
        if (!kind) return;
        const words = [...events.map(e => eventText(launch, e)), ...(access.length ? [momentText(launch, {access, show: []})] : [])];
        svg += cell(x, m, m, 20, kind, `moment ${m + 1}\n${words.join("\n")}`, (events.find(e => e.kind === "copy" || e.kind === "multiply" || e.kind === "store") ?? events[0] ?? access[0]).site);
      });
      for (const [first, last, e] of idleOf(block, number))
        svg += cell(x, first, last, 20, "waits", eventText(launch, e), e.site, launch.barriers[e.barrier]?.name);
      return svg;
    }});
  });
  // A stage is a place in shared memory, and the barrier that tells when it is full. They come as they lie there.
  const placeOfFill = fill => fill.boxes.filter(a => a.write && a.object >= 0).map(a => launch.tiles[a.object].offset * 1024 + a.first[0])[0] ?? 0;
  const stages = new Map();
  for (const fill of block.fills.toSorted((a, b) => placeOfFill(a) - placeOfFill(b))) {
    const key = `${fill.barrier} ${placeOfFill(fill)}`;
    stages.set(key, [...stages.get(key) ?? [], fill]);
  }
  for (const fills of stages.values()) {
    const stage = fills[0].barrier, emptied = fills.find(f => f.emptied_at !== undefined)?.emptied_at, name = launch.barriers[stage].name;
    const written = fills.flatMap(f => f.boxes.filter(a => a.write)), tiles = [...new Set(written.map(a => boxText(launch, a)))];
    const alone = block.fills.every(f => f.barrier !== stage || fills.includes(f)), emptiedName = emptied === undefined ? "" : launch.barriers[emptied].name;
    const label = alone ? name : [...new Set(written.map(a => objectName(launch, a)))].join(", ");
    strips.push({label, soft: [alone ? "" : name, emptiedName].filter(Boolean).join(", "), height: 18, kind: "stage", title: `${tiles.join(", ")}: what comes reports to ${name}` +
      (emptiedName && `, who has read it says so at ${emptiedName}`), draw: x => {
      let svg = `<rect class="box" x="${x(0) + .5}" y="5.5" width="${x(end) - x(0) - 1}" height="7" rx="1.5"/>`;
      for (const fill of fills) {
        let first = fill.asked;
        for (let m = first; m < end; ++m) {
          const state = stateOf(fill, m);
          if (state === "free") break;
          if (m + 1 < end && stateOf(fill, m + 1) === state) continue;
          svg += cell(x, first, m, 18, `stage-${state}`, `${fillText(launch, fill)}, ${bytesText(fill.bytes)}: phase ${fill.phase} of ${name}, ${STATES[state]}`,
                      fill.site, state === "read" ? fillText(launch, fill) : "");
          first = m + 1;
        }
      }
      return svg;
    }});
  }
  block.parties.forEach((party, number) => {
    const groups = block.groups.filter(g => g.party === number);
    if (!groups.length) return;
    strips.push({label: `products of ${party.name}`, soft: "", height: 20, kind: "products", title: `groups of products that ${party.name} has under way`, draw: x => {
      let svg = "";
      const most = Math.max(...block.moments.map((_, m) => groups.filter(g => g.begun <= m && m < (g.done ?? end)).length)), lanes = [];
      for (const g of groups) {
        // A group under way at once with another lies below it.
        let lane = lanes.findIndex(until => until <= g.begun);
        if (lane < 0) lane = lanes.length;
        lanes[lane] = g.done ?? end;
        const height = 17 / most, left = x(g.begun) + .5;
        svg += `<rect class="product" x="${left}" y="${1.5 + lane * height}" width="${x(g.done ?? end) - x(g.begun) - 1}" height="${Math.max(1, height - .7)}" rx="1.5" data-site="${g.site}"><title>${
          escape(`group ${g.number}: ${g.products} product${g.products > 1 ? "s" : ""} under way, read ${boxesText(launch, g.boxes)}`)}</title></rect>`;
      }
      return svg;
    }});
  });
  block.parties.forEach((party, number) => {
    const stores = block.stores.filter(s => s.party === number);
    if (!stores.length) return;
    strips.push({label: `stores of ${party.name}`, soft: "", height: 18, kind: "stores", title: `stores that ${party.name} has under way`, draw: x => stores.map(s =>
      cell(x, s.asked, (s.read ?? end) - 1, 18, "store-reads", `${boxesText(launch, s.boxes)}, ${bytesText(s.bytes)}: the tile may still be read`, s.site) +
      (s.read !== undefined && s.done !== undefined && s.done > s.read ? cell(x, s.read, s.done - 1, 18, "store-writes", "the tile has been read; the tensor is being written", s.site) : "")).join("")});
  });
  // Barriers that no strip has named: a mark where a phase is over.
  const named = new Set(block.fills.flatMap(f => [f.barrier, f.emptied_at]));
  launch.barriers.forEach((barrier, number) => {
    const over = block.moments.flatMap(m => m.events.filter(e => e.barrier === number && e.kind === "over"));
    if (named.has(number) || !over.length) return;
    strips.push({label: barrier.name, soft: barrier.numbered ? `for ${barrier.arrivals} threads` : "", height: 16, kind: "barrier", title: `${barrier.name}: a mark where it opens`, draw: x =>
      `<rect class="box" x="${x(0) + .5}" y="6.5" width="${x(end) - x(0) - 1}" height="3" rx="1.5"/>` + over.map(e => {
        const last = block.moments.slice(0, e.moment + 1).flatMap(m => m.events).filter(o => o.kind === "arrive" && o.barrier === number && o.number === e.number).at(-1);
        return `<path class="opens" d="M${x(e.moment + .5)} 2.5 l5 5.5 l-5 5.5 l-5 -5.5 z" data-site="${last?.site ?? ""}"><title>${escape(eventText(launch, e))}, in moment ${e.moment + 1}</title></path>`;
      }).join("")});
  });
  return strips;
}

/** The strips of a pane's block, and what happens in its moment. */
class Parties {
  constructor(pane) {
    this.pane = pane;
    this.site = null;
  }

  part(selector) { return this.pane.part(selector); }

  draw() {
    const launch = this.pane.launch(), block = this.pane.blockShown(), has = block.parties.length > 0;
    this.part(".parties-card").hidden = this.part(".events-card").hidden = !has;
    if (!has) return;
    this.drawStrips(launch, block);
    this.drawEvents(launch, block);
  }

  drawStrips(launch, block) {
    const box = this.part(".strips"), room = box.clientWidth, count = block.moments.length, now = this.pane.playback.currentMoment(block)?.number ?? count;
    const key = [launch.kernel, block.number, room].join(), strips = box.dataset.of === key ? this.strips : stripsOf(launch, block);
    this.strips = strips;
    const narrow = room < 480, labels = narrow ? 96 : Math.min(270, Math.max(...strips.map(s => 6.2 * s.label.length + (s.soft ? 10 + 5.9 * s.soft.length : 0)))), each = Math.max(9, Math.min(30, (room - labels - 4) / count)), x = m => labels + m * each, width = x(count) + 2;
    if (box.dataset.of !== key) {
      box.dataset.of = key;
      let svg = "", y = 14;
      for (const strip of strips) {
        svg += `<g transform="translate(0 ${y})" data-strip="${escape(strip.label)}" class="strip ${strip.kind}">${strip.draw(x)}</g>` +
          `<g transform="translate(0 ${y})" class="name" data-y="${y}"><rect class="under" y="-1" width="${labels - 3}" height="${strip.height + 2}"/><text y="${strip.height / 2 + 4}">${escape(narrow ? strip.label.replaceAll("warpgroup", "wg").replace(" of", "") : strip.label)}` +
          `${strip.soft && !narrow ? `<tspan class="soft" dx="6">${escape(strip.soft)}</tspan>` : ""}<title>${escape([strip.title, strip.soft].filter(Boolean).join("\n"))}</title></text></g>`;
        y += strip.height;
      }
      const every = each >= 22 ? 1 : each >= 13 ? 2 : 5;
      for (let m = 0; m < count; m += m ? every : Math.max(1, every - 1)) svg += `<text class="soft number" text-anchor="middle" x="${x(m + .5)}" y="9">${m + 1}</text>`;
      block.moments.forEach((m, i) => {
        if (m.barrier !== undefined) svg += `<line class="meet" x1="${x(i + 1)}" x2="${x(i + 1)}" y1="13" y2="${y}"><title>__syncthreads() at ${escape(launch.sites[m.barrier])}</title></line>`;
        if (m.fault) svg += `<path d="M${x(i + .5)} 1 l5 9 h-10 z" fill="var(--bad)"/>`;
      });
      box.innerHTML = `<svg width="${width}" height="${y + 3}" viewBox="0 0 ${width} ${y + 3}" role="img" aria-label="parties, stages, products and stores over the block's moments">${svg}` +
        `<rect class="now" y="12" width="${each}" height="${y - 11}"/></svg>`;
      box.firstChild.onclick = event => {
        const rect = box.firstChild.getBoundingClientRect(), m = Math.floor((event.clientX - rect.left - labels) / each), site = event.target.dataset?.site;
        if (m >= 0 && m < count) this.pane.toMoment(block, m);
        if (site) this.chooseSite(Number(site));
      };
      // Names stay where they are while the strips move under them.
      box.onscroll = () => { for (const name of box.querySelectorAll(".name")) name.setAttribute("transform", `translate(${box.scrollLeft} ${name.dataset.y})`); };
    }
    const mark = box.querySelector(".now");
    mark.setAttribute("x", x(Math.min(now, count)));
    mark.toggleAttribute("hidden", now >= count);
    if (x(now + 2) > box.scrollLeft + room || x(now - 1) < box.scrollLeft + labels) box.scrollLeft = x(now) - room / 2;
  }

  chooseSite(site) {
    this.site = site;
    this.drawEvents(this.pane.launch(), this.pane.blockShown());
  }

  drawEvents(launch, block) {
    const now = this.pane.playback.currentMoment(block), list = this.part(".events");
    if (!now) { list.innerHTML = "<p>The block is done.</p>"; return; }
    const {moment, number} = now;
    if (this.followed !== moment) {
      // The source follows the steps, until an event is clicked.
      this.followed = moment;
      const told = moment.events.filter(e => e.site !== undefined);
      this.site = (told.find(e => ["copy", "multiply", "store"].includes(e.kind)) ?? told.find(e => e.party !== undefined) ?? block.parties.map((_, p) => idleOf(block, p).find(([first, last]) => first <= number && number <= last)?.[2]).find(Boolean) ?? moment.access[0])?.site;
    }
    const line = (site, text, kind = "") => `<li${site === undefined ? "" : ` data-site="${site}" tabindex="0" role="button" title="${escape(launch.sites[site])}"`} class="${kind}${site !== undefined && site === this.site ? " shown" : ""}">${escape(text)}</li>`;
    const part = (title, role, lines) => lines.length ? `<h4>${escape(title)}${role ? ` <small>${escape(role)}</small>` : ""}</h4><ul>${lines.join("")}</ul>` : "";
    list.innerHTML = block.parties.map((party, p) => {
      const idle = idleOf(block, p).find(([first, last]) => first <= number && number <= last), access = ownAccess(launch, moment, p);
      const sites = [...new Set(access.map(a => a.site))];
      return part(party.name, party.role, [
        ...(idle ? [line(idle[2].site, eventText(launch, idle[2]), "idle")] : []),
        ...sites.map(site => line(site, momentText(launch, {access: access.filter(a => a.site === site), show: []}))),
        ...moment.events.filter(e => e.party === p).map(e => line(e.site, eventText(launch, e)))]);
    }).join("") + part("comes to pass", "", moment.events.filter(e => e.party === undefined).map(e => line(e.site, eventText(launch, e))));
    for (const item of list.querySelectorAll("li[data-site]")) {
      item.onclick = () => this.chooseSite(Number(item.dataset.site));
      item.onkeydown = event => { if (event.key === "Enter") item.onclick(); };
    }
    this.drawSource(launch);
  }

  /** The line of the source that was clicked, among its neighbours. */
  drawSource(launch) {
    const box = this.part(".source"), where = this.part(".source-name"), site = launch.sites[this.site];
    if (site === undefined) { where.textContent = "click an event to see its line"; box.innerHTML = ""; return; }
    where.textContent = site;
    const colon = site.lastIndexOf(":"), lines = launch.sources?.[site.slice(0, colon)], at = Number(site.slice(colon + 1));
    if (!lines) { box.innerHTML = ""; return; }
    if (box.dataset.file !== site.slice(0, colon)) {
      box.dataset.file = site.slice(0, colon);
      box.innerHTML = lines.map((text, i) => `<div data-line="${i + 1}"><span>${i + 1}</span>${escape(text) || " "}</div>`).join("");
    }
    box.querySelector(".here")?.classList.remove("here");
    const here = box.querySelector(`[data-line="${at}"]`);
    here?.classList.add("here");
    if (here) box.scrollTop = here.offsetTop - box.clientHeight / 2 + 10;
  }
}
