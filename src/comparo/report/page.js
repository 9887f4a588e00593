{
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const AT_FIRST = 100;
  const MORE = 500;
  const TOP = 10;
  const OPPONENTS = 60;

  const views = data.contexts.map((context) => ({ ...context, columns: data.candidates }));
  const mean = data.mean && { ...data.mean_view, columns: data.mean };
  let view = mean || views[0];
  let sort = "score";
  let direction = -1;
  let limit = AT_FIRST;

  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const isolated = (text) => make("bdi", "", text);
  const number = (value, digits = 2) => (Number(value.toFixed(digits)) || 0).toFixed(digits).replace("-", "−");
  const value = (one) => (Number.isInteger(one) || typeof one !== "number" ? String(one ?? "unknown") : number(one));
  const percent = (value) => `${((100 * (value - view.low)) / (view.high - view.low)).toFixed(2)}%`;

  // The beginning of a text, beside a name that says nothing.
  const snippet = (row) => view.columns.begun?.[row] ?? "";

  // The texts to search, in lower case, made when they are first needed.
  let lowered = null;
  const matches = (row, query) => {
    if (!query) return true;
    if (view.columns.item[row].toLowerCase().includes(query)) return true;
    if (view === mean) return false;
    lowered ??= data.candidates.text.map((text) => text.toLowerCase());
    return lowered[row].includes(query);
  };

  const rows = (query) => {
    const column = view.columns[sort];
    const found = [];
    for (let row = view.begin; row < view.end; row++) if (matches(row, query)) found.push(row);
    if (sort === "score") return direction < 0 ? found : found.reverse();
    const compare =
      sort === "item"
        ? (a, b) => column[a].localeCompare(column[b], undefined, { numeric: true })
        : (a, b) => (column[a] ?? Infinity) - (column[b] ?? Infinity);
    return found.sort((a, b) => direction * compare(a, b) || a - b);
  };

  const blank = byId("line").content.firstElementChild;
  const line = (row, before) => {
    const { columns } = view;
    const element = blank.cloneNode(true);
    const [rank, item, tier, picture, score, std, comparisons] = element.cells;
    const odd = columns.tier[row] % 2 === 1;
    const begins = before !== undefined && sort === "score" && columns.tier[before] !== columns.tier[row];
    const ends = sort === "score" && direction < 0 && columns.p_best && row - view.begin === data.best - 1;
    element.className = `line tier-${odd ? "odd" : "even"}${begins ? " begins" : ""}${ends ? " last" : ""}`;
    rank.firstChild.data = columns.rank[row];
    const own = columns.judge_rank ? ` · judge ${columns.judge_rank[row]}` : "";
    if (columns.best) rank.lastChild.textContent = `${columns.best[row]}–${columns.worst[row]}${own}`;
    item.querySelector("bdi").textContent = columns.item[row];
    item.querySelector(".begun").textContent = snippet(row);
    const group = view.groups > 1 ? `group ${columns.group[row]} ` : "";
    const among = columns.p_best ? `${Math.round(100 * columns.p_best[row])}% among the best ${data.best}` : "";
    item.lastChild.textContent = group + among;
    item.firstElementChild.addEventListener("click", () => toggle(element, row));
    tier.firstChild.textContent = columns.tier[row];
    const [zero, interval, point] = picture.firstElementChild.children;
    for (const end of ["x1", "x2"]) zero.setAttribute(end, percent(0));
    interval.setAttribute("x1", percent(columns.low[row] ?? columns.score[row]));
    interval.setAttribute("x2", percent(columns.high[row] ?? columns.score[row]));
    point.setAttribute("cx", percent(columns.score[row]));
    score.textContent = number(columns.score[row], view.digits);
    std.textContent = columns.low[row] === null ? "–" : number(columns.high[row] - columns.score[row], view.digits);
    comparisons.textContent = columns.comparisons[row].toLocaleString("en");
    return element;
  };

  const show = () => {
    const query = byId("search").value.trim().toLowerCase();
    const found = rows(query);
    const shown = found.slice(0, limit);
    byId("lines").replaceChildren(...shown.map((row, place) => line(row, shown[place - 1])));
    const size = view.end - view.begin;
    byId("count").textContent = query ? `${found.length.toLocaleString("en")} of ${size.toLocaleString("en")}` : "";
    byId("more").hidden = shown.length === found.length;
    byId("more").textContent = `Show ${Math.min(MORE, found.length - shown.length)} more of ${found.length.toLocaleString("en")}`;
    for (const head of document.querySelectorAll(".ranking th")) {
      const key = head.querySelector("button")?.dataset.sort;
      if (key === sort) head.setAttribute("aria-sort", direction < 0 ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  };

  const toggle = (element, row) => {
    const button = element.querySelector("button");
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) {
      element.nextElementSibling.remove();
      return;
    }
    const opened = make("tr", "opened");
    const cell = opened.appendChild(make("td"));
    cell.colSpan = 7;
    if (view === mean) {
      const { contexts, texts, firsts, sure, wins } = data.mean;
      const first = contexts[row] > 1 ? ` Best in about ${firsts[row]} of ${contexts[row]} contexts.` : "";
      const share = `Its texts win ${Math.round(100 * wins[row])}% against those of the others.`;
      const best = `It is the best with a probability of ${Math.round(100 * sure[row])}%.`;
      const read = data.candidates.characters.some(Boolean) ? " Choose a context above to read texts." : "";
      cell.append(make("p", "against", `${texts[row]} texts. ${share}${first} ${best}${read}`));
    } else {
      cell.append(...story(row));
    }
    element.after(opened);
  };

  const story = (row) => {
    const text = make("div", "text", data.candidates.text[row]);
    text.dir = "auto";
    const parts = data.candidates.characters[row] ? [text] : [];
    const left = data.candidates.characters[row] - Array.from(data.candidates.text[row]).length;
    if (left > 0) {
      text.append("…");
      parts.push(make("p", "against", `${left.toLocaleString("en")} more characters are not in this page.`));
    }
    const people = Object.keys(data.candidates).filter((name) => name.startsWith("people: "));
    const known = people.filter((name) => data.candidates[name][row] !== null);
    if (known.length) {
      const scores = known.map((name) => `${name.slice(8)} ${number(data.candidates[name][row])}`);
      parts.push(make("p", "against", `People's scores: ${scores.join(", ")}`));
    }
    const more = Object.entries(data.words).map(([name, words]) => `${words} = ${value(data.candidates[name][row])}`);
    if (more.length) parts.push(make("p", "against", `Also: ${more.join(", ")}`));
    if (row < data.judgements.whole) parts.push(opponents(row));
    return parts;
  };

  const opponents = (row) => {
    const { first, second, p } = data.judgements;
    const met = new Map();
    const add = (other, probability) => met.set(other, [...(met.get(other) ?? []), probability]);
    for (let k = 0; k < p.length; k++) {
      if (first[k] === row) add(second[k], p[k]);
      else if (second[k] === row) add(first[k], 1 - p[k]);
    }
    const means = Array.from(met, ([other, all]) => [other, all.reduce((sum, one) => sum + one, 0) / all.length]);
    means.sort((a, b) => b[1] - a[1]);
    const paragraph = make("p", "against", "Preferred, of 100 times, to: ");
    means.slice(0, OPPONENTS).forEach(([other, probability], place) => {
      paragraph.append(place ? ", " : "", isolated(data.candidates.item[other]), ` (${Math.round(100 * probability)})`);
    });
    if (means.length > OPPONENTS) paragraph.append(`, and ${means.length - OPPONENTS} more`);
    return paragraph;
  };

  // How often one of the best beats another: by their answers, and in the leaderboard by its estimates.
  const matrix = () => {
    const size = Math.min(TOP, view.end - view.begin);
    const { first, second, p, whole, top } = data.judgements;
    const unknown = view !== mean && view.end > whole && view.end > top;
    byId("matrix").hidden = unknown;
    byId("no-wins").hidden = !unknown;
    if (unknown) return;
    const empty = () => Array.from({ length: size }, () => new Array(size).fill(0));
    const [sum, calls] = [empty(), empty()];
    const inside = (place) => place >= 0 && place < size;
    for (let k = 0; view !== mean && k < p.length; k++) {
      const [i, j] = [first[k] - view.begin, second[k] - view.begin];
      if (!inside(i) || !inside(j)) continue;
      sum[i][j] += p[k];
      sum[j][i] += 1 - p[k];
      calls[i][j]++;
      calls[j][i]++;
    }
    const won = (i, j) => (view === mean ? data.mean_wins[i][j] : calls[i][j] ? sum[i][j] / calls[i][j] : null);
    const head = make("tr");
    const heading = (place) => {
      const cell = make("th", "", view.columns.rank[view.begin + place]);
      cell.scope = "col";
      cell.title = view.columns.item[view.begin + place];
      return cell;
    };
    head.append(make("td"), ...sum.map((_, place) => heading(place)));
    const body = sum.map((line, i) => {
      const tr = make("tr");
      const name = tr.appendChild(make("th"));
      name.scope = "row";
      name.append(`${view.columns.rank[view.begin + i]}. `, isolated(view.columns.item[view.begin + i]));
      const begun = snippet(view.begin + i);
      if (begun) name.append(make("small", "", ` ${begun}`));
      name.title = view.columns.item[view.begin + i];
      line.forEach((_, j) => {
        const cell = tr.appendChild(make("td"));
        if (i === j) return;
        const share = won(i, j);
        // Rounded once a pair, so that the two directions add to 100.
        const percents = (one, other) => (i < j ? Math.round(100 * one) : 100 - Math.round(100 * other));
        if (share === null) {
          if (view !== mean && view.columns.group[view.begin + i] === view.columns.group[view.begin + j]) {
            const d = view.columns.score[view.begin + i] - view.columns.score[view.begin + j];
            const likely = data.logits ? 1 / (1 + Math.exp(-d)) : Math.min(1, Math.max(0, 0.5 + d));
            cell.className = "expected";
            cell.textContent = percents(likely, 1 - likely);
          }
          return;
        }
        cell.textContent = percents(share, won(j, i));
        cell.title = share.toFixed(3);
        if (view !== mean) cell.title += ` in ${calls[i][j]} call${calls[i][j] > 1 ? "s" : ""}`;
        cell.style.setProperty("--hue", share > 0.5 ? "var(--blue)" : "var(--orange)");
        cell.style.setProperty("--share", `${(120 * Math.abs(share - 0.5)).toFixed(0)}%`);
      });
      return tr;
    });
    byId("matrix").replaceChildren(head, ...body);
  };

  const choose = (chosen) => {
    view = chosen;
    limit = AT_FIRST;
    byId("view").value = view === mean ? "mean" : String(views.indexOf(view));
    const axis = document.querySelector("th.picture svg");
    axis.replaceChildren(
      ...view.ticks.map(([at, text]) => {
        const tick = document.createElementNS("http://www.w3.org/2000/svg", "text");
        tick.setAttribute("x", `${at}%`);
        tick.setAttribute("y", "12");
        tick.textContent = text;
        return tick;
      }),
    );
    byId("context").hidden = !view.text;
    byId("context").lastElementChild.textContent = view.text || "";
    show();
    matrix();
  };

  const select = byId("view");
  if (mean) select.append(new Option("the leaderboard", "mean"));
  views.forEach((context, place) => select.append(new Option(context.label, place)));
  select.addEventListener("change", () => choose(select.value === "mean" ? mean : views[select.value]));
  for (const button of document.querySelectorAll("[data-view]")) {
    button.addEventListener("click", () => {
      choose(views[button.dataset.view]);
      byId("ranking").scrollIntoView();
    });
  }
  byId("search").addEventListener("input", show);
  byId("more").addEventListener("click", () => {
    limit += MORE;
    show();
  });
  for (const button of document.querySelectorAll("[data-sort]")) {
    button.addEventListener("click", () => {
      direction = sort === button.dataset.sort ? -direction : button.dataset.sort === "score" || button.dataset.sort === "std" ? -1 : 1;
      sort = button.dataset.sort;
      show();
    });
  }

  const theme = byId("theme");
  const dark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const name = () => (theme.textContent = dark() ? "Light" : "Dark");
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    name();
  });
  name();

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", () => {
      const range = document.createRange();
      range.selectNodeContents(button.previousElementSibling);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
    });
  }

  // Every table of the page as names of columns and rows, by the name of its buttons.
  const ranked = () => {
    const { columns, begin, end } = view;
    const names = Object.keys(columns).filter((name) => name !== (view === mean ? "group" : "begun"));
    const rows = Array.from({ length: end - begin }, (_, place) => names.map((name) => columns[name][begin + place]));
    return { names, rows };
  };
  const judged = () => {
    const { first, second, p, expected } = data.judgements;
    const { item } = data.candidates;
    const label = (row) => views.find((one) => row >= one.begin && row < one.end).label;
    const rows = p.map((one, k) => [label(first[k]), item[first[k]], item[second[k]], one, expected[k]]);
    return { names: ["context", "first", "second", "p", "expected"], rows };
  };
  const text = (element, selector) => element.querySelector(selector)?.textContent.trim() ?? "";
  const carded = () => {
    const rows = Array.from(document.querySelectorAll("#trust article"), (card) => {
      const verdict = text(card, ".verdict");
      const figure = text(card, ".figure").replace(verdict, "").trim();
      return [text(card, "h3"), figure, verdict, text(card, ".figure + p"), text(card, "details p")];
    });
    return { names: ["name", "figure", "verdict", "meaning", "source"], rows };
  };
  const set = () => {
    const rows = Array.from(document.querySelectorAll(".settings > div"), (one) => [text(one, "dt"), text(one, "dd")]);
    return { names: ["name", "value"], rows };
  };
  const agreed = () => {
    const rows = Array.from(document.querySelectorAll("#people dl > div"), (one) => {
      const interval = text(one, "small");
      const value = text(one, "dd").replace(interval, "").trim().replace("−", "-");
      return [text(one.closest("figure"), "figcaption"), text(one, "dt"), value, interval];
    });
    return { names: ["scores", "correlation", "value", "interval"], rows };
  };
  const tables = {
    ranking: ranked,
    judgements: judged,
    trust: carded,
    settings: set,
    people: agreed,
  };
  const called = `comparo-${document.title.replaceAll(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60).replace(/-$/, "")}`;
  for (const button of document.querySelectorAll("[data-save]")) {
    button.addEventListener("click", () => {
      const { save, type } = button.dataset;
      const table = tables[save] ? tables[save]() : shownTable(byId(`${save}-table`) ?? byId(save));
      const name = save === "ranking" && view === mean ? "leaderboard" : save;
      const part = save === "ranking" && view !== mean && views.length > 1 ? `-${views.indexOf(view) + 1}` : "";
      const made = type === "csv" ? ["text/csv", csvText(table)] : ["application/json", jsonText(table)];
      saveFile(`${called}-${name}${part}.${type}`, ...made);
    });
  }
  byId("save").addEventListener("click", () => {
    saveFile(`${called}.json`, "application/json", byId("data").textContent);
  });

  // On paper everything is unfolded, and what was folded is folded again afterwards.
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = Array.from(document.querySelectorAll("details:not([open])"));
    for (const details of unfolded) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of unfolded) details.open = false;
  });
  choose(view);
}
