// Strips over a block's moments: its parties, the stages that they fill and empty, products and stores under way.

/** A strip's name; what stands behind it in grey; what a pointer over it tells; its height; and draw(x) -> svg, where `x` tells
 *  at which abscissa a moment begins. */
function strip(name, soft, title, height, draw) { return {name, soft, title, height, draw}; }

/** Moments `first` to `last` of a strip. */
function cell(x, first, last, height, {kind, title, site, text = ""}) {
  const left = x(first) + .5, width = Math.max(1, x(last + 1) - x(first) - 1), fits = text && width > text.length * 6 + 7;
  return `<rect class="${kind}" x="${left}" y="1.5" width="${width}" height="${height - 3}" rx="1.5"` +
    `${site === undefined ? "" : ` data-site="${site}"`}><title>${escape(title)}</title></rect>` +
    (fits ? `<text class="in ${kind}" x="${left + 4}" y="${height / 2 + 3.5}">${escape(text)}</text>` : "");
}

/** The blocks of a block's cluster, by rank. */
function clusterOf(launch, block) {
  const sizes = launch.cluster ?? [1, 1, 1], place = b => b.index.map((i, d) => Math.floor(i / sizes[d])).join();
  return launch.blocks.filter(b => place(b) === place(block));
}

function partyStrip(launch, block, number) {
  const party = block.parties[number], height = 20;
  const threads = `${party.name}, threads ${party.first_thread} to ${party.first_thread + party.threads - 1}`;
  return strip(party.name, party.role, threads, height, x => {
    let svg = "";
    for (const moment of block.moments) {
      const kind = deedOf(launch, moment, number);
      if (!kind) continue;
      const events = inOrder(moment.events.filter(e => e.party === number)), access = ownAccess(launch, moment, number);
      const words = [...events.map(e => eventText(launch, e)), ...(access.length ? [momentText(launch, {access, show: []})] : [])];
      const site = (events.find(e => ["copy", "multiply", "store"].includes(e.kind)) ?? events[0] ?? access[0]).site;
      svg += cell(x, moment.number, moment.number, height, {kind, title: `moment ${moment.number + 1}\n${words.join("\n")}`, site});
    }
    for (const [first, last, e] of idleOf(block, number))
      svg += cell(x, first, last, height, {kind: e.until === undefined ? "waits stuck" : "waits", title: eventText(launch, e),
                                           site: e.site, text: launch.barriers[e.barrier]?.name});
    return svg;
  });
}

/** A stage is a place in shared memory, and the barrier that tells when it is full. They come as they lie there. */
function stageStrips(launch, block) {
  const place = fill => fill.boxes.filter(a => a.write && a.object >= 0)
    .map(a => launch.tiles[a.object].offset * 1024 + a.first[0])[0] ?? 0;
  const stages = new Map();
  for (const fill of [...block.fills].sort((a, b) => place(a) - place(b))) {
    const key = `${fill.barrier} ${place(fill)}`;
    stages.set(key, [...stages.get(key) ?? [], fill]);
  }
  return [...stages.values()].map(fills => stageStrip(launch, block, fills));
}

function stageStrip(launch, block, fills) {
  const {barrier} = fills[0], {name} = launch.barriers[barrier], height = 18, end = block.moments.length;
  const emptied = launch.barriers[fills.find(f => f.emptied_at !== undefined)?.emptied_at]?.name;
  const written = fills.flatMap(f => f.boxes.filter(a => a.write)), unique = list => [...new Set(list)].join(", ");
  const alone = block.fills.every(f => f.barrier !== barrier || fills.includes(f));
  const title = `${unique(written.map(a => boxText(launch, a)))}: what comes reports to ${name}` +
    (emptied ? `, who has read it says so at ${emptied}` : "");
  const barriers = fills.flatMap(f => [f.barrier, f.emptied_at]);
  return {barriers, ...strip(alone ? name : unique(written.map(a => objectName(launch, a))), [alone ? "" : name, emptied].filter(Boolean).join(", "),
               title, height, x => {
    let svg = `<rect class="box" x="${x(0) + .5}" y="5.5" width="${x(end) - x(0) - 1}" height="7" rx="1.5"/>`;
    for (const fill of fills)
      for (let first = fill.asked, m = first; m < end && stateOf(fill, m) !== "free"; ++m) {
        const state = stateOf(fill, m), text = fillText(launch, fill);
        if (m + 1 < end && stateOf(fill, m + 1) === state) continue;
        svg += cell(x, first, m, height, {
          kind: `stage-${state}`, site: fill.site, text: state === "read" ? text : "",
          title: `${text}, ${bytesText(fill.bytes)}: phase ${fill.phase} of ${name}, ${STATES[state]}`});
        first = m + 1;
      }
    return svg;
  })};
}

