"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  // Colours: as the system says, until the reader chooses.
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const remembered = () => {
    try { return localStorage.getItem("outcode-theme"); } catch { return null; }
  };
  const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const show = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(dark()));
  };
  if (["dark", "light"].includes(remembered())) root.dataset.theme = remembered();
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("outcode-theme", root.dataset.theme); } catch { /* not kept */ }
    show();
  });
  system.addEventListener("change", show);
  show();

  // Tables: a click on a head sorts by it, a second one turns the order; no value comes last.
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
  };
  const text = (row, column) => row.cells[column].firstChild.textContent.trim();
  const order = (column, numeric, sign) => (a, b) => {
    if (!numeric) return sign * text(a, column).localeCompare(text(b, column), "en", { numeric: true });
    const [x, y] = [value(a, column), value(b, column)];
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (x - y);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const press = document.createElement("button");
      press.type = "button";
      press.append(...head.childNodes);
      head.append(press);
      press.addEventListener("click", () => {
        const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        body.append(...[...body.rows].sort(order(column, head.classList.contains("n"), sign)));
      });
    });
  }

  // Panels: the first is shown, a tab for each; arrows move between tabs.
  let number = 0;
  for (const panels of document.querySelectorAll(".panels")) {
    const all = [...panels.children];
    if (all.length < 2) continue;
    const list = document.createElement("div");
    list.className = "tabs";
    list.setAttribute("role", "tablist");
    const tabs = all.map((panel) => {
      const tab = document.createElement("button");
      number += 1;
      tab.type = "button";
      tab.id = `tab-${number}`;
      panel.id = `panel-${number}`;
      tab.textContent = panel.firstElementChild.textContent;
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", panel.id);
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", tab.id);
      panel.removeAttribute("aria-label");
      list.append(tab);
      return tab;
    });
    const choose = (chosen) => tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === chosen));
      tab.tabIndex = i === chosen ? 0 : -1;
      all[i].classList.toggle("away", i !== chosen);
    });
    tabs.forEach((tab, i) => tab.addEventListener("click", () => choose(i)));
    list.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = (tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length;
      choose(next);
      tabs[next].focus();
      event.preventDefault();
    });
    panels.prepend(list);
    choose(0);
  }

  // Copying and saving.
  for (const copy of document.querySelectorAll(".copy")) {
    const line = copy.previousElementSibling;
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(line.textContent);
      } catch {
        getSelection().selectAllChildren(line);
        document.execCommand("copy");
      }
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    });
  }
  const save = document.getElementById("save");
  if (save) save.addEventListener("click", () => {
    const file = new Blob([document.getElementById("summary").textContent], { type: "application/json" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = "report.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });

  // Where the reader is.
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(entry.target.id).setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  document.querySelectorAll(".section").forEach((section) => seen.observe(section));
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((fold) => { fold.open = true; });
  });
})();
