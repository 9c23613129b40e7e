// One run on the page: everything that is drawn of it.

/** What comes first in a figure: what is read before what is made of it. */
function placeOf(name) {
  const order = ["x", "Q", "K", "V", "S", "P", "O_part", "LSE_part", "O (float32)", "O", "l", "m", "LSE", "y"];
  return order.includes(name) ? order.indexOf(name) : order.length;
}

/** Runs of ones: [[first, last], …]. */
function runsOf(flags) {
  const runs = [];
  flags.forEach((flag, i) => {
    if (!flag) return;
    if (runs.length && runs.at(-1)[1] === i - 1) runs.at(-1)[1] = i;
    else runs.push([i, i]);
  });
  return runs;
}

class Pane {
  constructor(side, playback) {
    this.side = side;
    this.playback = playback;
    this.block = 0;
    this.row = null;
    this.element = document.createElement("div");
    this.element.className = "pane";
    this.element.dataset.side = side;
    this.element.innerHTML = `
      <div class="title"><h2></h2><p class="problem"></p><p class="verdict"></p></div>
      <section class="card diagnosis" hidden><h3>The machine's diagnosis</h3><pre></pre>
        <button class="to-fault">to the moment (e)</button></section>
      <section class="card"><h3 class="launch"></h3>
        <div class="now"><div class="what"></div><div class="where"></div></div>
        <div class="timeline"></div><div class="blocks"></div></section>
      <section class="card parties-card" hidden><h3>Who does what, and what is under way</h3><div class="strips"></div>
        <div class="legend"><span><i class="asks"></i>asks for copies</span><span><i class="multiplies"></i>issues products</span>
          <span><i class="stores"></i>stores</span><span><i class="works"></i>works on</span><span><i class="waits"></i>waits</span>
          <span class="gap">stage:</span><span><i class="stage-filling"></i>filling</span><span><i class="stage-full"></i>full</span>
          <span><i class="stage-read"></i>being read</span><span><i></i>free</span></div></section>
      <section class="card events-card" hidden><div class="pair-of"><div><h3>In this moment</h3><div class="events"></div></div>
        <div><h3>Source <small class="source-name"></small></h3><div class="source"></div></div></div></section>
      <div class="columns"><div class="column">
      <section class="card"><h3>Global memory</h3><div class="scroll global" tabindex="0" role="group" aria-label="Global memory"></div>
        <div class="legend"><span><i class="read"></i>read now</span><span><i class="write"></i>written now</span>
          <span><i class="touched"></i>read before</span><span><i class="stored"></i>written before</span></div></section>
      <section class="card shared-card"><h3>Shared memory of the block <small></small></h3><div class="scroll shared" tabindex="0" role="group" aria-label="Shared memory"></div></section>
      </div><div class="column">
      <section class="card scores-card"><h3>Scores and state of the rows <small></small></h3>
        <div class="maps">
          <figure><figcaption>all of this head: queries down, keys across</figcaption><div class="whole"><canvas class="all"></canvas><div class="outline"></div></div></figure>
          <figure><figcaption class="tile-caption"></figcaption><div class="pair"><canvas class="tile"></canvas><div class="state"></div></div></figure>
        </div>
        <div class="numbers"></div>
        <div class="legend"><span><i class="scale"></i>score, below to above zero</span>
          <span><i class="masked"></i>masked: −∞</span><span><i></i>never computed</span><span class="nan-key" hidden><i class="nan"></i>NaN</span></div></section>
      <section class="card"><h3>Bytes so far <small class="barriers"></small></h3><div class="scroll" tabindex="0" role="group" aria-label="Bytes so far"><table class="counters"></table></div></section>
      </div></div>`;
    this.element.querySelector(".to-fault").onclick = () => toFault(this);
    this.strips = new Strips(this);
    const {run} = playback;
    this.part("h2").textContent = runName(run);
    this.part(".problem").textContent = problemText(run);
    const verdict = this.part(".verdict");
    const close = run.error === undefined ? "" : `, error ${run.error.toExponential(1)}, allowed ${run.allowed.toExponential(1)}`;
    verdict.textContent = run.verdict + (run.verdict === "diagnosed" ? ": the machine found the kernel wrong" : close);
    verdict.className = "verdict " + (run.verdict === "right" ? "right" : "wrong");
    if (run.words) {
      this.part(".diagnosis").hidden = false;
      this.part(".diagnosis pre").textContent = run.words;
      this.part(".to-fault").hidden = playback.faultStep() < 0;
      if (run.verdict !== "diagnosed")
        this.part(".diagnosis h3").textContent = run.verdict === "wrong" ? "Not what the reference gives" : "It did not run";
    }
    this.lookAtCanvas(".all", (row, column) => this.scoreAt(row, column));
    this.lookAtCanvas(".tile", (row, column) => {
      const [r, c] = this.tileAt ?? [0, 0];
      return this.scoreAt(row + r, column + c);
    });
  }

