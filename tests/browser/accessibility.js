// Run in a page of the console by test_console_accessibility.py.

// Every text against what is behind it: the ratio that WCAG defines, 3 for large text and 4.5 for other.
function contrast() {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = (front, back) => [...[0, 1, 2].map((at) => front[at] * front[3] + back[at] * (1 - front[3])), 1];
  const behind = (element) => {
    if (element === null) return rgba("Canvas");
    const own = rgba(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own : over(own, behind(element.parentElement));
  };
  const part = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const luminance = ([red, green, blue]) => 0.2126 * part(red / 255) + 0.7152 * part(green / 255) + 0.0722 * part(blue / 255);
  const poor = [];
  let looked = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    const isSeen = node.data.trim() && element.checkVisibility();
    if (!isSeen || element.closest(":disabled, option, .unseen, .skip")) continue;
    const style = getComputedStyle(element);
    const back = behind(element);
    const front = over(rgba(element.closest("svg") ? style.fill : style.color), back);
    const [high, low] = [luminance(front), luminance(back)].sort((one, other) => other - one);
    const ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    looked += 1;
    if (ratio < (isLarge ? 3 : 4.5)) poor.push(`${ratio.toFixed(2)} ${node.data.trim().slice(0, 40)}`);
  }
  return { looked, poor };
}

// What assistive technology would stumble over.
function unnamed() {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const labels = (one) => [...(one.labels ?? [])].map((label) => label.textContent).join("");
  const own = (one) => (["BUTTON", "A", "SUMMARY"].includes(one.tagName) ? one.textContent : "");
  const nameOf = (one) => one.getAttribute("aria-label") || labels(one) || own(one);
  const controls = all("a, button, input, select, textarea, summary, [tabindex='0']");
  const ids = all("[id]").map((one) => one.id);
  const named = ["aria-describedby", "aria-labelledby"].flatMap((name) => all(`[${name}]`).flatMap((one) => one.getAttribute(name).trim().split(/ +/)));
  return [
    ...controls.filter((one) => one.checkVisibility() && !nameOf(one).trim()).map((one) => `no name: ${one.outerHTML.slice(0, 90)}`),
    ...all("img:not([alt])").map((one) => `no alt: ${one.src}`),
    ...ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => `id twice: ${id}`),
    ...named.filter((id) => !document.getElementById(id)).map((id) => `no such id: ${id}`),
    ...(all("h1").length === 1 ? [] : ["not one h1"]),
    ...(all("main").length === 1 ? [] : ["not one main"]),
    ...(document.documentElement.lang ? [] : ["no language"]),
  ];
}

// What is to be pressed and smaller than a finger tip allows.
function small() {
  return [...document.querySelectorAll("button, select, input, .bar a, .tabs a, summary")]
    .filter((one) => one.checkVisibility() && one.type !== "radio")
    .map((one) => [one, one.getBoundingClientRect()])
    .filter(([, box]) => box.height < 24 || box.width < 24)
    .map(([one, box]) => `${Math.round(box.width)}x${Math.round(box.height)} ${one.outerHTML.slice(0, 80)}`);
}
