// Sort a table by the column whose name is clicked. No comparison with "less than" and no ampersand: the page
// stays well-formed XML.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => {
    head.tabIndex = 0;
    head.title = "Sort by this column";
    const isText = head.classList.contains("text");
    const number = row => {
      const found = row.cells[place].textContent.replace("−", "-").match(/[-+]?\d[\d,]*\.?\d*/);
      return found ? Number(found[0].replaceAll(",", "")) : null;
    };
    const compare = (one, other) => {
      if (isText) return one.cells[place].textContent.localeCompare(other.cells[place].textContent, "en", {numeric: true});
      return number(one) - number(other);
    };
    head.onclick = () => {
      const before = head.getAttribute("aria-sort");
      // The first press shows the largest number, or the text nearest to A.
      const down = before ? before == "ascending" : !isText;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      for (const body of table.tBodies) {
        const rows = [...body.rows].filter(row => row.cells.length == heads.length);
        const missing = isText ? [] : rows.filter(row => number(row) === null);
        const known = rows.filter(row => !missing.includes(row)).sort((a, b) => down ? compare(b, a) : compare(a, b));
        body.append(...known, ...missing);
      }
    };
    head.onkeydown = event => {
      if (event.key == "Enter" || event.key == " ") {
        event.preventDefault();
        head.click();
      }
    };
  });
}