  part(selector) { return this.element.querySelector(selector); }

  /** A canvas tells the value under the pointer, and a click chooses the row. */
  lookAtCanvas(selector, textAt) {
    const canvas = this.part(selector);
    const cell = event => {
      const box = canvas.getBoundingClientRect(), [rows, columns] = canvas.shape;
      return [Math.floor((event.clientY - box.top) / box.height * rows), Math.floor((event.clientX - box.left) / box.width * columns)];
    };
    canvas.onmousemove = event => { canvas.title = textAt(...cell(event)); };
    canvas.onclick = event => {
      const [row] = cell(event);
      this.chooseRow(selector === ".tile" ? row + (this.tileAt?.[0] ?? 0) : row);
    };
  }

  scoreAt(row, column) {
    const {rows, columns} = this.playback.extents;
    if (row < 0 || column < 0 || row >= rows || column >= columns) return "";
    const {values, known} = this.playback.scoresOf(this.blockShown().head), i = row * columns + column;
    return `query ${row}, key ${column}: ${known[i] ? numberText(values[i]) : "not computed"}`;
  }

  launch() { return this.playback.launch; }

  /** Room for figures. Asked once for each size of the window, since asking makes the browser lay out the page. */
  widths() {
    if (this.measured?.window !== innerWidth) {
      this.part(".shared-card").hidden = this.part(".scores-card").hidden = false;
      this.measured = {window: innerWidth, shared: this.part(".shared").clientWidth, maps: this.part(".maps").clientWidth};
    }
    return this.measured;
  }

  /** The chosen block; in single order, the one that works now. */
  blockShown() {
    const {playback} = this, working = playback.steps[playback.at]?.moments;
    if (playback.order === "single" && working?.length) return working[0][0];
    return this.launch()?.blocks[Math.min(this.block, this.launch().blocks.length - 1)];
  }

  chooseBlock(number) {
    const blocks = this.launch().blocks;
    this.block = Math.max(0, Math.min(number, blocks.length - 1));
    this.row = null;
    if (this.playback.order === "single") {
      const step = this.playback.steps.findIndex(s => s.launch === this.launch() && s.moments[0]?.[0].number === this.block);
      if (step >= 0) return seek(step);
    }
    refresh();
  }

  chooseRow(row) {
    const rows = this.rowsOfBlock();
    if (rows.length === 0) return;
    this.row = rows.includes(row) ? row : rows.reduce((a, b) => Math.abs(b - row) < Math.abs(a - row) ? b : a);
    refresh();
  }

