"""Results as rows of the table "On NVIDIA GPUs" in docs/benchmarks.md."""
import datetime

from .report import cells, worst_first

HEADING = "## On NVIDIA GPUs"
NOT_YET = "**Not yet run on a GPU.**"
RULE = "|---|---|---|---|---|---|---|---|---|"


def add(file, device, results, predictions):
    """Adds a row for each result below the table's rule, the newest run first, and takes back that none was made yet."""
    with open(file, encoding="utf-8") as f:
        lines = f.read().split("\n")
    try:
        start = lines.index(HEADING)
        rule = lines.index(RULE, start)
    except ValueError:
        raise SystemExit(f"error: {file} has no table of 9 columns below '{HEADING}'") from None
    today = datetime.date.today().isoformat()
    rows = ["| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in (today, device, *cells(r, predictions))) + " |"
            for r in worst_first(results, predictions)]
    lines[rule + 1:rule + 1] = rows
    lines = [line for line in lines if not line.startswith(NOT_YET)]
    with open(file, "w", encoding="utf-8") as f:
        f.write("\n".join(lines))
