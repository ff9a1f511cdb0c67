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
        // Numbers are saved with all their digits; words and intervals as they are shown.
        const text = cell.textContent.trim();
        const number = /^[-−+]?[\d.,]+(e[-+]?\d+)?%?$/i.test(text) && cell.dataset.number;
        return quoted(number || text);
      }).join(",");
    });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    link.download = table.id + ".csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  function filtered(table) {
    const region = table.closest(".scroll");
    const box = document.createElement("input");
    box.type = "search";
    box.className = "filter";
    box.placeholder = "Filter rows";
    box.setAttribute("aria-label", "Filter rows");
    box.addEventListener("input", function () {
      const wanted = box.value.trim().toLowerCase();
      for (const row of table.tBodies[0].rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
      }
    });
    region.before(box);
  }
  // Pictures that show different levels of one answer, in one place.
  function tabbed(group) {
    const parts = Array.from(group.querySelectorAll(".tab"));
    const list = document.createElement("div");
    list.setAttribute("role", "tablist");
    const heads = parts.map(function (part, at) {
      const head = document.createElement("button");
      head.type = "button";
      head.textContent = part.dataset.title;
      head.setAttribute("role", "tab");
      head.addEventListener("click", () => choose(at));
      list.append(head);
      part.setAttribute("role", "tabpanel");
      part.querySelector("h3").hidden = true;
      return head;
    });
    function choose(chosen) {
      parts.forEach(function (part, at) {
        part.classList.toggle("away", at !== chosen);
        heads[at].setAttribute("aria-selected", at === chosen);
      });
    }
    list.addEventListener("keydown", function (event) {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) {
        const next = heads[(heads.indexOf(event.target) + step + heads.length) % heads.length];
        next.focus();
        next.click();
      }
    });
    group.prepend(list);
    choose(0);
  }
  function nearest(found, x, y, box) {
    let best = -1;
    let least = 14 * 14;
    found.at.forEach(function (place, at) {
      const across = (place[0] - x) * box.width;
      const down = (place[1] - y) * box.height;
      const distance = across * across + down * down;
      if (distance < least) {
        least = distance;
        best = at;
      }
    });
    return best < 0 ? "" : found.text[found.of[best]];
  }
  function pair(found, x, y) {
    const n = found.text.length;
    const [left, top, right, bottom] = found.frame;
    const column = Math.floor(((x - left) / (right - left)) * n);
    const row = Math.floor(((y - top) / (bottom - top)) * n);
    if (Math.min(row, column) < 0 || Math.max(row, column) >= n) {
      return "";
    }
    const together = found.cells.charCodeAt(row * n + column) / 100;
    const names = [found.text[row]].concat(row === column ? [] : [found.text[column]]);
    return names.join("\n") + (row === column ? "" : "\ntogether: " + together.toFixed(2));
  }
  function hovered(area) {
    const found = JSON.parse(area.dataset.hover);
    if (found.matrix) {
      found.cells = atob(found.matrix);
    }
    const image = area.querySelector("img");
    const words = document.createElement("div");
    words.className = "words-here";
    words.hidden = true;
    area.append(words);
    area.addEventListener("pointermove", function (event) {
      // A phone shows another picture, where nothing is in its place.
      if (image.currentSrc !== image.src) {
        return;
      }
      const box = image.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width;
      const y = (event.clientY - box.top) / box.height;
      const text = found.matrix ? pair(found, x, y) : nearest(found, x, y, box);
      words.textContent = text;
      words.hidden = !text;
      words.style.left = Math.min(event.clientX - box.left, box.width - words.offsetWidth) + "px";
      words.style.top = event.clientY - box.top + 18 + "px";
    });
    area.addEventListener("pointerleave", () => (words.hidden = true));
  }
  for (const group of document.querySelectorAll(".tabs")) {
    tabbed(group);
  }
  for (const area of document.querySelectorAll("[data-hover]")) {
    hovered(area);
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    if (table.tBodies[0].rows.length > 10) {
      filtered(table);
    }
    for (const button of table.querySelectorAll("thead button")) {
      button.addEventListener("click", () => sort(table, button.closest("th")));
    }
  }
  for (const button of document.querySelectorAll("button.save")) {
    button.addEventListener("click", () => save(document.getElementById(button.dataset.table)));
  }
})();
