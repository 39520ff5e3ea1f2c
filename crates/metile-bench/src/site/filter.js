"use strict";
const form = document.getElementById("filters");
const sections = [...document.querySelectorAll("section")];
// The address keeps the choice, so that a view can be passed on.
for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
  if (form.elements[name]) form.elements[name].value = value;
}
function apply() {
  const chosen = new FormData(form);
  const text = chosen.get("text").toLowerCase();
  let shown = 0;
  for (const section of sections) {
    const fits = ["study", "device", "origin"].every(
      (name) => !chosen.get(name) || section.dataset[name] === chosen.get(name));
    section.hidden = !(fits && (!text || section.textContent.toLowerCase().includes(text)));
    if (!section.hidden) shown += 1;
  }
  document.getElementById("count").textContent = `${shown} of ${sections.length} reports`;
  const kept = [...chosen].filter(([, value]) => value);
  history.replaceState(null, "", kept.length ? "#" + new URLSearchParams(kept) : location.pathname);
}
form.addEventListener("input", apply);
form.addEventListener("submit", (event) => event.preventDefault());
apply();
