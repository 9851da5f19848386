// The page of the server: what is typed is translated by the chosen systems, and each translation can be followed step by step.
"use strict";

const PAUSE = 250; // milliseconds without a key before anything is sent
const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in made && key !== "list") made[key] = value; else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
};
const byId = (id) => document.getElementById(id);
let systems = [];
let timer = 0;
let latest = 0;

// One hue a step, around the circle by the golden angle, so that neighbouring steps differ; light enough for dark letters.
const colour = (step) => `hsl(${(step * 137.5) % 360} 75% 78%)`;

const pairOf = (system) => `${system.source} → ${system.target}`;

function say(message, wrong = false) {
  byId("status").textContent = message;
  byId("status").className = wrong ? "error" : "";
}

function showSystems() {
  const chosen = byId("pair").value;
  const boxes = systems.filter((system) => pairOf(system) === chosen).map((system, number) => {
    const box = element("input", { type: "checkbox", value: system.name, checked: number < 2 });
    return element("label", {}, box, system.name);
  });
  byId("systems").replaceChildren(element("legend", {}, "Systems"), ...boxes);
}

async function ask(name, text) {
  const system = systems.find((one) => one.name === name && pairOf(one) === byId("pair").value);
  const body = { q: text, source: system.source, target: system.target, system: name };
  if (byId("alternatives").checked && system.alternatives) body.alternatives = 3;
  const response = await fetch("v1/translate", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

function stepsOf(sentence) {
  const last = Math.max(1, ...sentence.token_steps);
  const words = sentence.tokens.map((token, place) => {
    const step = sentence.token_steps[place];
    const shown = token === "</s>" ? "■" : token;
    const item = element("li", {}, shown, element("sup", {}, String(step)));
    item.style.background = colour(step);
    item.title = `written in step ${step}`;
    return { item, step };
  });
  const label = element("label", {});
  const slider = element("input", { type: "range", min: 1, max: last, value: last });
  const show = () => {
    const now = Number(slider.value);
    label.firstChild.textContent = `Step ${now} of ${last} `;
    slider.setAttribute("aria-valuetext", `step ${now} of ${last}`);
    for (const { item, step } of words) item.classList.toggle("open", step > now);
  };
  label.append("", slider);
  slider.addEventListener("input", show);
  show();
  return [label, element("ul", { className: "steps" }, ...words.map(({ item }) => item))];
}

function card(name, answer) {
  const found = answer.translations[0];
  const passes = found.sentences.map((sentence) => sentence.steps);
  const words = found.sentences.reduce((sum, sentence) => sum + sentence.tokens.length, 0);
  const total = passes.reduce((sum, count) => sum + count, 0);
  const facts = `${answer.milliseconds.toFixed(1)} ms · ${words} tokens in ${total} ${total === 1 ? "step" : "steps"}`;
  const parts = [element("h2", {}, name), element("p", { className: "facts" }, facts), element("p", { className: "translation" }, found.text)];
  for (const sentence of found.sentences) {
    if (sentence.token_steps.length) parts.push(...stepsOf(sentence));
    if (sentence.alternatives.length) {
      const rows = sentence.alternatives.map((other) => element("li", {}, `${other.text} (${other.score.toFixed(2)})`));
      parts.push(element("ol", { className: "alternatives" }, ...rows));
    }
  }
  return element("article", {}, ...parts);
}

async function translate() {
  const text = byId("text").value;
  const mine = ++latest;
  const chosen = [...byId("systems").querySelectorAll("input:checked")].map((box) => box.value);
  if (!text.trim() || !chosen.length) {
    byId("results").replaceChildren();
    say(text.trim() ? "Choose a system." : "");
    return;
  }
  say("Translating …");
  const answers = await Promise.allSettled(chosen.map((name) => ask(name, text)));
  if (mine !== latest) return; // more was typed meanwhile
  const failed = answers.find((answer) => answer.status === "rejected");
  say(failed ? failed.reason.message : "", Boolean(failed));
  const cards = answers.flatMap((answer, place) => (answer.status === "fulfilled" ? [card(chosen[place], answer.value)] : []));
  byId("results").replaceChildren(...cards);
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(translate, PAUSE);
}

async function start() {
  try {
    systems = await (await fetch("v1/systems")).json();
  } catch (error) {
    say("The server does not answer.", true);
    return;
  }
  const pairs = [...new Set(systems.map(pairOf))];
  byId("pair").replaceChildren(...pairs.map((pair) => element("option", { value: pair }, pair)));
  showSystems();
  byId("pair").addEventListener("change", () => { showSystems(); soon(); });
  byId("text").addEventListener("input", soon);
  byId("systems").addEventListener("change", soon);
  byId("alternatives").addEventListener("change", soon);
  byId("form").addEventListener("submit", (event) => { event.preventDefault(); translate(); });
}

start();
