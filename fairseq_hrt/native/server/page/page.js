// The page of the server: what is typed is translated by the chosen systems, and each translation can be followed step by step.
"use strict";

const PAUSE = 250; // milliseconds without a key before anything is sent
const STEP = 350; // milliseconds of a step when all systems are watched
const LIKELY = 0.5; // alternatives may have a lower score by so much, the logarithm of a probability per token
const AUTO = "auto";
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
let detected = "";
let requests = new AbortController();

// One hue a step, around the circle by the golden angle, so that neighbouring steps differ; light enough for dark letters.
const colour = (step) => `hsl(${(step * 137.5) % 360} 75% 78%)`;
// Marks of subwords: "@@" at the end (subword-nmt), "▁" at the beginning (SentencePiece) of a token.
const readable = (token) => (token === "</s>" ? "■" : token === "<s>" ? "▶" : token.replace(/@@$/, "·").replace(/^▁/, "") || "·");
const counted = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;
const names = new Intl.DisplayNames(undefined, { type: "language" });
const languageName = (code) => {
  try { return names.of(code.replace("_", "-")); } catch { return code; } // a code of the model's own
};
const distinct = (values) => [...new Set(values)];
// Those of the chosen languages; a source that is detected is known only when a text has been sent.
const fitting = () => {
  const source = byId("source").value === AUTO ? detected : byId("source").value;
  return systems.filter((system) => (!source || system.source === source) && system.target === byId("target").value);
};
const examples = () => distinct(fitting().flatMap((system) => system.examples));

function say(message, wrong = false) {
  byId("status").textContent = message;
  byId("status").className = wrong ? "error" : "";
}

function showTargets() {
  const source = byId("source").value;
  const reachable = distinct(systems.filter((system) => [AUTO, system.source].includes(source)).map((system) => system.target));
  const before = byId("target").value;
  byId("target").replaceChildren(...reachable.map((code) => element("option", { value: code }, languageName(code))));
  if (reachable.includes(before)) byId("target").value = before;
}

// What has no choice is not shown.
function showSystems() {
  const source = byId("source").value;
  const found = fitting();
  const known = found.map((system) => system.name).join("\n");
  byId("swap").hidden = !systems.some((system) => system.source === byId("target").value && system.target === (source === AUTO ? detected : source));
  byId("alternatives-field").hidden = !found.some((system) => system.alternatives);
  byId("systems").hidden = found.length < 2;
  if (byId("systems").dataset.known === known) return;
  byId("systems").dataset.known = known;
  const boxes = found.map((system) => {
    const box = element("input", { type: "checkbox", value: system.name, checked: true });
    return element("label", {}, box, system.name);
  });
  byId("systems").replaceChildren(element("legend", {}, "Systems"), ...boxes);
  const text = byId("text");
  text.lang = source === AUTO ? detected : source;
  const all = systems.flatMap((system) => system.examples);
  if (!text.value.trim() || all.includes(text.value)) text.value = examples()[0] || "";
}

function showSuggestions() {
  const offered = examples();
  const make = (example) => {
    const button = element("button", { type: "button", lang: byId("text").lang }, example);
    button.addEventListener("click", () => { byId("text").value = example; translate(); });
    return button;
  };
  byId("suggestions").replaceChildren(element("p", {}, offered.length ? "Translations appear here. Try one of these:" : "Translations appear here."), ...offered.map(make));
  byId("suggestions").hidden = Boolean(byId("text").value.trim());
}

function swap() {
  const source = byId("target").value;
  const target = byId("source").value === AUTO ? detected : byId("source").value;
  byId("source").value = source;
  showTargets();
  byId("target").value = target;
  // What was read is now to be written, and the other way round.
  const translation = document.querySelector("article .translation");
  if (translation) byId("text").value = translation.textContent;
  showSystems();
  translate();
}