function productStrips(launch, block) {
  const height = 20, end = block.moments.length;
  return block.parties.flatMap((party, number) => {
    const groups = block.groups.filter(g => g.party === number), lanes = [];
    if (!groups.length) return [];
    // A group that is under way at once with another lies below it.
    for (const g of groups) {
      g.lane = lanes.findIndex(until => until <= g.begun);
      if (g.lane < 0) g.lane = lanes.length;
      lanes[g.lane] = g.done ?? end;
    }
    const each = (height - 3) / lanes.length, title = `groups of products that ${party.name} has under way`;
    if (lanes.length > 3)  // too many for a bar each: how many there are
      return strip(`products of ${party.name}`, "", title, height, x => block.moments.map(({number: m}) => {
        const now = groups.filter(g => g.begun <= m && m < (g.done ?? end));
        return now.length ? cell(x, m, m, height, {kind: "product", site: now[0].site, text: `${now.length}`,
                                                   title: `${now.length} group${now.length > 1 ? "s" : ""} of products under way`}) : "";
      }).join(""));
    return strip(`products of ${party.name}`, "", title, height, x => groups.map(g =>
      `<rect class="product" x="${x(g.begun) + .5}" y="${1.5 + g.lane * each}" width="${x(g.done ?? end) - x(g.begun) - 1}" ` +
      `height="${Math.max(1, each - .7)}" rx="1.5" data-site="${g.site}"><title>` +
      escape(`group ${g.number}: ${g.products} product${g.products > 1 ? "s" : ""} under way, read ${boxesText(launch, g.boxes)}`) +
      "</title></rect>").join(""));
  });
}

function storeStrips(launch, block) {
  const height = 18, end = block.moments.length;
  return block.parties.flatMap((party, number) => {
    const stores = block.stores.filter(s => s.party === number);
    if (!stores.length) return [];
    return strip(`stores of ${party.name}`, "", `stores that ${party.name} has under way`, height, x => stores.map(s =>
      cell(x, s.asked, (s.read ?? end) - 1, height, {
        kind: "store-reads", site: s.site, title: `${boxesText(launch, s.boxes)}, ${bytesText(s.bytes)}: the tile may still be read`}) +
      (s.done > s.read ? cell(x, s.read, s.done - 1, height, {
        kind: "store-writes", site: s.site, title: "the tile has been read; the tensor is being written"}) : "")).join(""));
  });
}

/** Barriers that no stage has: a mark where a phase is over. */
function barrierStrips(launch, block) {
  const ofStages = new Set(block.fills.flatMap(f => [f.barrier, f.emptied_at])), end = block.moments.length;
  const events = block.moments.flatMap(m => m.events);
  return launch.barriers.flatMap((barrier, number) => {
    const over = events.filter(e => e.barrier === number && e.kind === "over");
    if (ofStages.has(number) || !over.length) return [];
    const last = e => events.filter(a => a.kind === "arrive" && a.barrier === number && a.number === e.number).at(-1)?.site ?? "";
    return {barriers: [number], ...strip(barrier.name, barrier.numbered ? `for ${barrier.arrivals} threads` : isFlag(barrier) ? "a flag" : "",
            `${barrier.name}: a mark where it ${isFlag(barrier) ? "is released" : "opens"}`, 16, x =>
      `<rect class="box" x="${x(0) + .5}" y="6.5" width="${x(end) - x(0) - 1}" height="3" rx="1.5"/>` + over.map(e =>
        `<path class="opens" d="M${x(e.moment + .5)} 2.5 l5 5.5 l-5 5.5 l-5 -5.5 z" data-site="${last(e)}">` +
        `<title>${escape(eventText(launch, e))}, in moment ${e.moment + 1}</title></path>`).join(""))};
  });
}

function stripsOf(launch, block) {
  return [...block.parties.map((_, party) => ({...partyStrip(launch, block, party), party})), ...stageStrips(launch, block),
          ...productStrips(launch, block), ...storeStrips(launch, block), ...barrierStrips(launch, block)];
}

