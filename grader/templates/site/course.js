// What a page does without a kernel: widgets drawn ahead, predictions that ask first, copies of code, reading progress.
"use strict";

const course = {
  waiting: {}, // name of a widget -> what its file is handed to

  // a widget's file calls this: {lines: [...], frames: a list for the values of each slider in turn, innermost of numbers of lines}
  states(name, drawn) {
    course.waiting[name](drawn);
  },

  // localStorage, and nothing where a browser forbids it
  recall(key) {
    try { return JSON.parse(localStorage.getItem(`course.${key}`)); } catch { return null; }
  },
  remember(key, value) {
    try { localStorage.setItem(`course.${key}`, JSON.stringify(value)); } catch { /* a private window */ }
  },
};

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// ---------------------------------------------------------------- widgets

// <div class="states" data-name data-file> with an <input type="range"> for each control, and the first state's figure
function widget(box) {
  const { name, file } = box.dataset;
  const sliders = [...box.querySelectorAll("input[type=range]")];
  const shown = box.querySelector(".state");
  let loaded = null;
  const load = () => loaded ??= new Promise((resolve) => {
    course.waiting[name] = resolve;
    document.head.append(element("script", { src: file }));
  });
  const label = (slider) => {
    const said = slider.dataset.values.split("|")[slider.value];
    slider.setAttribute("aria-valuetext", said);
    slider.parentElement.querySelector(".value").textContent = said;
  };
  const draw = async () => {
    sliders.forEach(label);
    const drawn = await load();
    let part = drawn.frames;
    for (const slider of sliders) {
      slider.max = part.length - 1; // an earlier one may decide where it ends
      label(slider);
      part = part[slider.value];
    }
    shown.innerHTML = part.map((i) => drawn.lines[i]).join("\n");
  };
  for (const slider of sliders) {
    slider.addEventListener("pointerdown", load);
    slider.addEventListener("focus", load);
    slider.addEventListener("input", draw);
  }
  for (const button of box.querySelectorAll("button[data-to]")) {
    button.addEventListener("click", () => {
      sliders[0].value = button.dataset.to;
      draw();
    });
  }
  const play = box.querySelector("button.play");
  let clock = null;
  play?.addEventListener("click", () => {
    const slider = sliders.find((each) => each.dataset.plays !== undefined);
    const stop = () => {
      clearInterval(clock);
      clock = null;
      play.textContent = "▶ play";
    };
    if (clock) return stop();
    play.textContent = "■ stop";
    if (slider.value === slider.max) slider.value = 0;
    else slider.stepUp();
    draw();
    clock = setInterval(() => {
      if (Number(slider.value) >= Number(slider.max)) return stop();
      slider.stepUp();
      draw();
    }, 800);
  });
  sliders.forEach(label);
}

// ---------------------------------------------------------------- predictions

// A cell to fill in: the outputs of the next cell wait for an answer, which stays in this browser.
function prediction(cell) {
  const name = cell.textContent.match(/(\w+)\s*=\s*\.\.\./)?.[1];
  const next = cell.nextElementSibling;
  const outputs = next?.matches(".cell") ? next.querySelector(".cell_output") : null;
  if (!name || !outputs) return;
  const field = element("input", { type: "text", "aria-label": `your answer: ${name}`, autocomplete: "off" });
  const form = element("form", { class: "prediction" },
    element("label", {}, "Your answer ", field), element("button", {}, "Show what happens"));
  const answered = (value) => {
    outputs.hidden = false;
    form.replaceWith(element("p", { class: "prediction" }, `You wrote ${value}. The answer is below.`));
  };
  outputs.hidden = true;
  cell.append(form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!field.value.trim()) return field.focus();
    course.remember(`guess.${name}`, field.value.trim());
    answered(field.value.trim());
  });
  const before = course.recall(`guess.${name}`);
  if (before) answered(before);
}

// ---------------------------------------------------------------- code

function copying(block) {
  const button = element("button", { type: "button", class: "copy" }, "Copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("pre").innerText);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  block.append(button);
}

// ---------------------------------------------------------------- what was read

// An address that names a heading of a unit's other page leads there.
function follow() {
  const name = decodeURIComponent(location.hash.slice(1));
  const moved = JSON.parse(document.getElementById("moved")?.textContent ?? "{}");
  if (name && !document.getElementById(name) && moved[name]) location.replace(`${moved[name]}#${name}`);
}

const page = () => location.pathname.split("/").pop().replace(/\.html$/, "") || "index";

// The furthest that a unit was read, in percent, and where; shown beside its link in the menu.
function reading() {
  const read = course.recall("read") ?? {};
  const article = document.querySelector("article");
  if (/^\d\d_/.test(page()) && article) {
    const note = () => {
      const { top, height } = article.getBoundingClientRect();
      const percent = Math.min(100, Math.round((100 * (innerHeight - top)) / height));
      if (percent > (read[page()] ?? 0)) {
        read[page()] = percent;
        course.remember("read", read);
        marks(read);
      }
    };
    addEventListener("scroll", note, { passive: true });
  }
  marks(read);
}

// The page that a link of the menu leads to
function target(link) {
  const address = link.getAttribute("href");
  return address === "#" ? page() : address.split("/").pop().replace(/\.html.*$/, "");
}

function marks(read) {
  for (const link of document.querySelectorAll(".bd-docs-nav a.internal, .toctree-wrapper a.internal")) {
    const name = target(link);
    const others = [...document.querySelectorAll(`.bd-docs-nav a[href^="${name}-"]`)].map(target);
    const pages = [...new Set([name, ...others, ...(page().startsWith(`${name}-`) ? [page()] : [])])]; // of a unit: the first stands for all
    const percent = Math.round(pages.reduce((sum, each) => sum + (read[each] ?? 0), 0) / pages.length);
    link.querySelector(".read")?.remove();
    if (percent) link.append(element("span", { class: "read" }, percent >= 97 ? " ✓ read" : ` ${percent} %`));
  }
}

addEventListener("hashchange", follow);
addEventListener("DOMContentLoaded", () => {
  follow();
  document.documentElement.classList.add("scripted");
  document.querySelectorAll(".states").forEach(widget);
  document.querySelectorAll(".tag_prediction").forEach(prediction);
  document.querySelectorAll("article div.highlight").forEach(copying);
  reading();
});
