"""Lined-up tables for people."""


def text(value):
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}" if value >= 0.1 \
        else f"{value:.3f}"


def share(value):
    return None if value is None else f"{100 * value:.0f} %"


def print_table(title, head, rows):
    """The first column to the left, the others to the right."""
    cells = [list(map(text, row)) for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    print(f"\n{title}")
    for row in cells:
        print("  " + row[0].ljust(widths[0]) + "".join("  " + c.rjust(w) for c, w in zip(row[1:], widths[1:])))