async function detect(text, signal) {
  if (byId("source").value !== AUTO) return;
  const answer = await post("detect", { q: text }, signal);
  detected = answer[0].confidence > 0 ? answer[0].language : "";
  const option = byId("source").selectedOptions[0];
  // Nobody translates from a language into itself: the first language that there is from the detected one.
  const other = systems.find((system) => system.source === detected);
  if (other && !fitting().length) byId("target").value = other.target;
  option.textContent = detected ? `${languageName(detected)} (detected)` : "Detect language";
  showSystems();
}

// The lines of a glossary as the server reads them, with a tab; what is copied from a table has one.
function glossary() {
  const lines = byId("glossary").value.split("\n").map((line) => (line.includes("\t") ? line : line.replace(/\s*=\s*/, "\t")));
  const wrong = lines.findIndex((line) => line.trim() && !line.includes("\t"));
  if (wrong >= 0) throw new Error(`Glossary, line ${wrong + 1}: write term = translation.`);
  return lines.join("\n").trim();
}

async function ask(system, text, terms, signal) {
  const body = { q: text, source: system.source, target: system.target, system: system.name };
  if (terms) body.glossary = terms;
  if (byId("alternatives").checked && system.alternatives) body.alternatives = 3;
  if (system.graph) body.graph = true;
  return post("v1/translate", body, signal);
}

