"use strict";

// The page is complete without scripts.
document.documentElement.classList.add("scripted");

// The caption of a table shows a hint while columns to the right are hidden.
function hintAtMore(box) {
  const more = () => box.scrollWidth - box.clientWidth - box.scrollLeft > 1;
  const update = () => box.classList.toggle("more", more());
  box.addEventListener("scroll", update, { passive: true });
  new ResizeObserver(update).observe(box);
}

document.querySelectorAll(".box").forEach(hintAtMore);

// A printed page shows all details.
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