  moveRow(by) {
    const rows = this.rowsOfBlock();
    this.chooseRow(rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(this.rowShown()) + by))] ?? 0);
  }

  rowsOfBlock() { return [...(this.playback.states.get(this.blockShown())?.keys() ?? [])].sort((a, b) => a - b); }

  rowShown() {
    const rows = this.rowsOfBlock();
    return this.row !== null && rows.includes(this.row) ? this.row : rows[0];
  }

  draw() {
    const {playback} = this;
    this.widths();
    if (!this.launch()) {
      for (const card of this.element.querySelectorAll(".card:not(.diagnosis)")) card.hidden = true;
      return;
    }
    this.drawLaunch();
    this.drawBlocks();
    this.drawTimeline();
    this.strips.draw();
    this.drawGlobal();
    this.drawShared();
    this.drawScores();
    this.drawCounters(playback);
  }

  drawLaunch() {
    const launch = this.launch(), block = this.blockShown(), now = this.playback.currentMoment(block);
    const {run} = this.playback, number = run.launches.indexOf(launch) + 1;
    this.part(".launch").innerHTML = `${escape(launch.instance || launch.kernel)} <small>` +
      (run.launches.length > 1 ? `launch ${number} of ${run.launches.length}, ` : "") +
      `grid ${launch.grid.join(" × ")}, ${launch.block.join(" × ")} threads</small>`;
    const at = `block (${block.index.join(", ")})`;
    if (now) {
      this.part(".what").innerHTML = `<b>${at}</b>, moment ${now.number + 1} of ${block.moments.length}: ` +
        escape(block.parties.length ? partiesText(launch, block, now.moment) : momentText(launch, now.moment)) + (now.moment.fault ? ` <b class="wrong">— here the machine objects</b>` : "");
      const sites = [...new Set(now.moment.access.map(a => launch.sites[a.site]))];
      if (now.moment.barrier !== undefined) sites.push(`then __syncthreads() at ${launch.sites[now.moment.barrier]}`);
      else if (now.moment.warp_barrier) sites.push("then __syncwarp()");
      this.part(".where").textContent = this.part(".where").title = sites.join("   ");
    } else {
      this.part(".what").innerHTML = `<b>${at}</b> ` + (block.recorded ? "is done" : "was only counted, not recorded");
      this.part(".where").textContent = "";
    }
  }

  drawBlocks() {
    const launch = this.launch(), box = this.part(".blocks"), shown = this.blockShown();
    if (box.dataset.launch !== launch.kernel + launch.blocks.length) {
      box.dataset.launch = launch.kernel + launch.blocks.length;
      box.innerHTML = launch.blocks.map(b =>
        `<button data-block="${b.number}" title="block (${b.index.join(", ")})${b.recorded ? "" : ": only counted"}"` +
        `${b.recorded ? "" : " disabled"}>${b.number}</button>`).join("");
      box.onclick = event => {
        const number = event.target.dataset.block;
        if (number !== undefined) this.chooseBlock(Number(number));
      };
      box.hidden = launch.blocks.length < 2;
    }
    for (const button of box.children) {
      const block = launch.blocks[button.dataset.block], now = this.playback.currentMoment(block);
      button.classList.toggle("chosen", block === shown);
      button.classList.toggle("done", this.playback.order === "together" && !now);
      button.classList.toggle("faulty", block.moments.some(m => m.fault));
    }
  }

  /** The chosen block's moments: what each does, and where the block waits. */
  drawTimeline() {
    const block = this.blockShown(), moments = block.moments, width = 600, height = 30;
    const now = this.playback.currentMoment(block), done = now ? now.number : moments.length;
    const x = i => i / Math.max(1, moments.length) * width;
    let svg = "";
    moments.forEach((m, i) => {
      const stores = m.access.some(a => a.memory === GLOBAL && a.write), loads = m.access.some(a => a.memory === GLOBAL && !a.write);
      const colour = stores ? "var(--write)" : loads ? "var(--read)" : "var(--good)";
      svg += `<rect x="${x(i).toFixed(2)}" y="6" width="${Math.max(.6, x(1) - (moments.length < 200 ? 1 : 0)).toFixed(2)}" height="12" ` +
             `fill="${colour}" opacity="${i === done ? 1 : i < done ? .6 : .22}"><title>${escape(`${i + 1}: ${momentText(this.launch(), m)}`)}</title></rect>`;
      if (m.barrier !== undefined)
        svg += `<line x1="${x(i + 1).toFixed(2)}" x2="${x(i + 1).toFixed(2)}" y1="1" y2="23" stroke="var(--ink)" stroke-width="1.2"/>`;
      if (m.fault) svg += `<path d="M${x(i + .5)} 19 l6 9 h-12 z" fill="var(--bad)"/>`;
    });
    if (now) svg += `<rect x="${x(now.number)}" y="3" width="${Math.max(3, x(1))}" height="18" fill="none" stroke="var(--ink)" stroke-width="2"/>`;
    const box = this.part(".timeline");
    box.innerHTML = `<svg viewBox="0 0 ${width} ${height}" height="${height}" preserveAspectRatio="none" role="img"
      aria-label="moments of the block; lines are barriers">${svg}</svg>`;
    box.firstChild.onclick = event => {
      const rect = box.firstChild.getBoundingClientRect();
      this.toMoment(block, Math.floor((event.clientX - rect.left) / rect.width * moments.length));
    };
  }

  toMoment(block, number) {
    const step = this.playback.steps.findIndex(s => s.moments.some(([b, n]) => b === block && n === number));
    if (step >= 0) seek(step);
  }

  drawGlobal() {
    const launch = this.launch(), block = this.blockShown(), {playback} = this;
    const lead = this.leads(block), tensors = launch.tensors.map((t, object) => ({t, object, ...matrixOf(t)}));
    tensors.sort((a, b) => placeOf(a.t.name) - placeOf(b.t.name));
    const mostRows = Math.max(...tensors.map(t => t.rows)), scale = Math.min(150 / mostRows, 10), gap = 18, top = 34;
    let x = 0, svg = "";
    for (const {t, object, rows, columns} of tensors) {
      const height = Math.max(6, rows * scale), width = columns === 1 ? 9 : Math.max(22, Math.min(230, columns * Math.min(scale, 230 / columns)));
      const boxWidth = Math.max(width, t.name.length * 7.5, 46), ry = height / rows, rx = width / columns;
      const own = playback.touched.get(object + ":" + (lead.get(object) ?? leadOf(t, t.extents.map(() => 0))));
      svg += `<g transform="translate(${x} ${top})" data-tensor="${escape(t.name)}">` +
        `<text x="0" y="-18">${escape(t.name)}</text><text class="soft" x="0" y="-5">${t.vector ? rows : `${rows} × ${columns}`}</text>` +
        `<rect class="box" width="${width}" height="${height}"/>`;
      if (own)
        for (const [kind, flags] of [["touched", own.read], ["stored", own.written]])
          for (const [first, last] of runsOf(flags))
            svg += `<rect class="${kind}" y="${first * ry}" width="${width}" height="${(last - first + 1) * ry}"/>`;
      for (const [b, number] of playback.steps[playback.at]?.moments ?? [])
        for (const a of b.moments[number].access) {
          if (a.memory !== GLOBAL || a.object !== object || (lead.has(object) && leadOf(t, a.first) !== lead.get(object))) continue;
          const [r0, r1] = rowsOf(t, a), [c0, c1] = columnsOf(t, a);
          svg += `<rect class="${a.write ? "write" : "read"}${b === block ? "" : " other"}" x="${c0 * rx}" y="${r0 * ry}" ` +
                 `width="${Math.max(1.5, (c1 - c0 + 1) * rx)}" height="${Math.max(1.5, (r1 - r0 + 1) * ry)}"/>`;
          if (b === block && b.moments[number].fault && faultyElement(playback.run, t.name, t.extents.length))
            svg += `<rect class="fault" x="${c0 * rx - 2}" y="${r0 * ry - 2}" width="${(c1 - c0 + 1) * rx + 4}" height="${(r1 - r0 + 1) * ry + 4}"/>`;
        }
      svg += "</g>";
      x += boxWidth + gap;
    }
    const height = top + Math.max(6, mostRows * scale) + 6;
    this.part(".global").innerHTML = `<svg width="${x}" height="${height}" viewBox="-3 0 ${x + 3} ${height}" role="img" aria-label="tensors in global memory">${svg}</svg>`;
  }

  /** For each tensor, the leading indices (sequence, head) that the block works on. */
  leads(block) {
    if (!block.leads) {
      block.leads = new Map();
      for (const m of block.moments)
        for (const a of m.access)
          if (a.memory === GLOBAL && !block.leads.has(a.object)) block.leads.set(a.object, leadOf(this.launch().tensors[a.object], a.first));
    }
    return block.leads;
  }

  drawShared() {
    const launch = this.launch(), block = this.blockShown(), {device} = this.playback.run;
    this.part(".shared-card").hidden = launch.tiles.length === 0;
    if (launch.tiles.length === 0) return;
    const width = Math.max(300, this.widths().shared - 6), limit = Math.max(device.shared_bytes_optin, launch.shared_bytes), px = bytes => bytes / limit * width;
    this.part(".shared-card small").textContent =
      `${bytesText(launch.shared_bytes)} of ${bytesText(device.shared_bytes_optin)} that this device allows`;
    const tiles = [...launch.tiles.entries()].filter(([, t]) => !t.barriers).sort((a, b) => a[1].offset - b[1].offset), contents = this.playback.tilesOf(block);
    const now = this.playback.currentMoment(block);
    // What a copy writes lies in the state of its stage.
    const touches = object => now ? now.moment.access.filter(a => a.memory === SHARED && a.object === object && a.agent !== COPIES) : [];
    const stages = object => this.stagesOf(block, object);
    const ticks = [[device.shared_bytes, `${bytesText(device.shared_bytes)}: without opt-in`], [device.shared_bytes_optin, ""]];
    let svg = `<rect class="limit" x=".5" y="16.5" width="${width - 1}" height="24" rx="3"/>`;
    for (const [object, t] of tiles) {
      const bytes = t.rows * t.pitch * t.element_bytes, content = contents.get(object);
      const places = stages(object);
      const filled = places.length ? places.filter(([, state]) => state !== "free" && state !== "filling").reduce((sum, [, , rows]) => sum + rows[1] - rows[0] + 1, 0) / t.rows
        : content ? content.rows.reduce((sum, r) => sum + r, 0) / t.rows : 0;
      const acts = touches(object), kind = acts.some(a => a.write) ? "write" : acts.length ? "read" : "";
      svg += `<rect class="box" x="${px(t.offset)}" y="17" width="${Math.max(.8, px(bytes))}" height="23"/>` +
        `<rect class="${kind || "touched"}" x="${px(t.offset)}" y="17" width="${px(bytes) * filled * t.columns / t.pitch}" height="23"/>`;
      if (px(bytes) > 7 * t.name.length) svg += `<text x="${px(t.offset) + 4}" y="33" ${kind && filled > .5 ? 'style="fill:var(--card)"' : ""}>${escape(t.name)}</text>`;
    }
    for (const [bytes, text] of ticks)
      svg += `<line class="tick" x1="${px(bytes)}" x2="${px(bytes)}" y1="6" y2="44"/><text class="soft" x="${px(bytes) + 4}" y="11">${text}</text>`;
    // The tiles themselves: rows and columns to one scale among them.
    const scale = Math.min(90 / Math.max(...tiles.map(([, t]) => t.rows)), 2, 120 / Math.max(...tiles.map(([, t]) => t.columns)));
    let x = 0, tall = 0;
    for (const [object, t] of tiles) {
      const w = Math.max(10, t.columns * scale), h = Math.max(6, t.rows * scale), content = contents.get(object);
      tall = Math.max(tall, h);
      const states = stages(object), panels = t.panel_columns ? Math.ceil(t.columns / t.panel_columns) : 1;
      const text = states.length ? layoutText(t) : content?.text ?? "empty", words = states.map(([fill, state]) => state === "free" ? "free" : fillText(launch, fill.copies.find(c => c.boxes.some(a => a.write && a.object === object)) ?? fill));
      const boxWidth = Math.max(w, 70, Math.min(190, 6.2 * text.length), ...words.map(text => w + 8 + 5.9 * text.length));
      svg += `<g transform="translate(${x} 92)" data-tile="${escape(t.name)}"><text y="-22">${escape(t.name)} <tspan class="soft" fill="var(--soft)" font-size="11">${t.rows} × ${t.columns}` +
        `${t.pitch > t.columns ? ` + ${t.pitch - t.columns}` : ""}</tspan></text><text class="soft" y="-8">${escape(text)}</text><rect class="box" width="${w}" height="${h}"/>`;
      if (content)
        for (const [first, last] of runsOf(content.rows))
          svg += `<rect class="touched" y="${first / t.rows * h}" width="${w}" height="${(last - first + 1) / t.rows * h}"/>`;
      states.forEach(([fill, state, rows], i) => {
        const y = rows[0] / t.rows * h, tall = (rows[1] - rows[0] + 1) / t.rows * h;
        svg += `<rect class="stage-${state}" y="${y + .5}" width="${w}" height="${tall - 1}"/><text class="soft" x="${w + 6}" y="${y + Math.min(tall - 2, tall / 2 + 4)}">${escape(words[i])}</text>`;
      });
      for (let p = 1; p < panels; ++p) svg += `<line class="panel" x1="${p * w / panels}" x2="${p * w / panels}" y2="${h}"/>`;
      for (const a of touches(object).sort((p, q) => p.write - q.write)) {
        const box = `x="${a.first[1] / t.columns * w}" y="${a.first[0] / t.rows * h}" width="${Math.max(2, (Math.min(a.last[1], t.columns - 1) - a.first[1] + 1) / t.columns * w)}" ` +
          `height="${Math.max(2, (a.last[0] - a.first[0] + 1) / t.rows * h)}"`;
        svg += `<rect class="${a.agent === PRODUCTS ? "operand" : a.write ? "write" : "read"}" ${box}/>`;
      }
      if (t.panel_columns) svg += `<rect class="hover" data-object="${object}" width="${w}" height="${h}"><title></title></rect>`;
      const fault = now?.moment.fault ? faultyElement(this.playback.run, t.name, 2) : null;
      if (fault) svg += `<circle class="fault" cx="${(fault[1] + .5) / t.columns * w}" cy="${(fault[0] + .5) / t.rows * h}" r="7"/>`;
      svg += "</g>";
      x += boxWidth + 18;
    }
    const all = Math.max(width, x);
    this.part(".shared").innerHTML = `<svg width="${all}" height="${96 + tall}" viewBox="-2 0 ${all + 2} ${96 + tall}" role="img" aria-label="shared memory">${svg}</svg>`;
    for (const area of this.part(".shared").querySelectorAll(".hover"))
      area.onmousemove = event => {
        const rect = area.getBoundingClientRect(), t = launch.tiles[area.dataset.object];
        area.firstChild.textContent = placeText(t, Math.floor((event.clientY - rect.top) / rect.height * t.rows), Math.floor((event.clientX - rect.left) / rect.width * t.columns));
      };
  }

  /** [fill, state, [first row, last row]] of each place in a tile that copies fill, as it is now. */
  stagesOf(block, object) {
    const now = this.playback.currentMoment(block)?.number ?? block.moments.length, places = new Map();
    for (const fill of block.fills)
      for (const a of fill.boxes)
        if (a.write && a.object === object && (fill.asked <= now || !places.has(a.first[0])))
          places.set(a.first[0], [fill, stateOf(fill, now), [a.first[0], a.last[0]]]);
    return [...places.values()];
  }

  drawScores() {
    const {playback} = this, {rows, columns} = playback.extents, block = this.blockShown();
    const states = playback.states.get(block), shows = test => this.launch().blocks.some(b => b.moments.some(m => m.show.some(test)));
    const relevant = shows(() => true);
    const hasScores = rows > 0 && columns > 0 && (playback.scores.has(block.head) || shows(s => s.name === "S"));
    this.part(".scores-card").hidden = !relevant;
    if (!relevant) return;
    const chosen = this.rowShown();
    const scores = playback.scoresOf(block.head);
    const all = this.part(".all"), tile = this.part(".tile");
    const outline = this.part(".outline");
    all.closest("figure").hidden = !hasScores;
    outline.hidden = true;
    if (hasScores) {
      paint(all, scores, 0, 0, rows, columns);
      const wide = Math.min(240, this.widths().maps);
      all.style.width = `${wide}px`;
      all.style.height = `${Math.max(14, Math.min(240, rows < 8 ? 14 * rows : wide * rows / columns))}px`;
      this.part(".nan-key").hidden = !scores.hasNan;
    }
    const shown = playback.lastTile.get(block), stateRows = this.rowsOfBlock();
    let firstRow = stateRows[0] ?? 0, tileRows = stateRows.length ? stateRows.at(-1) - firstRow + 1 : 0;
    if (shown && hasScores) {
      const [r, c, h, w] = shown.at;
      firstRow = r;
      tileRows = Math.min(h, rows - r);
      const tileColumns = Math.min(w, columns - c);
      if (tileColumns <= 256 && tileRows > 0 && tileColumns > 0) {
        paint(tile, scores, r, c, tileRows, tileColumns);
        tile.style.width = `${Math.max(tileColumns < 3 ? 14 : 32, Math.min(256, tileColumns * (tileColumns <= 64 ? 4 : 2)))}px`;
        this.tileAt = [r, c];
        const percent = (part, whole) => `${(part / whole * 100).toFixed(3)}%`;
        Object.assign(outline.style, {left: percent(c, columns), top: percent(r, rows), width: percent(tileColumns, columns),
                                      height: percent(tileRows, rows)});
        outline.hidden = false;
        this.part(".tile-caption").textContent = `this block: queries ${range(r, r + tileRows - 1)}, keys ${range(c, c + tileColumns - 1)}`;
        tile.hidden = false;
      } else tile.hidden = true;
    } else { tile.hidden = true; this.part(".tile-caption").textContent = stateRows.length ? "rows of the block" : ""; }
    const rowHeight = tileRows <= 16 ? 16 : 4, height = Math.max(1, tileRows) * rowHeight;
    tile.style.height = `${height}px`;
    this.drawState(states, firstRow, tileRows, rowHeight, chosen);
  }

  /** m, l and the rescale factor of each row, beside the row of the tile. */
  drawState(states, firstRow, count, rowHeight, chosen) {
    const names = ["m", "l", "rescale"].filter(n => [...(states?.values() ?? [])].some(s => s[n]));
    const box = this.part(".state"), numbers = this.part(".numbers");
    if (!states || names.length === 0) { box.innerHTML = numbers.innerHTML = ""; return; }
    const width = 62, gap = 10, height = count * rowHeight;
    const finite = name => [...states.values()].flatMap(s => s[name] ?? []).filter(Number.isFinite);
    let svg = "";
    names.forEach((name, n) => {
      const values = finite(name), most = Math.max(1e-30, ...values), least = name === "m" ? Math.min(0, ...values) : 0;
      const span = name === "rescale" ? 1 : Math.max(most - least, 1e-30), x = n * (width + gap);
      svg += `<text class="soft" x="${x}" y="9">${name}</text>`;
      for (const [row, state] of states) {
        const parts = state[name];
        if (!parts || row < firstRow || row >= firstRow + count) continue;
        const y = 14 + (row - firstRow) * rowHeight, each = width / parts.length;
        parts.forEach((v, part) => {
          const share = Number.isFinite(v) ? Math.max(0, Math.min(1, (v - least) / span)) : 0;
          if (parts.length === 1)
            svg += `<rect class="bar ${name}" x="${x}" y="${y + .5}" width="${Math.max(.5, share * width)}" height="${rowHeight - 1}"/>`;
          else
            svg += `<rect class="bar ${name}" x="${x + part * each}" y="${y + .5}" width="${Math.max(.5, each - .5)}" height="${rowHeight - 1}" opacity="${.12 + .88 * share}"/>`;
        });
      }
    });
    const all = names.length * (width + gap);
    if (chosen !== undefined && chosen >= firstRow && chosen < firstRow + count)
      svg += `<rect class="picked" x="-1" y="${14 + (chosen - firstRow) * rowHeight - .5}" width="${all - gap + 2}" height="${rowHeight + 1}"/>`;
    svg += `<rect class="rowhit" y="14" width="${all}" height="${height}"/>`;
    box.innerHTML = `<svg width="${all + 3}" height="${height + 16}" viewBox="-2 0 ${all + 3} ${height + 16}" role="img" aria-label="state of the rows">${svg}</svg>`;
    box.querySelector(".rowhit").onclick = event => {
      const rect = event.target.getBoundingClientRect();
      this.chooseRow(firstRow + Math.floor((event.clientY - rect.top) / rowHeight));
    };
    const state = states.get(chosen);
    const list = parts => {
      const texts = parts.map(numberText);
      return texts.length <= 8 ? texts.join(" | ") : `${texts.slice(0, 8).join(" | ")} | … ${texts.length} in all`;
    };
    numbers.innerHTML = state ? `<span><span>row</span> <b>${chosen}</b></span>` + names.filter(n => state[n]).map(n =>
      `<span data-state="${n}"><span>${n}</span> <b>${list([...state[n]])}</b></span>`).join("") : "";
  }

  drawCounters(playback) {
    const names = [...new Set(playback.run.launches.flatMap(l => Object.keys(l.counters.tensors)))];
    names.sort((a, b) => placeOf(a) - placeOf(b));
    const sizes = new Map(playback.run.launches.flatMap(l => l.tensors).map(t =>
      [t.name, t.element_bytes * t.extents.reduce((product, extent) => product * extent, 1)]));
    const times = (name, bytes) => sizes.has(name) && bytes ? `${Number((bytes / sizes.get(name)).toPrecision(3))} ×` : "";
    const traffic = names.map(n => [n, ...(playback.traffic.get(n) ?? [0, 0])]);
    const total = playback.run.launches.reduce((sum, l) => sum + l.counters.barriers, 0);
    this.part(".barriers").textContent = `barriers ${playback.barriers} of ${total}`;
    this.part(".barriers").dataset.barriers = playback.barriers;
    const ends = new Map();
    for (const l of playback.run.launches)
      for (const [n, [r, w]] of Object.entries(l.counters.tensors)) {
        const e = ends.get(n) ?? [0, 0];
        ends.set(n, [e[0] + r, e[1] + w]);
      }
    const most = Math.max(1, ...[...ends.values()].flat()), meter = (bytes, kind) => `<span class="meter ${kind}" style="width:${(bytes / most * 46).toFixed(1)}%"></span>`;
    const row = (name, read, written, kind = "") =>
      `<tr class="${kind}" data-counter="${escape(name)}" data-read="${read}" data-written="${written}"><td>${escape(name)}</td>` +
      `<td>${read ? bytesText(read) : ""}</td><td class="times">${times(name, read)}</td>` +
      `<td>${written ? bytesText(written) : ""}</td><td class="times">${times(name, written)}</td>` +
      `<td class="meters">${kind ? "" : (read ? meter(read, "r") : "") + (written ? meter(written, "w") : "")}</td></tr>`;
    const sum = traffic.reduce((s, [, r, w]) => [s[0] + r, s[1] + w], [0, 0]);
    this.part(".counters").innerHTML = `<tr><th>tensor</th><th>read</th><td></td><th>written</th><td></td><td class="meters"></td></tr>` +
      traffic.map(t => row(...t)).join("") + row("global memory", ...sum, "sum") + row("shared memory", ...playback.sharedTraffic, "shared");
  }
}