/** The strips of all blocks of a block's cluster, one block below the other. */
function stripsOfCluster(launch, block) {
  const blocks = clusterOf(launch, block);
  if (blocks.length === 1) return stripsOf(launch, block);
  return blocks.flatMap((b, rank) => !b.parties.length ? [] : stripsOf(launch, b).map(s => ({
    ...s, rank, name: `${rank}: ${s.name}`, title: `block ${rank} of the cluster\n${s.title}`})));
}

/** From a party to another block's barrier: arrivals there, and copies that report there. `places`: strips with their `y`. */
function arrowsAcross(launch, block, places, x) {
  const middle = s => s.y + s.height / 2;
  return clusterOf(launch, block).map((b, rank) => b.moments.flatMap(m => m.events).map(e => {
    if (e.block === undefined || e.party === undefined) return "";
    const from = places.find(s => s.rank === rank && s.party === e.party);
    const to = places.find(s => s.rank === e.block && s.barriers?.includes(e.barrier));
    if (!from || !to) return "";
    const at = x(e.moment + .5), down = to.y > from.y ? 1 : -1;
    return `<g class="across"><title>${escape(eventText(launch, e))}</title><path d="M${at} ${middle(from)} V${middle(to)}"/>` +
      `<path d="M${at - 3} ${middle(to) - 5 * down} h6 l-3 ${5 * down} z"/></g>`;
  }).join("")).join("");
}

/** The strips of a pane's block, what happens in its moment, and the source. */
class Strips {
  constructor(pane) {
    this.pane = pane;
    this.site = undefined;
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
    const box = this.part(".strips"), room = box.clientWidth, key = [launch.kernel, block.number, room].join();
    if (box.dataset.of !== key) {
      box.dataset.of = key;
      this.makeStrips(box, room, launch, block);
    }
    const {x, names, each} = this.scale, now = this.pane.playback.currentMoment(block)?.number, mark = box.querySelector(".now");
    mark.classList.toggle("over", now === undefined);
    if (now === undefined) return;
    mark.setAttribute("x", x(now));
    if (x(now) + 2 * each > box.scrollLeft + room || x(now) - each < box.scrollLeft + names) box.scrollLeft = x(now) - room / 2;
  }

  makeStrips(box, room, launch, block) {
    const strips = stripsOfCluster(launch, block), narrow = room < 480;
    const count = Math.max(...clusterOf(launch, block).map(b => b.moments.length));
    const widest = Math.max(...strips.map(s => 6.2 * s.name.length + (s.soft ? 10 + 5.9 * s.soft.length : 0)));
    const names = narrow ? 96 : Math.min(270, widest), each = Math.max(9, Math.min(42, (room - names - 4) / count));
    const x = moment => names + moment * each;
    this.scale = {x, names, each};
    let y = 14, svg = "";
    const places = [];
    for (const s of strips) {
      const name = narrow ? s.name.replaceAll("warpgroup", "wg").replace(" of", "") : s.name;
      svg += `<g transform="translate(0 ${y})" data-strip="${escape(s.name)}">${s.draw(x)}</g>` +
        `<g transform="translate(0 ${y})" class="name" data-y="${y}"><rect class="under" y="-1" width="${names - 3}" height="${s.height + 2}"/>` +
        `<text y="${s.height / 2 + 4}">${escape(name)}${s.soft && !narrow ? `<tspan class="soft" dx="6">${escape(s.soft)}</tspan>` : ""}` +
        `<title>${escape([s.title, s.soft].filter(Boolean).join("\n"))}</title></text></g>`;
      places.push({...s, y});
      y += s.height;
    }
    svg += arrowsAcross(launch, block, places, x);
    const every = each >= 22 ? 1 : each >= 13 ? 2 : 5;
    for (let m = 0; m < count; ++m)
      if (m === 0 || (m + 1) % every === 0) svg += `<text class="soft" text-anchor="middle" x="${x(m + .5)}" y="9">${m + 1}</text>`;
    for (const {number, barrier, fault} of block.moments) {
      if (barrier !== undefined)
        svg += `<line class="meet" x1="${x(number + 1)}" x2="${x(number + 1)}" y1="13" y2="${y}">` +
          `<title>__syncthreads() at ${escape(launch.sites[barrier])}</title></line>`;
      if (fault) svg += `<path d="M${x(number + .5)} 1 l5 9 h-10 z" fill="var(--bad)"/>`;
    }
    box.innerHTML = `<svg width="${x(count) + 2}" height="${y + 3}" viewBox="0 0 ${x(count) + 2} ${y + 3}" role="img" ` +
      `aria-label="parties, stages, products and stores over the block's moments">${svg}` +
      `<rect class="now" y="12" width="${each}" height="${y - 11}"/></svg>`;
    box.firstChild.onclick = event => {
      const moment = Math.floor((event.clientX - box.firstChild.getBoundingClientRect().left - names) / each);
      if (moment >= 0 && moment < count) this.pane.toMoment(block, Math.min(moment, block.moments.length - 1));
      if (event.target.dataset.site) this.chooseSite(Number(event.target.dataset.site));
    };
    // Names stay where they are while the strips move under them.
    box.onscroll = () => {
      for (const name of box.querySelectorAll(".name")) name.setAttribute("transform", `translate(${box.scrollLeft} ${name.dataset.y})`);
    };
  }

