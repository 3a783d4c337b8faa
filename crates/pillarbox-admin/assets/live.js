"use strict";
// What the pages do more when there is JavaScript: they stay up to date, remember light or dark, and know a few keys.
// Everything can be read and done without it.

(() => {
  const root = document.documentElement;

  // Light, dark, or as the system has it.
  const THEMES = ["", "light", "dark"];
  const NAMES = { "": "Auto", light: "Light", dark: "Dark" };
  const themeButton = document.getElementById("theme");
  const showTheme = () => {
    themeButton.textContent = NAMES[root.dataset.theme || ""];
  };
  if (themeButton) {
    themeButton.hidden = false;
    showTheme();
    themeButton.addEventListener("click", () => {
      const next = THEMES[(THEMES.indexOf(root.dataset.theme || "") + 1) % THEMES.length];
      root.dataset.theme = next;
      const age = next === "" ? 0 : 31536000;
      document.cookie = `pillarbox_theme=${next}; Path=/; SameSite=Strict; Max-Age=${age}`;
      showTheme();
    });
  }

  // "/" goes to the search.
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input, textarea, select");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const search = document.getElementById("search");
    if (search) {
      event.preventDefault();
      search.focus();
      search.select();
    }
  });

  // The text at an address. Without a session the answer is a log-in page: it is shown, and never taken for the text.
  const read = async (address, options) => {
    const response = await fetch(address, options);
    if (response.redirected) location.reload();
    if (response.redirected || !response.ok) throw new Error(String(response.status));
    return response.text();
  };

  // Copying what stands in a box.
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = !navigator.clipboard;
  }
  document.addEventListener("click", async (event) => {
    const button = event.target instanceof Element && event.target.closest("button[data-copy]");
    const source = button && document.getElementById(button.dataset.copy);
    if (!source) return;
    button.dataset.name ||= button.textContent;
    try {
      const whole = button.dataset.copyFrom;
      await navigator.clipboard.writeText(whole ? await read(whole) : source.textContent);
      button.textContent = "Copied";
    } catch {
      // Without the right to do so there is still the selection.
      button.textContent = "Not copied";
    }
    setTimeout(() => { button.textContent = button.dataset.name || button.textContent; }, 1500);
  });

  // Fields that are not filled in make no part of a link.
  for (const form of document.querySelectorAll("form[data-tidy]")) {
    form.addEventListener("submit", () => {
      for (const field of form.elements) {
        if (field.name && field.value === "") field.disabled = true;
      }
    });
  }
  window.addEventListener("pageshow", () => {
    for (const field of document.querySelectorAll("form[data-tidy] :disabled")) field.disabled = false;
  });

  // The values of a chart, at the pointer, at a finger, or at the keys. Without a script the browser shows them, and a table does.
  const charts = () => {
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    document.body.append(tip);
    root.classList.add("scripted");
    let shown = null;
    let index = 0;
    const columnsOf = (chart) => [...chart.querySelectorAll(".column")];
    const hide = () => {
      if (shown) columnsOf(shown).forEach((column) => column.classList.remove("pointed"));
      shown = null;
      tip.hidden = true;
    };
    const show = (chart, wanted) => {
      const columns = columnsOf(chart);
      if (!columns.length) return;
      hide();
      shown = chart;
      index = Math.max(0, Math.min(columns.length - 1, wanted));
      const column = columns[index];
      const { when, values } = column.dataset;
      column.classList.add("pointed");
      const name = document.createElement("strong");
      name.textContent = when;
      tip.replaceChildren(name, values);
      tip.hidden = false;
      const box = column.getBoundingClientRect();
      const left = box.left + box.width / 2 < document.documentElement.clientWidth / 2
        ? box.right + 8
        : box.left - tip.offsetWidth - 8;
      tip.style.left = `${Math.max(4, left) + window.scrollX}px`;
      tip.style.top = `${box.top + window.scrollY + 6}px`;
      chart.setAttribute("aria-valuemax", String(columns.length - 1));
      chart.setAttribute("aria-valuenow", String(index));
      chart.setAttribute("aria-valuetext", `${when}: ${values.replaceAll("\n", ", ")}`);
    };
    const at = (chart, event) => {
      const box = chart.querySelector(".shapes").getBoundingClientRect();
      const share = (event.clientX - box.left) / box.width;
      if (share < 0 || share >= 1) hide();
      else show(chart, Math.floor(share * columnsOf(chart).length));
    };
    const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };
    for (const chart of document.querySelectorAll("[data-chart]")) {
      const last = columnsOf(chart).length - 1;
      chart.tabIndex = 0;
      chart.setAttribute("role", "slider");
      chart.setAttribute("aria-labelledby", chart.dataset.chart);
      chart.setAttribute("aria-readonly", "true");
      chart.setAttribute("aria-valuemin", "0");
      chart.setAttribute("aria-valuemax", String(Math.max(0, last)));
      chart.setAttribute("aria-valuenow", String(Math.max(0, last)));
      chart.addEventListener("pointermove", (event) => at(chart, event));
      chart.addEventListener("pointerdown", (event) => at(chart, event));
      chart.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
      chart.addEventListener("focus", () => { if (chart.matches(":focus-visible")) show(chart, columnsOf(chart).length - 1); });
      chart.addEventListener("blur", () => { if (shown === chart) hide(); });
      chart.addEventListener("keydown", (event) => {
        const end = { Home: 0, End: Infinity }[event.key];
        if (event.key === "Escape") hide();
        else if (end !== undefined) show(chart, end);
        else if (event.key in STEPS) show(chart, index + STEPS[event.key]);
        else return;
        event.preventDefault();
      });
    }
    // A page that was updated has new values.
    document.addEventListener("pillarbox:updated", () => { if (shown) show(shown, index); });
    document.addEventListener("pointerdown", (event) => { if (shown && !shown.contains(event.target)) hide(); });
  };
  if (document.querySelector("[data-chart]")) charts();

  // Regions with data-live are fetched anew every few seconds, while somebody looks.
  const seconds = Number(document.body.dataset.refresh || 0);
  const button = document.getElementById("live");
  if (!seconds || !button) return;
  let on = true;
  let busy = false;
  button.hidden = false;
  const word = button.querySelector("span:last-child");
  const show = (lost) => {
    button.setAttribute("aria-pressed", String(on));
    button.classList.toggle("lost", lost);
    word.textContent = lost ? "No response" : on ? "Live" : "Stopped";
  };
  show(false);
  button.addEventListener("click", () => {
    on = !on;
    show(false);
    if (on) refresh();
  });

  // What somebody has selected or ticked is left alone until they are done with it.
  const selected = (region) => {
    if (region.querySelector(".pick :checked")) return true;
    const selection = document.getSelection();
    if (!selection || selection.isCollapsed || !selection.rangeCount) return false;
    return selection.getRangeAt(0).intersectsNode(region);
  };

  // Only what is different is changed, so that focus, open details, scrolling and typed text stay as they are.
  const KEYS = ["event", "job", "audit", "group", "relay", "destination"];
  const keyOf = (node) => {
    if (node.nodeType !== Node.ELEMENT_NODE) return "";
    return node.id || KEYS.map((name) => node.dataset[name]).find(Boolean) || "";
  };
  const update = (old, fresh) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open" && name !== "hidden") old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value && !(name === "hidden" && old.dataset.copy)) old.setAttribute(name, value);
    }
    updateChildren(old, fresh);
  };
  const updateChildren = (old, fresh) => {
    const known = new Map([...old.children].map((child) => [keyOf(child), child]));
    const kept = new Set([...fresh.children].map(keyOf).filter(Boolean));
    let at = old.firstChild;
    const drop = () => {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    };
    for (const next of fresh.childNodes) {
      const key = keyOf(next);
      const match = key ? known.get(key) : undefined;
      while (at && at !== match && (match || keyOf(at)) && !kept.has(keyOf(at))) drop();
      const same = match || (at && !key && !keyOf(at) && at.nodeName === next.nodeName ? at : undefined);
      if (!same || same.nodeName !== next.nodeName) {
        old.insertBefore(document.importNode(next, true), at);
        continue;
      }
      if (same === at) at = at.nextSibling;
      else old.insertBefore(same, at);
      update(same, next);
    }
    while (at) drop();
  };

  async function refresh() {
    if (!on || busy || document.hidden) return;
    busy = true;
    try {
      const text = await read(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
      const page = new DOMParser().parseFromString(text, "text/html");
      // The log-in page of a proxy may come without a redirect.
      if (!page.getElementById("who")) {
        location.reload();
        return;
      }
      for (const old of [...document.querySelectorAll("[data-live]")]) {
        const fresh = page.getElementById(old.id);
        if (fresh && !selected(old)) update(old, fresh);
      }
      document.dispatchEvent(new Event("pillarbox:updated"));
      // A page that has come to its end asks no more.
      if (!page.body.dataset.refresh) {
        on = false;
        button.hidden = true;
      }
      show(false);
    } catch {
      show(true);
    } finally {
      busy = false;
    }
  }
  setInterval(refresh, seconds * 1000);
  document.addEventListener("visibilitychange", refresh);
})();

