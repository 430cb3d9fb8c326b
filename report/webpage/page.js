"use strict";
// The script of a report: it opens a cell, filters the table of all trials and draws
// timelines. It asks for nothing and writes texts as texts alone.
(() => {
  const maxRows = 500, rowsAtOnce = 100;
  const dialog = document.getElementById("cell");
  const runs = new Map(); // prefix -> data

  const make = (name, text, cls) => {
    const e = document.createElement(name);
    if (text !== undefined) e.textContent = text;
    if (cls) e.className = cls;
    return e;
  };

  // unpack is what the package pack wrote: JSON behind its length, then blocks of numbers.
  async function unpack(block) {
    const text = atob(block.textContent.trim()), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const data = new Uint8Array(await new Response(stream).arrayBuffer());
    const length = new DataView(data.buffer).getUint32(0, true);
    const run = JSON.parse(new TextDecoder().decode(data.subarray(4, 4 + length)));
    let at = 4 + length;
    const n = run.trials.length;
    for (const c of run.columns) {
      const from = at;
      let values;
      if (c.same) {
        const of = run.columns[c.same - 1];
        [c.at, c.numeric] = [of.at, of.numeric];
      } else if (c.texts) {
        c.at = (i) => c.texts[i] || null;
      } else if (c.values) {
        at += 2 * n;
        c.numeric = typeof c.values[0] === "number";
        c.at = (i) => c.values[data[from + i] | (data[from + n + i] << 8)] ?? null;
      } else {
        at += c.width * n;
        c.numeric = true;
        c.at = (i) => {
          values ||= numbers(data, from, n, c.width);
          return Number.isNaN(values[i]) ? null : values[i];
        };
      }
    }
    const lines = numbers(data, at, (data.length - at) / run.width, run.width);
    let next = 0;
    for (const i of Object.keys(run.courses).map(Number).sort((a, b) => a - b)) {
      const course = run.courses[i];
      course.lines = course.lines.map((s) => {
        const v = Array.from(lines.subarray(next, next + course.n), (x) => (Number.isNaN(x) ? null : x));
        next += course.n;
        return { ...run.series[s], v };
      });
    }
    return run;
  }

  // numbers are n numbers whose first bytes stand together, then their second ones: of 2 and 3
  // bytes an integer above the three bits of the power of ten that it is divided by, else floats.
  function numbers(data, from, n, width) {
    if (width < 4) {
      const none = 2 ** (8 * width) - 1, values = new Float64Array(n);
      for (let i = 0; i < n; i++) {
        const code = data[from + i] | (data[from + n + i] << 8) | (width === 3 ? data[from + 2 * n + i] << 16 : 0);
        values[i] = code === none ? NaN : (code >> 3) / 10 ** (code & 7);
      }
      return values;
    }
    const bytes = new Uint8Array(n * width);
    for (let k = 0; k < width; k++) for (let i = 0; i < n; i++) bytes[i * width + k] = data[from + k * n + i];
    return width === 4 ? new Float32Array(bytes.buffer) : new Float64Array(bytes.buffer);
  }

  const figure = (v) => {
    if (v === null || v === undefined) return "-";
    if (typeof v !== "number") return String(v);
    if (Number.isInteger(v)) return String(v);
    const a = Math.abs(v);
    return a >= 100 ? v.toFixed(0) : String(Number(v.toPrecision(3)));
  };

  // ticks are the numbers at an axis, with as many digits as tell them apart.
  const ticks = (_, values) => {
    const step = values.length > 1 ? Math.abs(values[1] - values[0]) : 1;
    const digits = Math.min(6, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
    return values.map((v) => v.toFixed(digits));
  };

  // open shows a cell: the trials side by side, then their timelines.
  function open(run, cell) {
    const at = run.trials.map((t, i) => i).filter((i) => run.trials[i].cell === cell);
    if (at.length === 0) return;
    dialog.replaceChildren();
    const close = make("button", "Close", "close");
    close.addEventListener("click", () => dialog.close());
    dialog.append(close, make("h3", run.trials[at[0]].label), make("p", `cell ${cell} of ${run.dir}; logs: sweep logs ${run.dir} ${cell}`, "soft"));
    for (const i of at) {
      const t = run.trials[i];
      dialog.append(make("p", `trial ${t.trial}: ${t.mark} ${t.verdict} ${t.why || ""}`));
      const notes = [...(t.findings || []), ...(t.slos || [])];
      if (notes.length > 0) {
        const list = make("ul");
        for (const n of notes) list.append(make("li", n));
        dialog.append(list);
      }
    }
    percentiles(run, at);
    const plots = make("div", undefined, "plots");
    dialog.append(plots);
    const list = make("dl");
    for (const c of run.columns) {
      const values = at.map(c.at);
      if (values.every((v) => v === null)) continue;
      const pair = make("div");
      pair.title = c.doc;
      pair.append(make("dt", c.name), make("dd", values.map(figure).join(" | ") + (c.unit ? " " + c.unit : "")));
      list.append(pair);
    }
    dialog.append(list);
    dialog.showModal();
    for (const i of at) {
      if (run.courses[i]) timelines(plots, run.courses[i], at.length > 1 ? `trial ${run.trials[i].trial}: ` : "");
    }
  }

  // percentiles is a table of the latencies of requests, a row for each trial and latency.
  function percentiles(run, at) {
    const of = (name) => run.columns.find((c) => c.name === name);
    const statistics = ["min", "p50", "p90", "p95", "p99", "max"];
    const t = make("table"), head = make("tr"), body = t.createTBody();
    t.append(make("caption", "Requests by percentile, in ms"));
    for (const name of ["latency", ...statistics]) {
      const th = make("th", name, name === "latency" ? "text" : "");
      th.scope = "col";
      head.append(th);
    }
    t.createTHead().append(head);
    for (const i of at) {
      for (const l of ["ttft", "tpot", "e2e"]) {
        const columns = statistics.map((s) => of(`${s}_${l}_ms`));
        if (columns.every((c) => !c || c.at(i) === null)) continue;
        const tr = make("tr");
        tr.append(make("td", (at.length > 1 ? `trial ${run.trials[i].trial} ` : "") + l.toUpperCase(), "text"));
        for (const c of columns) {
          const td = make("td", c ? figure(c.at(i)) : "-", run.trials[i].verdict === "INVALID" ? "bad" : "");
          if (c) td.title = `${c.name}: ${c.doc}`;
          tr.append(td);
        }
        body.append(tr);
      }
    }
    if (body.rows.length === 0) return;
    const scroll = make("div", undefined, "scroll");
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "group");
    scroll.setAttribute("aria-label", "requests by percentile");
    scroll.append(t);
    dialog.append(scroll);
  }

  // timelines draws the series of a trial on one clock, with one cursor.
  function timelines(where, course, prefix) {
    const sync = uPlot.sync("t" + Math.random());
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink");
    const line = getComputedStyle(document.documentElement).getPropertyValue("--line");
    const stroke = getComputedStyle(document.documentElement).getPropertyValue("--c0");
    const xs = course.lines[0].v.map((_, i) => course.start + (i + 0.5) * course.step);
    for (const s of course.lines) {
      const unit = s.unit === "ratio" || s.unit === "percent" ? "%" : s.unit;
      const ys = s.unit === "ratio" ? s.v.map((v) => (v === null ? null : 100 * v)) : s.v;
      const box = make("div");
      box.append(make("h4", `${prefix}${s.title} [${unit}]`));
      box.title = s.name;
      where.append(box);
      const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "11px system-ui" };
      new uPlot({
        width: Math.max(240, Math.min(560, box.clientWidth || 460)), height: 130,
        cursor: { sync: { key: sync.key } }, legend: { show: true, live: true },
        scales: { x: { time: false }, y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } },
        axes: [{ ...axis, values: (_, ts) => ts.map((t) => t + " s") }, { ...axis, size: 56, values: ticks }],
        series: [{ label: "s", value: (_, v) => figure(v) }, { label: unit, stroke, width: 1.5, spanGaps: false, value: (_, v) => figure(v) }],
      }, [xs, ys], box);
    }
  }

  // table draws the trials that fit a filter, sorted by a column.
  function table(run, tools) {
    const where = document.getElementById(run.prefix + "rows");
    const input = tools.querySelector("input");
    const select = tools.querySelector("select");
    const status = tools.querySelector("[role=status]");
    const numbers = run.columns.filter((c) => c.numeric);
    const chosen = new Set(numbers.filter((c) => c.core && !/^(trial|method|attempt)$/.test(c.name)).slice(0, 14).map((c) => c.name));
    select.append(new Option("add one of all", ""));
    for (const c of numbers) select.append(new Option(c.name, c.name));
    let by = null, down = true;
    const text = run.trials.map((t) => `${t.label} ${t.verdict} ${t.why || ""} ${t.cell}`.toLowerCase());
    const draw = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let rows = run.trials.map((_, i) => i).filter((i) => words.every((w) => text[i].includes(w)));
      if (by) {
        rows.sort((a, b) => {
          const x = by.at(a), y = by.at(b);
          if (x === null || y === null) return (x === null) - (y === null);
          return down ? y - x : x - y;
        });
      }
      status.textContent = rows.length > maxRows ? `${rows.length} trials, the first ${maxRows} shown` : `${rows.length} of ${run.trials.length} trials`;
      rows = rows.slice(0, maxRows);
      const cols = numbers.filter((c) => chosen.has(c.name));
      const t = make("table"), head = make("tr");
      for (const name of ["cell", "verdict"]) {
        const th = make("th", name, "text");
        th.scope = "col";
        head.append(th);
      }
      for (const c of cols) {
        const th = make("th"), b = make("button", c.name + (by === c ? (down ? " ↓" : " ↑") : ""));
        th.scope = "col";
        th.title = `${c.name}${c.unit ? " [" + c.unit + "]" : ""}: ${c.doc}`;
        if (by === c) th.setAttribute("aria-sort", down ? "descending" : "ascending");
        b.addEventListener("click", () => { down = by === c ? !down : true; by = c; draw(); });
        th.append(b);
        head.append(th);
      }
      t.createTHead().append(head);
      const body = t.createTBody();
      const row = (i) => {
        const trial = run.trials[i], tr = make("tr");
        const name = make("td", trial.label, "text"), open = make("td", `${trial.mark} ${trial.verdict} ${trial.why ? "(" + trial.why.replace(/^\(|\)$/g, "") + ")" : ""}`, "text " + (trial.kind || ""));
        name.dataset.cell = run.prefix + trial.cell;
        name.tabIndex = 0;
        tr.append(name, open);
        for (const c of cols) tr.append(make("td", figure(c.at(i)), trial.verdict === "INVALID" && !c.given ? "bad" : ""));
        return tr;
      };
      // The first rows at once and the others behind them, so that a filter answers while it
      // is typed.
      const fill = (from) => {
        body.append(...rows.slice(from, from + rowsAtOnce).map(row));
        if (from + rowsAtOnce < rows.length) setTimeout(() => { if (body.isConnected) fill(from + rowsAtOnce); });
      };
      fill(0);
      const scroll = make("div", undefined, "scroll");
      scroll.tabIndex = 0;
      scroll.setAttribute("role", "group");
      scroll.setAttribute("aria-label", "all trials");
      scroll.append(t);
      where.replaceChildren(scroll);
    };
    input.addEventListener("input", draw);
    select.addEventListener("change", () => { if (select.value) { chosen.add(select.value); select.value = ""; draw(); } });
    draw();
  }

  const clicked = (e) => {
    const at = e.target.closest("[data-cell]");
    if (!at) return;
    for (const [prefix, run] of runs) {
      if (at.dataset.cell.startsWith(prefix)) open(run, at.dataset.cell.slice(prefix.length));
    }
  };
  document.addEventListener("click", clicked);
  document.addEventListener("keydown", (e) => { if (e.key === "Enter" && !e.target.closest("button,a,input,select")) clicked(e); });
  dialog.addEventListener("click", (e) => { if (e.target === dialog) dialog.close(); });

  (async () => {
    for (const block of document.querySelectorAll("script.data")) {
      const run = await unpack(block);
      runs.set(run.prefix, run);
      table(run, document.querySelector(`[data-filter="${run.prefix}"]`));
      for (const g of document.querySelectorAll("g[data-cell]")) g.setAttribute("tabindex", "0");
    }
    document.documentElement.classList.add("js");
  })();
})();
