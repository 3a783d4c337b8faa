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

  // Copying what stands in a box.
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = !navigator.clipboard;
  }
  document.addEventListener("click", async (event) => {
    const button = event.target instanceof Element && event.target.closest("button[data-copy]");
    const source = button && document.getElementById(button.dataset.copy);
    if (!source) return;
    try {
      await navigator.clipboard.writeText(source.textContent);
      const before = button.textContent;
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = before; }, 1500);
    } catch {
      // Without the right to do so there is still the selection.
    }
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

  // What somebody has selected is left alone until they are done with it.
  const selected = (region) => {
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
      const response = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
      if (response.redirected) {
        location.reload();
        return;
      }
      if (!response.ok) throw new Error(String(response.status));
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      for (const old of [...document.querySelectorAll("[data-live]")]) {
        const fresh = page.getElementById(old.id);
        if (fresh && !selected(old)) update(old, fresh);
      }
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
