// The page of the server: what is typed is translated by the chosen systems, and each translation can be followed step by step.
"use strict";

const PAUSE = 250; // milliseconds without a key before anything is sent
const STEP = 350; // milliseconds of a step when all systems are watched
const EXAMPLES = {
  en: "A man in a red shirt is running through the park.",
  de: "Ein Mann in einem roten Hemd läuft durch den Park.",
};
const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in made) made[key] = value; else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
};
const byId = (id) => document.getElementById(id);
let systems = [];
let cards = [];
let timer = 0;
let watching = 0;
let requests = new AbortController();

// One hue a step, around the circle by the golden angle, so that neighbouring steps differ; light enough for dark letters.
const colour = (step) => `hsl(${(step * 137.5) % 360} 75% 78%)`;
// Marks of subwords: "@@" at the end (subword-nmt), "▁" at the beginning (SentencePiece) of a token.
const readable = (token) => (token === "</s>" ? "■" : token === "<s>" ? "▶" : token.replace(/@@$/, "·").replace(/^▁/, "") || "·");
const counted = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;
const pairOf = (system) => `${system.source} → ${system.target}`;

function say(message, wrong = false) {
  byId("status").textContent = message;
  byId("status").className = wrong ? "error" : "";
}

function showSystems() {
  const chosen = byId("pair").value;
  const fitting = systems.filter((system) => pairOf(system) === chosen);
  const boxes = fitting.map((system, number) => {
    const box = element("input", { type: "checkbox", value: system.name, checked: number < 2 });
    return element("label", {}, box, system.name);
  });
  byId("systems").replaceChildren(element("legend", {}, "Systems"), ...boxes);
  const text = byId("text");
  text.lang = fitting[0].source;
  if (!text.value.trim() || Object.values(EXAMPLES).includes(text.value)) {
    text.value = EXAMPLES[fitting[0].source] || "";
    text.select();
  }
}

