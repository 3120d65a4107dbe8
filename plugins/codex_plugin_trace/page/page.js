"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const rows = data.rows;
  const LINE = 28; // the height of a closed row in pixels, with its border
  const HEADING = 46, TEXT_LINE = 18, BOX = 420; // of a section: what is around it, one line, and the highest box
  const MORE = 12; // rows that are drawn above and below what is visible
  const CHUNK = 400; // lines of a section that are drawn before somebody asks for all of them
  const MARKS = 500; // matches that are marked in one section
  const $ = (id) => document.getElementById(id);
  const view = $("view"), space = $("space"), list = $("rows");

  // Characters that are invisible, or that change how the text around them looks, are shown by their numbers.
  const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
  const plain = (text) => text.replace(/\r\n/g, "\n").replace(HIDDEN, (sign) =>
    sign < " " ? String.fromCharCode(0x2400 + sign.charCodeAt(0)) : `⟨${sign.charCodeAt(0).toString(16).padStart(4, "0")}⟩`);

  const node = (tag, kind, text) => {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const seconds = (time) => {
    if (time === undefined || time === null) return "";
    if (time < 0.9995 && time >= 0) return `${Math.round(time * 1000)} ms`;
    if (time < 59.95) return `${time.toFixed(time < 9.995 ? 2 : 1)} s`;
    const whole = Math.round(time), hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60;
    return hours ? `${hours} h ${minutes} min` : `${minutes} min ${whole % 60} s`;
  };
  const count = (number) => number.toLocaleString("en");
  const short = (number) => number < 10000 ? count(number) : number < 999500 ? `${(number / 1000).toFixed(1)}k` : `${(number / 1e6).toFixed(2)}M`;
  const clock = (time) => time === undefined ? "" : new Date((data.base + time) * 1000).toISOString().replace("T", " ").replace("Z", " UTC");
  const tokensLong = ([input, cached, output, reasoning]) =>
    `${count(input)} input tokens (${count(cached)} cached), ${count(output)} output tokens (${count(reasoning)} reasoning)`;

  const money = (cost) => Object.entries(cost).map(([currency, amount]) => `${amount.toLocaleString("en", { maximumSignificantDigits: 4 })} ${plain(currency)}`).join(" + ");

  // State
  const open = new Set(), folded = new Set(), hiddenKinds = new Set();
  const heights = new Map(), drawn = new Map(), texts = new Map();
  let query = "", failedOnly = false, at = 0;
  let shown = [], tops = new Float64Array(1), place = new Map();

  // What the turns and the whole trace last
  const isTurn = (row) => row.k === "turn";
  let first = Infinity, last = 0;
  rows.forEach((row) => {
    if (row.t === undefined) return;
    first = Math.min(first, row.t);
    last = Math.max(last, row.t + (row.e || 0));
  });
  const windowOf = (row) => {
    const turn = row.turn === undefined ? null : rows[row.turn];
    return turn && turn.t !== undefined && turn.e ? [turn.t, turn.e] : [first, last - first];
  };

  let narrowed = false; // by a search or a filter, which also find what is folded
  const isFolded = (index) => folded.has(index) && !narrowed;

  function searched(index) {
    let text = texts.get(index);
    if (text === undefined) {
      const row = rows[index];
      text = [row.n, row.o || "", row.s || "", ...(row.p || []).map((part) => part[2])].join("\n").toLowerCase();
      texts.set(index, text);
    }
    return text;
  }

  function choose() {
    const asked = query.toLowerCase();
    const wanted = new Uint8Array(rows.length);
    rows.forEach((row, index) => {
      if (hiddenKinds.has(row.k) || (failedOnly && !row.s && row.k !== "error") || (asked && !searched(index).includes(asked))) return;
      wanted[index] = 1;
      if (row.turn !== undefined) wanted[row.turn] = 1; // a step is shown with its turn
    });
    narrowed = Boolean(asked || failedOnly);
    const before = shown[at];
    shown = [];
    rows.forEach((row, index) => {
      const inside = row.turn !== undefined && isFolded(row.turn);
      if (wanted[index] && !inside) shown.push(index);
    });
    place = new Map(shown.map((index, position) => [index, position]));
    at = place.has(before) ? place.get(before) : Math.max(0, Math.min(at, shown.length - 1));
    $("count").textContent = shown.length === rows.length ? `${count(rows.length)} rows` : `${count(shown.length)} of ${count(rows.length)} rows`;
    forget();
    layOut();
    draw();
  }

  // The height of an open row that has not been drawn yet is a guess, from the lines of its sections.
  function guess(index) {
    let height = LINE + 40;
    (rows[index].p || []).forEach(([, , text]) => {
      let lines = 1;
      for (let end = text.indexOf("\n"); end >= 0 && lines < 25; end = text.indexOf("\n", end + 1)) lines++;
      height += HEADING + Math.min(lines * TEXT_LINE, BOX - 16);
    });
    heights.set(index, height);
    return height;
  }
  const heightOf = (index) => open.has(index) ? heights.get(index) || guess(index) : LINE;

  function layOut() {
    tops = new Float64Array(shown.length + 1);
    for (let position = 0; position < shown.length; position++) tops[position + 1] = tops[position] + heightOf(shown[position]);
    space.style.height = `${tops[shown.length]}px`;
  }

  function positionAt(offset) {
    let low = 0, high = shown.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tops[middle + 1] <= offset) low = middle + 1; else high = middle;
    }
    return low;
  }

  function forget() {
    drawn.forEach((element) => element.remove());
    drawn.clear();
  }

  function draw() {
    const top = view.scrollTop;
    const begin = Math.max(0, positionAt(top) - MORE);
    const end = Math.min(shown.length, positionAt(top + view.clientHeight) + MORE + 1);
    const wanted = new Set(shown.slice(begin, end));
    drawn.forEach((element, index) => {
      if (wanted.has(index)) return;
      element.remove();
      drawn.delete(index);
    });
    let next = list.firstChild;
    for (let position = begin; position < end; position++) {
      const index = shown[position];
      let element = drawn.get(index);
      if (!element) {
        element = rowOf(index);
        drawn.set(index, element);
      }
      if (element === next) next = next.nextSibling; else list.insertBefore(element, next);
      element.setAttribute("aria-posinset", String(position + 1));
      element.setAttribute("aria-setsize", String(shown.length));
      element.classList.toggle("at", position === at);
      element.setAttribute("aria-selected", String(position === at));
    }
    list.style.top = `${tops[begin] || 0}px`;
    if (shown.length) view.setAttribute("aria-activedescendant", `row-${shown[at]}`); else view.removeAttribute("aria-activedescendant");
    measure(begin, end, top);
  }

  function measure(begin, end, top) {
    let moved = 0, changed = false;
    for (let position = begin; position < end; position++) {
      const index = shown[position];
      if (!open.has(index)) continue;
      const height = drawn.get(index).offsetHeight;
      const before = heightOf(index);
      if (height === before) continue;
      heights.set(index, height);
      changed = true;
      if (tops[position] < top && position !== at) moved += height - before;
    }
    if (!changed) return;
    const isAtEnd = top > 0 && top + view.clientHeight >= tops[shown.length] - 2;
    layOut();
    if (isAtEnd) view.scrollTop = tops[shown.length]; else if (moved) view.scrollTop = top + moved;
    draw();
  }

  // Rows
  function put(element, text) {
    const asked = query.toLowerCase();
    const lower = asked ? text.toLowerCase() : "";
    let from = 0, found = 0;
    if (asked && lower.length === text.length) {
      for (let hit = lower.indexOf(asked); hit >= 0 && found < MARKS; hit = lower.indexOf(asked, from), found++) {
        element.append(text.slice(from, hit), node("mark", "", text.slice(hit, hit + asked.length)));
        from = hit + asked.length;
      }
    }
    element.append(text.slice(from));
    return element;
  }

  function rowOf(index) {
    const row = rows[index];
    const element = node("div", `row ${row.k}`);
    element.id = `row-${index}`;
    element.setAttribute("role", "treeitem");
    element.setAttribute("aria-level", String((row.d || 0) + 1));
    const line = node("div", "line");
    const name = node("div", "name");
    name.style.paddingLeft = `${Math.max(0, (row.d || 0) - 1) * 16}px`;
    const canOpen = Boolean(row.p) || isTurn(row);
    const isOpen = isTurn(row) ? !isFolded(index) : open.has(index); // a turn is open if its steps are shown below it
    const arrow = node("span", "arrow", canOpen ? (isOpen ? "▾" : "▸") : "");
    if (isTurn(row)) arrow.addEventListener("click", (event) => { event.stopPropagation(); fold(index, !folded.has(index)); });
    name.append(arrow);
    if (!isTurn(row) && row.k !== "thread") name.append(node("span", `kind ${row.k}`, row.k));
    if (row.s) name.append(node("span", "state", row.s));
    name.append(put(node("span", "text"), plain(row.n)));
    if (row.o) name.append(put(node("span", "note"), plain(row.o)));
    if (isTurn(row) && row.cost) name.append(node("span", "note", money(row.cost)));
    if (isTurn(row) && isFolded(index)) name.append(node("span", "note", "(steps hidden)"));
    const tokens = node("div", "tokens", row.tok ? `${short(row.tok[0])} → ${short(row.tok[2])}` : "");
    if (row.tok) tokens.title = tokensLong(row.tok) + (row.cost ? `, ${money(row.cost)}` : "");
    const took = node("div", "took", seconds(row.e));
    took.title = clock(row.t);
    line.append(name, tokens, took, trackOf(row));
    line.addEventListener("click", () => { at = place.get(index); toggle(index); });
    element.append(line);
    if (canOpen) element.setAttribute("aria-expanded", String(isOpen));
    if (open.has(index)) element.append(detailsOf(index));
    return element;
  }

  function trackOf(row) {
    const track = node("div", "track");
    if (row.t === undefined || row.k === "thread") return track;
    const [start, length] = windowOf(row);
    const left = length > 0 ? Math.min(Math.max((row.t - start) / length, 0), 1) : 0;
    const width = length > 0 && row.e ? Math.min(row.e / length, 1 - left) : 0;
    if (isTurn(row) && row.spent && row.e) {
      let from = left;
      for (const kind of ["model", "tool", "approval", "other"]) {
        const part = Math.min((row.spent[kind] || 0) / row.e, 1) * width;
        if (part > 0) track.append(barOf(kind, from, part, `${kind}: ${seconds(row.spent[kind])}`));
        from += part;
      }
      return track;
    }
    track.append(barOf(row.e === undefined ? `${row.k} moment` : row.k, left, width, `${clock(row.t)}, ${seconds(row.e)}`));
    return track;
  }

  function barOf(kind, left, width, title) {
    const bar = node("div", `bar ${kind}`);
    bar.style.left = `min(${(left * 100).toFixed(3)}%, calc(100% - 2px))`;
    bar.style.width = `${(width * 100).toFixed(3)}%`;
    bar.title = title;
    return bar;
  }

  function detailsOf(index) {
    const row = rows[index];
    const details = node("div", "details");
    details.addEventListener("click", (event) => event.stopPropagation());
    const facts = [];
    if (row.t !== undefined) facts.push(`began ${clock(row.t)}`);
    if (row.e !== undefined) facts.push(`took ${seconds(row.e)}`);
    if (row.tok) facts.push(tokensLong(row.tok));
    if (row.cost) facts.push(`cost ${money(row.cost)}`);
    if (row.spent) for (const kind of ["model", "tool", "approval", "other"]) facts.push(`${kind}: ${seconds(row.spent[kind])}`);
    if (facts.length) {
      const legend = node("div", "legend");
      facts.forEach((fact) => legend.append(node("span", "", fact)));
      details.append(legend);
    }
    (row.p || []).forEach(([label, kind, text]) => {
      details.append(node("h2", "", label));
      const box = node(kind === "markdown" ? "div" : "pre", kind);
      box.tabIndex = 0;
      details.append(box);
      const lines = plain(text).replace(/\n$/, "").split("\n");
      write(box, kind, lines.slice(0, CHUNK));
      if (lines.length <= CHUNK) return;
      const button = node("button", "", `show all ${count(lines.length)} lines`);
      button.type = "button";
      button.addEventListener("click", () => {
        button.remove();
        if (kind === "markdown") box.replaceChildren();
        write(box, kind, kind === "markdown" ? lines : lines.slice(CHUNK), true);
        measure(place.get(index), place.get(index) + 1, view.scrollTop);
      });
      details.append(button);
    });
    return details;
  }

  // Markdown of a model, which may be hostile: only elements without addresses are made, links stay text, and no word is hidden.
  // Each expression stops where its kind of text could begin again, so that no text takes longer than its length.
  const INLINE = /`[^`\n]+`|\*\*[^*\n]+\*\*|\*[^*\s][^*\n]*\*|\[[^[\]\n]+\]\([^()\s]+\)/g;
  function inline(element, text) {
    let from = 0;
    for (const found of text.matchAll(INLINE)) {
      const whole = found[0];
      put(element, text.slice(from, found.index));
      from = found.index + whole.length;
      if (whole[0] === "`") element.append(put(node("code"), whole.slice(1, -1)));
      else if (whole.startsWith("**")) element.append(inline(node("strong"), whole.slice(2, -2)));
      else if (whole[0] === "*") element.append(inline(node("em"), whole.slice(1, -1)));
      else {
        const middle = whole.indexOf("](");
        const [label, address] = [whole.slice(1, middle), whole.slice(middle + 2, -1)];
        put(element, label === address ? address : `${label} (${address})`);
      }
    }
    return put(element, text.slice(from));
  }

  const FENCE = /^ {0,3}(`{3,}|~{3,})[\w+#.-]{0,30} *$/, HEAD = /^ {0,3}(#{1,6}) +/, ITEM = /^( {0,12})(?:[-*+]|(\d{1,9})[.)]) +/, QUOTE = /^ {0,3}> ?/;
  function markdown(box, lines) {
    for (let number = 0; number < lines.length; number++) {
      const line = lines[number], fence = FENCE.exec(line), head = HEAD.exec(line), item = ITEM.exec(line);
      if (fence) {
        let end = number + 1;
        const closes = (next) => next.startsWith(fence[1]) && !next.replaceAll(fence[1][0], "");
        while (end < lines.length && !closes(lines[end].trim())) end++;
        box.append(put(node("pre"), lines.slice(number + 1, end).join("\n")));
        number = end;
      } else if (/^ {0,3}(\* *){3,}$|^ {0,3}(- *){3,}$/.test(line.slice(0, 80)) && line.length < 80) {
        box.append(node("hr"));
      } else if (head) {
        box.append(inline(node(`h${Math.min(head[1].length + 2, 6)}`), line.slice(head[0].length)));
      } else if (item) {
        const made = inline(node("p", "item", `${item[2] ? `${item[2]}.` : "•"} `), line.slice(item[0].length));
        made.style.marginLeft = `${item[1].length * 8 + 8}px`;
        box.append(made);
      } else if (line.startsWith("|")) { // a table stays as it was written
        let end = number;
        while (end < lines.length && lines[end].startsWith("|")) end++;
        box.append(put(node("pre"), lines.slice(number, end).join("\n")));
        number = end - 1;
      } else if (line.trim()) {
        let end = number + 1;
        const isPlain = (next) => next.trim() && ![FENCE, HEAD, ITEM].some((form) => form.test(next)) && !next.startsWith("|")
          && QUOTE.test(next) === QUOTE.test(line);
        while (end < lines.length && isPlain(lines[end])) end++;
        const text = lines.slice(number, end).map((each) => each.replace(QUOTE, "")).join("\n");
        box.append(inline(node(QUOTE.test(line) ? "blockquote" : "p"), text));
        number = end - 1;
      }
    }
  }

  function write(box, kind, lines, isMore) {
    if (kind === "markdown") {
      markdown(box, lines);
      return;
    }
    if (kind !== "diff") {
      put(box, (isMore ? "\n" : "") + lines.join("\n"));
      return;
    }
    lines.forEach((line) => {
      const isHead = line.startsWith("+++") || line.startsWith("---");
      const sort = isHead || line.startsWith("@@") || line.startsWith("***") ? "hunk" : line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : "same";
      box.append(put(node("span", sort), line || " "));
    });
  }

  // Actions
  function redraw(index) {
    const element = drawn.get(index);
    if (element) element.remove();
    drawn.delete(index);
    layOut();
    draw();
  }

  function toggle(index, wanted) {
    const row = rows[index];
    if (!row.p && !isTurn(row)) { draw(); return; }
    const opens = wanted === undefined ? !open.has(index) : wanted;
    if (opens) open.add(index); else open.delete(index);
    heights.delete(index);
    redraw(index);
  }

  function fold(index, wanted) {
    if (wanted) folded.add(index); else folded.delete(index);
    choose();
  }

  function move(position) {
    if (!shown.length) return;
    at = Math.max(0, Math.min(position, shown.length - 1));
    const top = tops[at], bottom = tops[at] + LINE;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (bottom > view.scrollTop + view.clientHeight) view.scrollTop = bottom - view.clientHeight;
    draw();
  }

  function find(step, fits) {
    for (let position = at + step; position >= 0 && position < shown.length; position += step)
      if (fits(rows[shown[position]])) { move(position); return; }
  }

  const keys = {
    ArrowDown: () => move(at + 1), j: () => move(at + 1),
    ArrowUp: () => move(at - 1), k: () => move(at - 1),
    PageDown: () => move(at + Math.max(1, Math.floor(view.clientHeight / LINE) - 1)),
    PageUp: () => move(at - Math.max(1, Math.floor(view.clientHeight / LINE) - 1)),
    Home: () => move(0), End: () => move(shown.length - 1),
    Enter: () => toggle(shown[at]), " ": () => toggle(shown[at]),
    ArrowRight: () => {
      const index = shown[at];
      if (folded.has(index)) fold(index, false); else toggle(index, true);
    },
    ArrowLeft: () => {
      const index = shown[at], row = rows[index];
      if (open.has(index)) toggle(index, false);
      else if (isTurn(row)) fold(index, true);
      else if (row.turn !== undefined) move(place.get(row.turn));
    },
    n: () => find(1, isTurn), p: () => find(-1, isTurn),
    f: () => find(1, (row) => Boolean(row.s) && !isTurn(row)),
  };
  view.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== view) return;
    const action = shown.length ? keys[event.key] : undefined;
    if (!action) return;
    event.preventDefault();
    action();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && event.target !== $("search") && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      $("search").focus();
    }
  });
  let waiting = 0;
  $("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { query = $("search").value; choose(); }, 80);
  });
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "Escape") { $("search").value = query = ""; choose(); view.focus(); }
    if (event.key === "Enter" || event.key === "ArrowDown") { event.preventDefault(); view.focus(); }
  });
  $("failed").addEventListener("click", () => {
    failedOnly = !failedOnly;
    $("failed").setAttribute("aria-pressed", String(failedOnly));
    choose();
  });
  $("expand").addEventListener("click", () => { shown.forEach((index) => { if (rows[index].p) open.add(index); }); forget(); layOut(); draw(); });
  $("collapse").addEventListener("click", () => { open.clear(); heights.clear(); forget(); layOut(); draw(); });

  // Head
  const THEMES = ["system", "light", "dark"];
  let theme = 0;
  function showTheme() {
    if (theme) document.documentElement.dataset.theme = THEMES[theme]; else delete document.documentElement.dataset.theme;
    $("theme").textContent = `theme: ${THEMES[theme]}`;
  }
  $("theme").addEventListener("click", () => { theme = (theme + 1) % THEMES.length; showTheme(); });
  showTheme();
  $("title").textContent = plain(data.title);
  $("facts").textContent = data.facts.map(([name, value]) => `${name}: ${plain(value)}`).join("  ·  ");
  data.warnings.forEach((warning) => $("warnings").append(node("li", "", plain(warning))));

  function total(label, value) {
    const pair = node("div");
    pair.append(node("dt", "", label), node("dd", "", value));
    $("totals").append(pair);
  }
  const turns = rows.filter(isTurn);
  const sum = (value) => turns.reduce((whole, turn) => whole + (value(turn) || 0), 0);
  total("turns", count(turns.length));
  total("time in turns", seconds(sum((turn) => turn.e)));
  [["model", "model"], ["tool", "tools"], ["approval", "approvals"], ["other", "waiting and other"]].forEach(([kind, label]) =>
    total(label, seconds(sum((turn) => turn.spent && turn.spent[kind]))));
  if (turns.some((turn) => turn.tok)) {
    ["input tokens", "cached", "output tokens", "reasoning"].forEach((label, position) =>
      total(label, count(sum((turn) => turn.tok && turn.tok[position]))));
  }
  const cost = {};
  turns.forEach((turn) => Object.entries(turn.cost || {}).forEach(([currency, amount]) => { cost[currency] = (cost[currency] || 0) + amount; }));
  if (Object.keys(cost).length) total("cost", money(cost) + (data.unpriced.length ? `, without ${plain(data.unpriced.join(", "))}` : ""));
  const kinds = new Map();
  rows.forEach((row) => { if (row.k !== "turn" && row.k !== "thread") kinds.set(row.k, (kinds.get(row.k) || 0) + 1); });
  kinds.forEach((number, kind) => {
    const button = node("button", "", `${kind} ${count(number)}`);
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      if (hiddenKinds.has(kind)) hiddenKinds.delete(kind); else hiddenKinds.add(kind);
      button.setAttribute("aria-pressed", String(!hiddenKinds.has(kind)));
      choose();
    });
    $("kinds").append(button);
  });
  if (kinds.has("context")) $("kinds").children[[...kinds.keys()].indexOf("context")].click();

  let frame = 0;
  view.addEventListener("scroll", () => {
    if (!frame) frame = requestAnimationFrame(() => { frame = 0; draw(); });
  }, { passive: true });
  let width = 0;
  new ResizeObserver(() => {
    if (view.clientWidth !== width) { width = view.clientWidth; heights.clear(); layOut(); }
    draw();
  }).observe(view);
  choose();
  view.focus();
})();
