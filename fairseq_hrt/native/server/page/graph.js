// The graph that a translation is a path of, as a picture: words from left to right, lines between them, the chosen path below.
"use strict";

const LEAST = 0.05; // vertices that are passed with less probability, and weaker lines, are left out
const drawn = (name, attributes, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};
const percent = (share) => `${Math.round(100 * share)} %`;

function drawGraph(graph, name) {
  const shown = graph.vertices.filter((vertex) => vertex.chosen || vertex.passing >= LEAST);
  const row = 26;
  const gap = 18;
  const places = new Map();
  let width = gap;
  for (const vertex of shown) {
    vertex.word = name(vertex.tokens[0].token);
    const size = Math.max(30, 9 * [...vertex.word].length + 14);
    places.set(vertex.vertex, { number: places.size, left: width, size, middle: width + size / 2 });
    width += size + gap;
  }
  const links = graph.links.filter((link) => places.has(link.from) && places.has(link.to) && (link.chosen || link.probability >= LEAST));
  // Lines over many words rise higher. The path runs below the words, all other ways above them.
  const rise = (link) => 14 + 9 * Math.min(places.get(link.to).number - places.get(link.from).number, 9);
  const highest = (some) => Math.max(14, ...some.map(rise));
  const top = highest(links.filter((link) => !link.chosen)) + 6;
  const height = top + row + highest(links.filter((link) => link.chosen)) + 6;
  const line = (link) => {
    const [from, to] = [places.get(link.from).middle, places.get(link.to).middle];
    const [start, bend] = link.chosen ? [top + row, top + row + 1.3 * rise(link)] : [top, top - 1.3 * rise(link)];
    const path = drawn("path", {
      d: `M ${from} ${start} C ${from} ${bend}, ${to} ${bend}, ${to} ${start}`, class: link.chosen ? "chosen" : "other",
      "stroke-width": (0.8 + 3.2 * link.probability).toFixed(1), "stroke-opacity": link.chosen ? 1 : (0.2 + 0.7 * link.probability).toFixed(2),
    });
    path.append(drawn("title", {}, `${percent(link.probability)}`));
    return path;
  };
  const word = (vertex) => {
    const place = places.get(vertex.vertex);
    const box = drawn("rect", { x: place.left, y: top, width: place.size, height: row, rx: 6 });
    const text = drawn("text", { x: place.middle, y: top + row / 2 + 5, "text-anchor": "middle" }, vertex.word);
    const group = drawn("g", { class: vertex.chosen ? "chosen" : "other", "fill-opacity": vertex.chosen ? 1 : 0.9 }, box, text);
    group.append(drawn("title", {}, `${vertex.word}: passed with ${percent(vertex.passing)}`));
    return group;
  };
  const path = shown.filter((vertex) => vertex.chosen).map((vertex) => vertex.word).join(" → ");
  const label = `Graph of ${graph.vertices.length} places for words, ${shown.length} of them shown. Chosen path: ${path}`;
  const order = [...links].sort((one, other) => one.chosen - other.chosen);
  return drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...order.map(line), ...shown.map(word));
}
