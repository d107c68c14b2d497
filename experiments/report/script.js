"use strict";

// Works on what is in the page already: without scripts, every table and figure is there to be read.
document.documentElement.classList.add("scripted");

const words = new Intl.Collator("en", { numeric: true });

// A cell's number is in data-number; a cell of a number column without one has none and stays last.
function compare(left, right, numeric) {
  if (!numeric) return words.compare(left.textContent.trim(), right.textContent.trim());
  return Number(left.dataset.number) - Number(right.dataset.number);
}

function sortBy(table, heading, direction) {
  const place = heading.cellIndex;
  const numeric = heading.classList.contains("number");
  const body = table.tBodies[0];
  const missing = (row) => numeric && row.cells[place].dataset.number === undefined;
  const rows = [...body.rows];
  const known = rows.filter((row) => !missing(row));
  known.sort((a, b) => direction * compare(a.cells[place], b.cells[place], numeric));
  body.append(...known, ...rows.filter(missing));
}

function makeSortable(table) {
  const headings = [...table.tHead.rows[0].cells];
  for (const heading of headings) {
    heading.querySelector("button").addEventListener("click", () => {
      const descending = heading.getAttribute("aria-sort") === "ascending";
      for (const other of headings) other.setAttribute("aria-sort", "none");
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sortBy(table, heading, descending ? -1 : 1);
    });
  }
}

// A word is looked for in all cells of a row; column=value asks for exactly that value in that column.
function condition(word, headings) {
  const [name, value] = word.split("=", 2);
  const place = value === undefined ? -1 : headings.findIndex((heading) => heading.startsWith(name));
  if (place < 0) return (row) => row.textContent.toLowerCase().includes(word);
  return (row) => {
    const cell = row.cells[place];
    const number = cell.dataset.number;
    if (number !== undefined && value !== "" && Number(number) === Number(value)) return true;
    return cell.textContent.trim().toLowerCase() === value;
  };
}

function makeFilter(input) {
  const table = document.getElementById(input.getAttribute("aria-controls"));
  const told = document.getElementById(input.getAttribute("aria-describedby"));
  const headings = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim().toLowerCase());
  const rows = [...table.tBodies[0].rows];
  input.addEventListener("input", () => {
    const typed = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const conditions = typed.map((word) => condition(word, headings));
    let shown = 0;
    for (const row of rows) {
      row.hidden = !conditions.every((holds) => holds(row));
      if (!row.hidden) shown += 1;
    }
    told.textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} shown`;
  });
}

function makeEnlargeable(dialog) {
  const image = dialog.querySelector("img");
  const title = dialog.querySelector("h2");
  for (const button of document.querySelectorAll("button.enlarge")) {
    button.addEventListener("click", () => {
      const small = button.querySelector("img");
      image.src = small.src;
      image.alt = small.alt;
      title.textContent = button.dataset.title;
      dialog.showModal(); // Esc closes it, and gives the focus back to the button
    });
  }
  dialog.querySelector("button").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // the backdrop
  });
}

document.querySelectorAll("table.sortable").forEach(makeSortable);
document.querySelectorAll(".filter input").forEach(makeFilter);
document.querySelectorAll("dialog").forEach(makeEnlargeable);

// A table that is wider than its box says so, as long as there is more of it to the right.
function tellOfMore(box) {
  const more = () => box.scrollWidth - box.clientWidth - box.scrollLeft > 1;
  const tell = () => box.classList.toggle("more", more());
  box.addEventListener("scroll", tell, { passive: true });
  new ResizeObserver(tell).observe(box);
}

document.querySelectorAll(".box").forEach(tellOfMore);

// Paper cannot be unfolded.
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
