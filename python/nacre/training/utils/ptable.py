"""Tables of text, lined up."""
from __future__ import annotations

from typing import List, Optional


class Row:
    """Cells, and a table that explains them."""

    def __init__(self, columns: List[str]) -> None:
        self._columns = columns
        self._annotation_table: Optional[PTable] = None

    def append_annotation_table(self, ptable: "PTable") -> None:
        self._annotation_table = ptable


class PTable:
    """Rows of as many cells each; sortable: printed in the order of their first cells."""

    def __init__(self, sortable: bool = False) -> None:
        self._rows: List[Row] = []
        self._sortable = sortable

    def add_row(self, columns: List[str]) -> Row:
        self._rows.append(Row(columns))
        return self._rows[-1]

    def get_string(self, first_column_width: Optional[int] = None, second_column_width: Optional[int] = None) -> str:
        """A line per row, two blanks behind every cell; the first columns are at least as wide as told."""
        if not self._rows:
            return ""
        rows = sorted(self._rows, key=lambda r: r._columns[0]) if self._sortable else self._rows
        widths = [max(len(cells[i]) for cells in (r._columns for r in rows)) for i in range(len(rows[0]._columns))]
        for i, least in enumerate((first_column_width, second_column_width)):
            if least is not None and i < len(widths):
                widths[i] = max(widths[i], least)
        text = []
        for row in rows:
            text.append("".join(cell.ljust(width) + "  " for cell, width in zip(row._columns, widths)) + "\n")
            if row._annotation_table is not None:
                text.append(row._annotation_table.get_string(*widths[:2]))
        return "".join(text)
