"use strict";
(function () {
  function value(row, column) {
    const cell = row.cells[column];
    const number = cell.dataset.number;
    return number === undefined ? cell.textContent.trim() : number === "" ? NaN : Number(number);
  }
  function order(a, b) {
    if (typeof a === "number" && typeof b === "number") {
      return a - b;
    }
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  }
  function sort(table, header) {
    const column = header.cellIndex;
    const down = header.getAttribute("aria-sort") === "ascending";
    for (const other of header.parentNode.cells) {
      other.setAttribute("aria-sort", "none");
    }
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, (row) => [value(row, column), row]);
    rows.sort(function (a, b) {
      // What is not there comes last, whichever the direction.
      const gaps = Number.isNaN(a[0]) - Number.isNaN(b[0]);
      return gaps || (down ? order(b[0], a[0]) : order(a[0], b[0]));
    });
    body.append(...rows.map((pair) => pair[1]));
  }
  function quoted(text) {
    return /[",\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  }
  function save(table) {
    const lines = Array.from(table.rows, function (row) {
      return Array.from(row.cells, function (cell) {
        return quoted(cell.dataset.number || cell.textContent.trim());
      }).join(",");
    });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    link.download = table.id + ".csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    for (const button of table.querySelectorAll("thead button")) {
      button.addEventListener("click", () => sort(table, button.closest("th")));
    }
  }
  for (const button of document.querySelectorAll("button.save")) {
    button.addEventListener("click", () => save(document.getElementById(button.dataset.table)));
  }
})();
