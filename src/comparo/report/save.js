"use strict";
// Tables as files: CSV that a spreadsheet executes nothing of, and JSON; made in the page, sent nowhere.
const FORMULA = /^'*[=+\-@\t\r\n＝＋－＠]/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;

// A quote before what a spreadsheet might execute, as in the CSV that comparo writes; numbers do not change.
const guarded = (text) => (FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text);
const csvCell = (value) => {
  if (value === null || value === undefined) return "";
  const text = typeof value === "number" ? String(value) : guarded(String(value));
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

// A table is {names: [...], rows: [[...], ...]}.
const csvText = ({ names, rows }) => [names, ...rows].map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
const jsonText = ({ names, rows }) =>
  JSON.stringify(rows.map((row) => Object.fromEntries(names.map((name, place) => [name, row[place] ?? null]))), null, 1);

const saveFile = (name, type, text) => {
  const link = document.createElement("a");
  // The mark at the beginning tells spreadsheets that the file is UTF-8.
  link.href = URL.createObjectURL(new Blob([type === "text/csv" ? "\ufeff" : "", text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
};

// What an HTML table shows; a sentence in small print below a name is a cell of its own.
const shownTable = (table) => {
  const text = (cell) => {
    const copy = cell.cloneNode(true);
    for (const small of copy.querySelectorAll("small")) small.prepend(" ");
    return copy.textContent.replace(/\s+/g, " ").trim().replace(/^−(?=[\d.]+$)/, "-");
  };
  const [head, ...body] = table.rows;
  return { names: Array.from(head.cells, text), rows: body.map((row) => Array.from(row.cells, text)) };
};