// Keys: from row to row, from page to page, and the list of keys.
(() => {
  const dialog = document.getElementById("keys");
  const help = document.getElementById("help");
  const showKeys = () => {
    if (!dialog.open) dialog.showModal();
  };
  if (dialog && help) {
    help.hidden = false;
    help.addEventListener("click", showKeys);
  }

  const links = () => [...document.querySelectorAll("table[data-keys] a[data-open]")];
  const move = (by) => {
    const all = links();
    const here = all.findIndex((link) => link.closest("tr").contains(document.activeElement));
    const next = all[here === -1 ? (by > 0 ? 0 : all.length - 1) : here + by];
    if (next) next.focus();
  };
  const choose = () => {
    const row = document.activeElement.closest("table[data-keys] tr");
    const box = row && row.querySelector(".pick input");
    if (box) box.click();
  };
  const follow = (id) => {
    const link = document.getElementById(id);
    if (link) link.click();
  };
  const keys = {
    j: () => move(1),
    k: () => move(-1),
    x: choose,
    n: () => follow("next"),
    p: () => follow("previous"),
    "?": showKeys,
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, dialog");
    const key = keys[event.key];
    if (!key || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    key();
  });
})();

// Chosen rows: how many there are, and all at once.
(() => {
  const form = document.getElementById("chosen");
  if (!form) return;
  const boxes = () => [...document.querySelectorAll(".pick input")];
  const all = document.getElementById("choose-all");
  const word = document.getElementById("chosen-count");
  const show = () => {
    const count = boxes().filter((box) => box.checked).length;
    all.checked = count > 0 && count === boxes().length;
    all.indeterminate = count > 0 && !all.checked;
    word.textContent = count ? `${count} chosen` : "";
    for (const button of form.querySelectorAll("button")) button.disabled = count === 0;
  };
  all.closest("label").hidden = false;
  all.addEventListener("change", () => {
    for (const box of boxes()) box.checked = all.checked;
    show();
  });
  document.addEventListener("change", (event) => {
    if (event.target instanceof Element && event.target.closest(".pick")) show();
  });
  // A page from the browser's history keeps its boxes.
  window.addEventListener("pageshow", show);
  show();
})();
