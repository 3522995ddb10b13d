// Sectors of 32 bytes that 32 lanes of a warp touch, counted in the page.
"use strict";

const LANES = 32, SECTOR = 32;

// Lane i reads `itemsize` bytes from byte itemsize * (offset + stride * i): {sectors, wanted}, the bytes that are different.
function sectorsTouched(stride, offset, itemsize) {
  const sectors = new Set(), wanted = new Set();
  for (let lane = 0; lane < LANES; lane++) {
    const first = itemsize * (offset + stride * lane);
    for (let byte = first; byte < first + itemsize; byte++) {
      wanted.add(byte);
      sectors.add(Math.floor(byte / SECTOR));
    }
  }
  return { sectors, wanted };
}

function sectorsDrawn(box) {
  const controls = Object.fromEntries([...box.querySelectorAll("input, select")].map((each) => [each.name, each]));
  const map = box.querySelector("svg"), said = box.querySelector("p");
  const draw = () => {
    const [stride, offset, itemsize] = ["stride", "offset", "itemsize"].map((name) => Number(controls[name].value));
    const { sectors, wanted } = sectorsTouched(stride, offset, itemsize);
    for (const name of ["stride", "offset"]) controls[name].parentElement.querySelector(".value").textContent = controls[name].value;
    const last = Math.max(...sectors) + 1, across = Math.min(32, Math.max(16, last)), side = 18;
    map.setAttribute("viewBox", `0 0 ${across * side} ${Math.ceil(last / across) * side}`);
    const used = new Map();
    for (const byte of wanted) used.set(Math.floor(byte / SECTOR), (used.get(Math.floor(byte / SECTOR)) ?? 0) + 1);
    map.innerHTML = Array.from({ length: last }, (_, sector) => {
      const x = (sector % across) * side + 1, y = Math.floor(sector / across) * side + 1, high = side - 2;
      const part = (high * (used.get(sector) ?? 0)) / SECTOR;
      return `<rect class="${sectors.has(sector) ? "fetched" : "idle"}" x="${x}" y="${y}" width="${high}" height="${high}"/>` +
        (part ? `<rect class="wanted" x="${x}" y="${y + high - part}" width="${high}" height="${part}"/>` : "");
    }).join("");
    const moved = SECTOR * sectors.size;
    said.innerHTML = `<b>${sectors.size} sectors</b>, ${moved.toLocaleString("en")} bytes moved for the ${wanted.size} wanted: ` +
      `<b>${((100 * wanted.size) / moved).toFixed(1)} %</b> of them is used.`;
  };
  box.addEventListener("input", draw);
  box.addEventListener("click", (event) => {
    if (!event.target.dataset.stride) return;
    controls.stride.value = event.target.dataset.stride;
    draw();
  });
  draw();
}

addEventListener("DOMContentLoaded", () => document.querySelectorAll(".sectors").forEach(sectorsDrawn));