async function post(path, body, signal) {
  if (byId("key").value) body.api_key = byId("key").value;
  const headers = { "Content-Type": "application/json" };
  let response;
  try {
    response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal });
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
    const starts = sentences.map((_, place) => sum(sentences.slice(0, place).map((sentence) => sentence.steps)));
    // One sentence after the other: the last step is the number of all steps.
    this.last = Math.max(1, ...sentences.flatMap((sentence, place) => sentence.token_steps.map((step) => starts[place] + step)));
    this.words = [];
    this.label = element("label", { hidden: this.last === 1 });
    this.slider = element("input", { type: "range", min: 1, max: this.last, value: this.last });
    this.slider.addEventListener("input", () => { stopWatching(); this.show(Number(this.slider.value)); });
    this.label.append("", this.slider);
    const unknown = distinct(sentences.flatMap((sentence) => sentence.unknown));
    const terms = distinct(sentences.flatMap((sentence) => sentence.terms.map((term) => `${term.source} → ${term.text}`)));
    const steps = sum(sentences.map((sentence) => sentence.steps));
    const rate = steps && tokens > steps ? `, ${(tokens / steps).toFixed(1)} tokens per step` : "";
    this.article = element(
      "article", { "aria-label": system.name },
      element("header", {}, element("h2", {}, system.name), ...copyButton(found.text)),
      ...(unknown.length ? [element("p", { className: "unknown" }, `This model does not know these words, or characters in them: ${unknown.join(", ")}. They may be lost.`)] : []),
      element("p", { className: "translation", lang: system.target, dir: "auto" }, found.text),
      ...(terms.length ? [element("p", { className: "facts terms" }, `From the glossary: ${terms.join(", ")}`)] : []),
      element("p", { className: "facts" }, `${counted(tokens, "token")} in ${counted(steps, "step")}${rate}`),
      this.label,
      ...sentences.flatMap((sentence, place) => [
        this.steps(sentence, system.target, starts[place]), ...graph(sentence, system.target), ...(scores ? alternatives(sentence, system.target) : []),
      ]),
    );
    this.show(this.last);
  }

  steps(sentence, language, start) {
    const items = sentence.tokens.map((token, place) => {
      const step = start + sentence.token_steps[place];
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

function copyButton(text) {
  if (!navigator.clipboard) return []; // browsers offer it on this machine and over HTTPS
  const button = element("button", { type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  });
  return [button];
}

// What the system wrote in its one step: many words at once, and ways through them.
function graph(sentence, language) {
  if (!sentence.graph) return [];
  const picture = element("div", { className: "graph", tabIndex: 0, role: "group", "aria-label": "Graph, can be scrolled", lang: language });
  picture.append(drawGraph(sentence.graph, readable));
  return [element("p", { className: "facts" }, "All of these words were written at once. The path below them was chosen."), picture];
}

// A search also finds parts of sentences, and the same one with other signs: only other whole sentences are shown.
const words = (text) => text.toLowerCase().match(/[\p{L}\p{M}\p{N}]+/gu) || [];
const ended = (text) => /[.!?…。！？।؟]["'»”’)\]]*$/u.test(text.trim());
function wholeSentences(sentence) {
  const length = words(sentence.text).length;
  const known = new Set([words(sentence.text).join(" ")]);
  return sentence.alternatives.filter((other) => {
    const found = words(other.text);
    const written = found.join(" ");
    const whole = ended(other.text) === ended(sentence.text) && found.length >= length / 2 && found.length <= 2 * length;
    const unlikely = other.score !== null && other.score < sentence.score - LIKELY;
    if (!whole || unlikely || known.has(written)) return false;
    known.add(written);
    return true;
  });
}

function alternatives(sentence, language) {
  const score = sentence.score === null ? "" : `Score ${sentence.score.toFixed(2)}`;
  const rows = wholeSentences(sentence).map((other) => {
    const text = element("span", { lang: language, dir: "auto" }, other.text);
    return element("li", {}, text, other.score === null ? "" : ` (${other.score.toFixed(2)})`);
  });
  const none = sentence.alternatives.length ? "no other whole sentence was found" : "";
  if (!rows.length) return [element("p", { className: "facts" }, [score, none].filter(Boolean).join(", "))];
  return [element("p", { className: "facts" }, score), element("ol", { className: "alternatives", "aria-label": "Alternatives" }, ...rows)];
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
  showSuggestions();
  let failure = "";
  let made = [];
  let chosen = [];
  if (text.trim()) {
    say("Translating …");
    let terms = "";
    try {
      terms = glossary();
      await detect(text, signal);
    } catch (error) {
      failure = error.message;
    }
    if (signal.aborted) return; // more was typed meanwhile
    const wanted = [...byId("systems").querySelectorAll("input:checked")].map((box) => box.value);
    chosen = fitting().filter((system) => wanted.includes(system.name));
    const answers = failure ? [] : await Promise.allSettled(chosen.map((system) => ask(system, text, terms, signal)));
    if (signal.aborted) return;
    const scores = byId("alternatives").checked;
    made = answers.flatMap((answer, place) => (answer.status === "fulfilled" ? [new Card(chosen[place], answer.value, scores)] : []));
    failure ||= answers.filter((answer) => answer.status === "rejected").map((answer) => answer.reason.message)[0] || "";
  }
  stopWatching();
  cards = made;
  byId("results").replaceChildren(...cards.map((card) => card.article));
  byId("watch").hidden = !cards.some((card) => card.last > 1);
  byId("watch").textContent = cards.length > 1 ? "Watch them write" : "Watch it write";
  const nothing = fitting().length ? "Choose a system." : "No system translates between these languages.";
  if (failure) say(failure, true); else say(text.trim() && !chosen.length ? nothing : "");
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
  const sources = distinct(systems.map((system) => system.source));
  const options = sources.map((code) => element("option", { value: code }, languageName(code)));
  if (sources.length > 1) options.push(element("option", { value: AUTO }, "Detect language"));
  byId("source").replaceChildren(...options);
  showTargets();
  showSystems();
  byId("source").addEventListener("change", () => { detected = ""; showTargets(); });
  for (const id of ["source", "target"]) byId(id).addEventListener("change", () => { showSystems(); soon(); });
  byId("swap").addEventListener("click", swap);
  // On a touch screen a keyboard would cover half of the page.
  if (matchMedia("(hover: hover) and (pointer: fine)").matches) { byId("text").focus(); byId("text").select(); }
  for (const id of ["text", "key", "glossary"]) byId(id).addEventListener("input", soon);
  for (const id of ["systems", "alternatives"]) byId(id).addEventListener("change", soon);
  byId("watch").addEventListener("click", watch);
  byId("form").addEventListener("submit", (event) => { event.preventDefault(); translate(); });
  if (!settings.keyRequired) translate();
}

start();
