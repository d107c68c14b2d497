"use strict";

// The page is complete without scripts; these add sorting, filtering and enlarging.
document.documentElement.classList.add("scripted");

const words = new Intl.Collator("en", { numeric: true });

// data-number has the number of a cell. Cells of a number column without it are sorted last.
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

// A word matches any cell of a row; column=value matches exactly this value in the column.
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
  const status = document.getElementById(input.getAttribute("aria-describedby"));
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
    status.textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} shown`;
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