async function ask(system, text, signal) {
  const body = { q: text, source: system.source, target: system.target, system: system.name };
  if (byId("alternatives").checked && system.alternatives) body.alternatives = 3;
  if (system.graph) body.graph = true;
  if (byId("key").value) body.api_key = byId("key").value;
  const headers = { "Content-Type": "application/json" };
  let response;
  try {
    response = await fetch("v1/translate", { method: "POST", headers, body: JSON.stringify(body), signal });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Error("The server does not answer.");
  }
  // Overloaded, it may have no words of its own.
  const answer = await response.json().catch(() => ({ error: `The server refused with status ${response.status}.` }));
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

class Card {
  constructor(system, answer, scores) {
    const found = answer.translations[0];
    const { sentences } = found;
    const sum = (values) => values.reduce((total, value) => total + value, 0);
    const tokens = sum(sentences.map((sentence) => sentence.tokens.length));
    const steps = sum(sentences.map((sentence) => sentence.steps));
    this.last = Math.max(1, ...sentences.flatMap((sentence) => sentence.token_steps));
    this.words = [];
    this.label = element("label", {});
    this.slider = element("input", { type: "range", min: 1, max: this.last, value: this.last });
    this.slider.addEventListener("input", () => { stopWatching(); this.show(Number(this.slider.value)); });
    this.label.append("", this.slider);
    this.article = element(
      "article", { "aria-label": system.name }, element("h2", {}, system.name),
      element("p", { className: "facts" }, `${answer.milliseconds.toFixed(1)} ms · ${counted(tokens, "token")} in ${counted(steps, "decoder call")}`),
      element("p", { className: "translation", lang: system.target, dir: "auto" }, found.text),
      this.label,
      ...sentences.flatMap((sentence) => [
        this.steps(sentence, system.target), ...graph(sentence, system.target), ...(scores ? alternatives(sentence, system.target) : []),
      ]),
    );
    this.show(this.last);
  }

  steps(sentence, language) {
    const items = sentence.tokens.map((token, place) => {
      const step = sentence.token_steps[place];
      const item = element("li", { title: `written in step ${step}` }, readable(token), element("sup", {}, String(step)));
      item.style.background = colour(step);
      this.words.push({ item, step });
      return item;
    });
    return element("ul", { className: "steps", lang: language, dir: "auto" }, ...items);
  }

  show(step) {
    const now = Math.min(step, this.last);
    this.slider.value = now;
    this.label.firstChild.textContent = `Step ${now} of ${this.last} `;
    this.slider.setAttribute("aria-valuetext", `step ${now} of ${this.last}`);
    this.article.classList.toggle("finished", watching !== 0 && step >= this.last);
    for (const { item, step: written } of this.words) {
      item.classList.toggle("open", written > now);
      item.ariaHidden = written > now ? "true" : null;
    }
  }
}

// What the system wrote in its one step: many words at once, and ways through them.
function graph(sentence, language) {
  if (!sentence.graph) return [];
  const picture = element("div", { className: "graph", tabIndex: 0, role: "group", "aria-label": "Graph, can be scrolled", lang: language });
  picture.append(drawGraph(sentence.graph, readable));
  return [element("p", { className: "facts" }, "All of these words were written at once. The path below them was chosen."), picture];
}

function alternatives(sentence, language) {
  const score = sentence.score === null ? "" : `Score ${sentence.score.toFixed(2)}`;
  const rows = sentence.alternatives.map((other) => {
    const text = element("span", { lang: language, dir: "auto" }, other.text);
    return element("li", {}, text, other.score === null ? "" : ` (${other.score.toFixed(2)})`);
  });
  const list = rows.length ? [element("ol", { className: "alternatives", "aria-label": "Alternatives" }, ...rows)] : [];
  return [element("p", { className: "facts" }, score), ...list];
}

function stopWatching() {
  clearInterval(watching);
  watching = 0;
}

// All systems at the pace of one: who writes many words a step is finished first.
function watch() {
  stopWatching();
  const last = Math.max(...cards.map((card) => card.last));
  let step = 0;
  const next = () => {
    step += 1;
    for (const card of cards) card.show(step);
    if (step >= last) stopWatching();
  };
  watching = setInterval(next, STEP);
  next();
}

async function translate() {
  const text = byId("text").value;
  requests.abort();
  requests = new AbortController();
  const { signal } = requests;
  const names = [...byId("systems").querySelectorAll("input:checked")].map((box) => box.value);
  const chosen = systems.filter((system) => pairOf(system) === byId("pair").value && names.includes(system.name));
  let failure = "";
  let made = [];
  if (text.trim() && chosen.length) {
    say("Translating …");
    const answers = await Promise.allSettled(chosen.map((system) => ask(system, text, signal)));
    if (signal.aborted) return; // more was typed meanwhile
    const scores = byId("alternatives").checked;
    made = answers.flatMap((answer, place) => (answer.status === "fulfilled" ? [new Card(chosen[place], answer.value, scores)] : []));
    failure = answers.filter((answer) => answer.status === "rejected").map((answer) => answer.reason.message)[0] || "";
  }
  stopWatching();
  cards = made;
  byId("results").replaceChildren(...cards.map((card) => card.article));
  byId("watch").disabled = !cards.length;
  if (failure) say(failure, true); else say(text.trim() && !chosen.length ? "Choose a system." : "");
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(translate, PAUSE);
}

async function start() {
  let settings;
  try {
    [systems, settings] = await Promise.all(["v1/systems", "frontend/settings"].map(async (path) => (await fetch(path)).json()));
  } catch (error) {
    say("The server does not answer.", true);
    return;
  }
  byId("text").maxLength = settings.charLimit;
  byId("key-field").hidden = !settings.keyRequired;
  const pairs = [...new Set(systems.map(pairOf))];
  byId("pair").replaceChildren(...pairs.map((pair) => element("option", { value: pair }, pair)));
  showSystems();
  byId("pair").addEventListener("change", () => { showSystems(); soon(); });
  for (const id of ["text", "key"]) byId(id).addEventListener("input", soon);
  for (const id of ["systems", "alternatives"]) byId(id).addEventListener("change", soon);
  byId("watch").addEventListener("click", watch);
  byId("form").addEventListener("submit", (event) => { event.preventDefault(); translate(); });
  if (!settings.keyRequired) translate();
}

start();
