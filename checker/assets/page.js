"use strict";
// Walks through a story: one state at a time, in the lanes, the source and the table of objects.
// Every text goes into the page as a text node, never as markup.
(() => {
  const story = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const last = story.steps.length;
  let at = last;

  function fill(node, attributes, children) {
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (key === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
      else node.setAttribute(key, value === true ? "" : String(value));
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
    return node;
  }
  const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
  const rich = (text) => text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
  const jump = (n) => h("button", { type: "button", class: "jump", on: { click: () => go(n) } }, `step ${n}`);
  const same = (a, b) => a[0] === b[0] && a[1] === b[1];

  // ---- who has a lane -------------------------------------------------------------------------------------------
  const REFUSALS = new Set(["Conflict", "AlreadyExists", "NotFound", "Invalid", "Denied", "TooManyRequests", "Timeout"]);
  const KEPT = new Set(["generation", "creationTimestamp"]);
  const actors = [...new Set(story.steps.map((step) => step.actor))];
  const rank = (actor) => (story.steps.find((step) => step.actor === actor).role === "environment" ? 0 : 1);
  actors.sort((a, b) => rank(a) - rank(b));
  for (const flight of story.flights) if (!actors.includes(flight.actor)) actors.push(flight.actor);
  const keepsCache = (actor) =>
    story.flights.some((flight) => flight.actor === actor) || story.steps.some((step) => step.actor === actor && step.looked);
  const lanes = [];
  for (const actor of actors) {
    const hue = `hue${Math.max(story.actors.indexOf(actor), 0) % 6}`;
    lanes.push({ id: actor, name: actor, hue, gap: 1 });
    if (keepsCache(actor)) lanes.push({ id: `${actor} cache`, name: "its cache", hue, gap: 0.7, cache: true });
  }
  lanes.push({ id: "", name: "store", hue: "hue-store", gap: 1 });
  const hueOf = (actor) => (lanes.find((lane) => lane.id === actor) || { hue: "hue-store" }).hue;

  // ---- the property, state by state -----------------------------------------------------------------------------
  const judged = story.blame.states;
  const isBad = (conjunct, n) => !conjunct.values.length || conjunct.values[n] === (story.kind === "safety" ? conjunct.values[judged[0]] : "false");
  const badAt = (n) => story.blame.conjuncts.some((conjunct) => conjunct.values.length && isBad(conjunct, n));

  function drawBlame() {
    byId("blame").replaceChildren(...story.blame.conjuncts.map((conjunct) => {
      const bad = isBad(conjunct, at);
      const seen = conjunct.values.length ? at : judged[0]; // what one step owes is judged before it, wherever the walk is
      const place = conjunct.span.file ? `${conjunct.span.file}:${conjunct.span.line}` : "";
      const terms = conjunct.bindings.map((binding) =>
        h("div", {}, h("dt", {}, h("code", {}, binding.text)), h("dd", { class: "mono" }, binding.values[seen])));
      const truths = conjunct.values.map((value, n) => h("button", {
        type: "button", class: isBad(conjunct, n) ? "bad" : "", title: `state ${n}: ${value}`,
        "aria-label": `state ${n}: ${value}`, "aria-current": n === at ? "true" : null, on: { click: () => go(n) },
      }));
      return h("section", { class: "conjunct" },
        h("div", { class: "claim" }, h("code", {}, conjunct.text || story.property),
          h("span", { class: bad ? "pill bad" : "pill" }, conjunct.values.length
            ? `${conjunct.values[at]} ${at ? `after step ${at}` : "at the start"}` : `breaks ${story.property}`),
          h("span", { class: "spot mono" }, place)),
        terms.length ? h("dl", { class: "terms" }, terms) : null,
        truths.length > 1 ? h("div", { class: "truths", "aria-label": "In each state" }, truths) : null);
    }));
  }

  // ---- steps ----------------------------------------------------------------------------------------------------
  function changeText(change, step) {
    if (change.field === "" && change.before === null) return `+ ${change.object}${change.after ? `  ${change.after}` : ""}`;
    if (change.field === "" && change.after === null) return `− ${change.object}`;
    return `${change.where === "memory" || change.object === step.object ? "" : `${change.object} `}${change.field}  ${change.before} → ${change.after}`;
  }

  function stepRow(n) {
    const step = n ? story.steps[n - 1] : null;
    const number = h("span", { class: badAt(n) ? "number bad" : "number" }, String(n));
    const what = h("span", { class: "what" });
    if (step) {
      what.append(h("span", { class: `who ${hueOf(step.actor)}` }, step.actor), ` ${step.deed}`);
      const first = step.changes.find((change) => change.where === "") || step.changes[0];
      const note = step.stale.length ? "decided by a stale read" : step.role === "fault" && step.note ? step.note : first ? changeText(first, step) : step.note || step.detail.join(", ");
      if (note) what.append(h("span", { class: step.stale.length ? "note warn" : "note" }, note));
    } else what.append(h("span", { class: "who hue-store" }, "The start"));
    const button = h("button", { type: "button", class: "step", on: { click: () => go(n) } }, number, what);
    const cycle = story.cycle > 0 && n > story.stem;
    return h("li", { class: `${cycle ? "cycle" : ""}${cycle && n === story.stem + 1 ? " cycle-start" : ""}` }, button);
  }

  const rows = Array.from({ length: last + 1 }, (_, n) => stepRow(n));
  byId("steps").replaceChildren(...rows);
  byId("legend-cycle").hidden = story.cycle === 0;

  // ---- lanes ----------------------------------------------------------------------------------------------------
  function layout() {
    const width = byId("drawing").clientWidth;
    const narrow = window.matchMedia("(max-width: 640px)").matches;
    const left = 26, right = story.cycle ? 40 : 26;
    const total = lanes.slice(1).reduce((sum, lane) => sum + lane.gap, 0) || 1;
    let sum = 0;
    const x = {};
    lanes.forEach((lane, i) => { sum += i ? lane.gap : 0; x[lane.id] = left + ((width - left - right) * sum) / total; });
    const y = rows.map((row) => row.offsetTop + (narrow ? row.offsetHeight - 22 : Math.min(row.offsetHeight / 2, 25)));
    const height = rows[last].offsetTop + rows[last].offsetHeight;
    return { width, height, x, y };
  }

  function arrow(from, to, kind, head) {
    const angle = Math.atan2(to[1] - from[1], to[0] - from[0]);
    const tip = (turn) => `${to[0] - 9 * Math.cos(angle + turn)} ${to[1] - 9 * Math.sin(angle + turn)}`;
    return [s("path", { class: kind, d: `M${from[0]} ${from[1]}L${to[0] - 6 * Math.cos(angle)} ${to[1] - 6 * Math.sin(angle)}` }),
      s("path", { class: head, d: `M${to[0]} ${to[1]}L${tip(0.42)}L${tip(-0.42)}Z` })];
  }
  const cross = (x, y) => s("path", { class: "cross", d: `M${x - 5} ${y - 5}L${x + 5} ${y + 5}M${x + 5} ${y - 5}L${x - 5} ${y + 5}` });

  function drawHeads(view) {
    const gaps = lanes.slice(1).map((lane, i) => view.x[lane.id] - view.x[lanes[i].id]);
    const widest = Math.max(...lanes.map((lane) => lane.name.length * 7));
    const tilted = Math.min(...gaps, Infinity) < widest + 8;
    const height = tilted ? Math.min(24 + widest * 0.55, 110) : 36;
    const names = lanes.map((lane) => {
      const x = view.x[lane.id], y = height - 9;
      const place = tilted ? { transform: `translate(${x - 2} ${y}) rotate(-32)` } : { x, y, "text-anchor": "middle" };
      const ends = tilted && x > view.width - 80 ? { transform: `translate(${x + 8} ${y})`, "text-anchor": "end" } : place;
      return s("text", { class: `${lane.hue}${lane.cache ? " cache-name" : ""}`, ...ends }, lane.name);
    });
    byId("lanes").replaceChildren(s("svg", { width: view.width, height, viewBox: `0 0 ${view.width} ${height}` }, names));
  }

  function drawStep(step, view) {
    const y = view.y[step.number], x = view.x[step.actor], store = view.x[""];
    const mine = [];
    const wrote = step.changes.some((change) => change.where === "");
    const reads = ["get", "list"].includes(step.verb);
    const calls = ["create", "update", "patch", "apply", "delete", "evict", "bind"].includes(step.verb);
    if (wrote || calls) {
      mine.push(arrow([x, y], [store, y], wrote ? "write" : "write idle", "head"));
      if (step.detail.some((text) => REFUSALS.has(text.split(",")[0]))) mine.push(cross(store - 14, y));
    } else if (reads) mine.push(arrow([store, y], [x + 6, y], "look", "look-head"));
    const cache = view.x[`${step.actor} cache`];
    if (step.looked && cache !== undefined) {
      const stale = step.stale.length > 0;
      mine.push(arrow([cache, y - 7], [x + 5, y - 3], stale ? "stale-look" : "look", stale ? "stale-head" : "look-head"));
    }
    const dot = step.verb === "deliver" && cache !== undefined ? cache : x;
    mine.push(step.role === "fault" ? cross(x, y) : s("circle", { class: "dot", cx: dot, cy: y, r: step.verb === "deliver" ? 3.5 : 5 }));
    return s("g", { class: `${hueOf(step.actor)}${step.number > at ? " ahead" : ""}` }, mine.flat());
  }

  function drawFlight(flight, view) {
    const sent = flight.sent.length ? flight.sent[0] + 1 : 0;
    const target = view.x[`${flight.actor} cache`], store = view.x[""];
    if (target === undefined) return null;
    const landed = flight.landed === null ? null : flight.landed + 1;
    const arrived = landed !== null && at >= landed;
    const kind = `flight${flight.how === "lost" ? " lost" : arrived ? " landed" : ""}`;
    const from = [store, view.y[sent]];
    let mine;
    if (landed === null) {
      const to = [store + (target - store) * 0.6, view.height - 4];
      mine = [s("path", { class: kind, d: `M${from[0]} ${from[1]}L${to[0]} ${to[1]}` })];
    } else if (flight.how === "lost") {
      const to = [target + (store - target) * 0.15, view.y[landed]];
      mine = [s("path", { class: kind, d: `M${from[0]} ${from[1]}L${to[0]} ${to[1]}` }), cross(...to)];
    } else mine = arrow(from, [target, view.y[landed] + (landed === sent ? 5 : 0)], kind, "flight-head");
    return s("g", { class: at < sent ? "ahead" : "" }, mine);
  }

  function drawLoop(view) {
    if (!story.cycle) return null;
    const x = view.x[""], far = x + 24, top = view.y[story.stem], low = view.y[last];
    return s("g", {}, s("path", { class: "loop", d: `M${x + 7} ${low}H${far - 8}Q${far} ${low} ${far} ${low - 8}V${top + 8}Q${far} ${top} ${far - 8} ${top}H${x + 12}` }),
      s("path", { class: "loop-head", d: `M${x + 6} ${top}l8 -4v8Z` }));
  }

  function drawLanes() {
    const view = layout();
    drawHeads(view);
    const lines = lanes.map((lane) => s("line", { class: `lane ${lane.hue}${lane.cache ? " cache" : ""}`, x1: view.x[lane.id], x2: view.x[lane.id], y1: 0, y2: view.height }));
    byId("drawing").replaceChildren(s("svg", { width: view.width, height: view.height }, lines,
      story.flights.map((flight) => drawFlight(flight, view)), story.steps.map((step) => drawStep(step, view)), drawLoop(view)));
  }

  // ---- the step in focus ----------------------------------------------------------------------------------------
  const ROLES = { fault: "a fault", environment: "need not happen" };

  function staleText(stale, step) {
    const parts = stale.differences.map(([field, cache, truth]) =>
      field === "uid" ? `its cache shows the earlier ${stale.object}${cache && ` (${cache})`}, which is gone; another took the name${truth && ` (${truth})`}`
      : field ? `its cache shows ${stale.object} ${field} = ${cache}, in truth it is ${truth}`
        : cache === null ? `its cache shows no ${stale.object}, in truth there is one`
          : `its cache still shows ${stale.object}, in truth it is gone`);
    const box = h("div", { class: "stale" }, h("strong", {}, "Stale read: "), parts.join("; "), ".");
    if (stale.missing.length) {
      box.append(" The delivery of ", ...stale.missing.flatMap((n, i) => (i ? [", ", jump(n)] : [jump(n)])), " is missing; ");
      if (stale.comes === null) box.append("it never comes in this run.");
      else if (stale.comes === step.number) box.append("it comes with this very step.");
      else box.append("it comes with ", jump(stale.comes), ".");
    }
    return box;
  }

  function drawDetail() {
    const step = at ? story.steps[at - 1] : null;
    const box = byId("detail");
    if (!step) box.replaceChildren(h("h3", {}, "The start"), h("p", { class: "role" }, "The given objects are in the store and in every cache."));
    else {
      const places = { "": "store", cache: "cache", memory: "memory" };
      const changes = step.changes.map((change) => h("li", {},
        h("span", { class: "tag" }, change.where === "cache" && change.actor !== step.actor ? `cache ${change.actor}` : places[change.where]),
        h("span", { class: "mono" }, changeText(change, step))));
      box.replaceChildren(
        h("h3", {}, h("span", { class: `who ${hueOf(step.actor)}` }, step.actor), ` ${step.deed}`),
        h("p", { class: "role" }, [step.deed.startsWith(step.action) ? "" : `in ${step.action}`, step.detail.join(", "), ROLES[step.role] || "",
          step.repeats ? "repeats for ever" : ""].filter(Boolean).join(" · ")),
        changes.length ? h("ul", { class: "changes" }, changes) : h("p", { class: "role" }, "Nothing in the store changes."),
        ...(step.note ? [h("p", { class: "happens" }, `${step.note[0].toUpperCase()}${step.note.slice(1)}.`)] : []),
        ...step.stale.map((stale) => staleText(stale, step)));
    }
    const waiting = story.flights.filter((f) => (f.sent.length ? f.sent[0] + 1 : 0) <= at && (f.landed === null || f.landed + 1 > at));
    if (waiting.length) box.append(h("p", { class: "under-way" }, "On its way: ", waiting.map((f, i) =>
      `${i ? "; " : ""}${f.object} to ${f.actor}${f.sent.length ? `, from step ${f.sent[0] + 1}` : ""}`).join("")));
  }

  const TOKENS = /(\/\/.*)|("[^"]*"|'[^']*')|\b([A-Z]\w*)\b|\b(controller|process|environment|action|reconcile|gone|let|for|in|if|else|when|list|get|cached|live|where|create|update|patch|apply|delete|evict|bind|on|return|requeue|after|fail|force|unchanged|same|memory|index|cache|owns|watches|property|always|never|sometimes|eventually|converges|while|to|leads|check|run|scope|faults|given|expect|fault|at|most|resource|spec|status|rule|const|enum|struct|fun|any|true|false|null)\b/g;

  function coloured(text) {
    const parts = [];
    let end = 0;
    for (const match of text.matchAll(TOKENS)) {
      parts.push(text.slice(end, match.index));
      parts.push(h("span", { class: match[1] ? "c" : match[2] ? "s" : match[3] ? "t" : "k" }, match[0]));
      end = match.index + match[0].length;
    }
    return [...parts, text.slice(end)];
  }

  function drawSource() {
    const step = at ? story.steps[at - 1] : null;
    const marks = new Map();
    const mark = (span, entry) => {
      if (!span.file) return;
      for (let line = span.line; line <= span.end_line; line++) {
        const key = `${span.file}\n${line}`;
        if (!marks.has(key)) marks.set(key, { file: span.file, line, ...entry, truth: line === span.end_line ? entry.truth : undefined });
      }
    };
    if (step) {
      for (const line of step.decided) mark(line.span, { kind: "test", truth: line.truth });
      mark(step.span, { kind: "call" });
    }
    byId("source").replaceChildren(...story.excerpts.map(([name, text]) => {
      const here = [...marks.values()].filter((entry) => entry.file === name);
      if (!here.length) return null;
      const lines = text.split("\n");
      const shown = new Set(here.flatMap((entry) => [-2, -1, 0, 1, 2].map((d) => entry.line + d)));
      const rows = [];
      let previous = 0;
      for (const line of [...shown].sort((a, b) => a - b)) {
        if (line < 1 || line > lines.length) continue;
        if (previous && line > previous + 1) rows.push(h("div", { class: "row" }, h("span", {}, "⋮"), h("span", {}, "")));
        previous = line;
        const entry = marks.get(`${name}\n${line}`);
        rows.push(h("div", { class: `row ${entry ? entry.kind : ""}` }, h("span", {}, String(line)), h("span", {}, coloured(lines[line - 1])),
          entry && entry.truth !== undefined ? h("span", { class: "truth" }, `is ${entry.truth}`) : h("span", {}, "")));
      }
      return h("figure", {}, h("figcaption", {}, name), h("div", { class: "listing", tabindex: "0" }, rows));
    }).filter(Boolean));
  }

  // ---- the table of objects -------------------------------------------------------------------------------------
  const holders = ["", ...Object.keys(story.scenes[0].caches)];
  const itemsOf = (scene, holder) => (holder ? scene.caches[holder] || [] : scene.truth);
  const itemOf = (scene, holder, key) => itemsOf(scene, holder).find((item) => same([item.kind, item.slot], key));
  const keys = [];
  for (const scene of story.scenes) for (const holder of holders) for (const item of itemsOf(scene, holder)) {
    if (!keys.some((key) => same(key, [item.kind, item.slot]))) keys.push([item.kind, item.slot]);
  }
  const columns = holders.filter((holder) => !holder || story.scenes.some((scene) => itemsOf(scene, holder).length));
  const kindsOf = (holder) => new Set(story.scenes.flatMap((scene) => itemsOf(scene, holder).map((item) => item.kind)));
  const cachedKinds = new Map(columns.map((holder) => [holder, kindsOf(holder)]));

  function fieldsOf(key, every) {
    const values = new Map();
    for (const scene of story.scenes) for (const holder of columns) {
      const item = itemOf(scene, holder, key);
      for (const [path, text] of Object.entries(item ? item.fields : {})) values.set(path, (values.get(path) || new Set()).add(text));
    }
    return [...values.keys()].filter((path) => every || (values.get(path).size > 1 && !KEPT.has(path)));
  }

  function cell(now, before, truth, holder) {
    const td = h("td", {});
    if (now !== before && at > 0) {
      if (before !== undefined && before !== "—") td.append(h("span", { class: "old" }, before), " ");
      td.append(h("span", { class: "fresh" }, now === undefined ? "—" : now));
    } else td.append(now === undefined ? "—" : now);
    if (holder && now !== truth) {
      td.className = "behind";
      td.title = `out of date: in truth ${truth === undefined ? "absent" : truth}`;
    }
    return td;
  }

  function objectRows(key, every) {
    const scene = story.scenes[at], before = story.scenes[Math.max(at - 1, 0)];
    const known = (holder) => !holder || cachedKinds.get(holder).has(key[0]);
    const one = [scene, before, ...story.scenes].flatMap((one) => columns.map((holder) => itemOf(one, holder, key))).find(Boolean);
    const there = (where, holder) => (itemOf(where, holder, key) ? "exists" : "—");
    const missing = columns.every((holder) => !itemOf(scene, holder, key) && !itemOf(before, holder, key));
    const head = h("tr", { class: missing ? "object missing" : "object" }, h("th", { scope: "row" }, `${one.kind} ${one.name}`),
      columns.map((holder) => (known(holder) ? cell(there(scene, holder), there(before, holder), there(scene, ""), holder) : h("td", {}))));
    if (missing) return [head];
    return [head, ...fieldsOf(key, every).map((path) => h("tr", { class: "field" }, h("th", { scope: "row" }, path), columns.map((holder) => {
      const value = (where, whose) => { const item = itemOf(where, whose, key); return item ? item.fields[path] : undefined; };
      const kept = story.scenes.some((where) => value(where, holder) !== undefined);
      return known(holder) && kept ? cell(value(scene, holder), value(before, holder), value(scene, ""), holder) : h("td", {});
    })))];
  }

  function privateRows() {
    const scene = story.scenes[at], before = story.scenes[Math.max(at - 1, 0)];
    const kept = (one, actor, name) => (one.private[actor] || {})[name] ?? "—";
    return [...new Set(story.scenes.flatMap((one) => Object.keys(one.private)))].flatMap((actor) => {
      const names = [...new Set(story.scenes.flatMap((one) => Object.keys(one.private[actor] || {})))].filter((name) =>
        (byId("every").checked || !/^(control|local|budget) /.test(name)) && new Set(story.scenes.map((one) => kept(one, actor, name))).size > 1);
      return names.map((name) => h("tr", { class: "field" }, h("th", { scope: "row" }, `${actor} ${name}`.trim()),
        cell(kept(scene, actor, name), kept(before, actor, name), undefined, "")));
    });
  }

  function drawObjects() {
    const every = byId("every").checked;
    const heads = columns.map((holder) => h("th", { scope: "col", class: holder ? hueOf(holder) : "hue-store" }, holder ? `cache of ${holder}` : "store"));
    const table = h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "object"), heads)),
      h("tbody", {}, keys.flatMap((key) => objectRows(key, every))));
    const mine = privateRows();
    byId("objects").replaceChildren(h("div", { class: "wide", tabindex: "0" }, table),
      ...(mine.length ? [h("table", {}, h("tbody", {}, mine))] : []));
  }

  // ---- walking --------------------------------------------------------------------------------------------------
  function draw() {
    rows.forEach((row, n) => {
      row.classList.toggle("future", n > at);
      if (n === at) row.firstChild.setAttribute("aria-current", "step");
      else row.firstChild.removeAttribute("aria-current");
    });
    byId("place").textContent = at ? `step ${at} of ${last}${story.cycle && at > story.stem ? " ↻" : ""}` : `start of ${last} steps`;
    byId("back").disabled = byId("first").disabled = at === 0;
    byId("next").disabled = at === last && !story.cycle;
    byId("last").disabled = at === last;
    drawBlame();
    drawDetail();
    drawSource();
    drawObjects();
    drawLanes();
  }

  function go(n, quiet) {
    at = Math.max(0, Math.min(last, n));
    draw();
    try { history.replaceState(null, "", `#step=${at}`); } catch { location.replace(`#step=${at}`); }
    if (!quiet) rows[at].scrollIntoView({ block: "nearest" });
  }
  const next = () => go(at === last && story.cycle ? story.stem + 1 : at + 1);
  const wanted = () => { const match = /step=(\d+)/.exec(location.hash); return match ? Number(match[1]) : last; };

  const KEYS = { ArrowRight: next, j: next, ArrowLeft: () => go(at - 1), k: () => go(at - 1), Home: () => go(0), End: () => go(last) };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  window.addEventListener("hashchange", () => { if (wanted() !== at) go(wanted()); });
  byId("first").addEventListener("click", KEYS.Home);
  byId("back").addEventListener("click", KEYS.k);
  byId("next").addEventListener("click", next);
  byId("last").addEventListener("click", KEYS.End);
  byId("every").addEventListener("change", drawObjects);

  const root = document.documentElement;
  byId("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // ---- what follows ---------------------------------------------------------------------------------------------
  const card = (title, texts, kind) => (texts.length ? h("section", { class: kind }, h("h2", {}, title), h("ul", {}, texts.map((text) => h("li", {}, rich(text))))) : null);
  byId("after").append(...[card("Why nothing helps", story.why, "why"), card("What would help", story.fix, "help"),
    story.replay ? h("section", { class: "again" }, h("h2", {}, "Again"), h("code", {}, story.replay)) : null].filter(Boolean));

  byId("story").hidden = false;
  go(wanted(), true);
  new ResizeObserver(drawLanes).observe(byId("steps"));
})();