  chooseSite(site) {
    this.site = site;
    this.drawEvents(this.pane.launch(), this.pane.blockShown());
  }

  drawEvents(launch, block) {
    const now = this.pane.playback.currentMoment(block), list = this.part(".events");
    if (!now) { list.innerHTML = "<p>The block is done.</p>"; return; }
    const {moment, number} = now, idle = p => idleOf(block, p).find(([first, last]) => first <= number && number <= last)?.[2];
    if (this.followed !== moment) {
      // The source follows the steps, until an event is clicked.
      this.followed = moment;
      const told = moment.events.filter(e => e.site !== undefined);
      this.site = (told.find(e => ["copy", "multiply", "store"].includes(e.kind)) ?? told.find(e => e.party !== undefined) ??
                   block.parties.map((_, p) => idle(p)).find(Boolean) ?? moment.access[0])?.site;
    }
    const line = (site, text, kind = "") =>
      `<li${site === undefined ? "" : ` data-site="${site}" tabindex="0" role="button" title="${escape(launch.sites[site])}"`} ` +
      `class="${kind}${site !== undefined && site === this.site ? " shown" : ""}">${escape(text)}</li>`;
    const eventLine = (e, kind) => line(e.site, eventText(launch, e), kind);
    const part = (title, role, lines) => lines.length ?
      `<h4>${escape(title)}${role ? ` <small>${escape(role)}</small>` : ""}</h4><ul>${lines.join("")}</ul>` : "";
    list.innerHTML = block.parties.map((party, p) => {
      const access = ownAccess(launch, moment, p), sites = [...new Set(access.map(a => a.site))];
      return part(party.name, party.role, [
        ...(idle(p) ? [eventLine(idle(p), "idle")] : []),
        ...sites.map(site => line(site, momentText(launch, {access: access.filter(a => a.site === site), show: []}))),
        ...together(inOrder(moment.events.filter(e => e.party === p))).map(e => eventLine(e))]);
    }).join("") + part("comes to pass", "", moment.events.filter(e => e.party === undefined).map(e => eventLine(e)));
    for (const item of list.querySelectorAll("li[data-site]")) {
      item.onclick = () => this.chooseSite(Number(item.dataset.site));
      item.onkeydown = event => { if (event.key === "Enter") item.onclick(); };
    }
    this.drawSource(launch);
  }

  /** The line that is chosen, among its neighbours. */
  drawSource(launch) {
    const box = this.part(".source"), site = launch.sites[this.site] ?? "", colon = site.lastIndexOf(":"), file = site.slice(0, colon);
    this.part(".source-name").textContent = site || "click an event to see its line";
    const lines = launch.sources?.[file] ?? [];
    if (box.dataset.file !== file) {
      box.dataset.file = file;
      box.innerHTML = lines.map((text, i) => `<div data-line="${i + 1}"><span>${i + 1}</span>${escape(text) || " "}</div>`).join("");
    }
    box.querySelector(".here")?.classList.remove("here");
    const here = box.querySelector(`[data-line="${site.slice(colon + 1)}"]`);
    if (!here) return;
    here.classList.add("here");
    box.scrollTop = here.offsetTop - box.clientHeight / 2 + 10;
  }
}
