"""Results as rows of the table in docs/gpu-check.md."""
import datetime

from .report import cells, worst_first

RULE = "|---|---|---|---|---|---|---|---|---|"


def add(file, device, results, predictions):
    """Adds rows below the table's rule for results with a limit or a prediction, or not passed; the newest run comes first."""
    with open(file, encoding="utf-8") as f:
        lines = f.read().split("\n")
    if RULE not in lines:
        raise SystemExit(f"error: {file} has no table of 9 columns")
    rule = lines.index(RULE)
    today = datetime.date.today().isoformat()
    recorded = [r for r in worst_first(results, predictions) if r.status != "pass" or r.limit or predictions.ratio(r)]
    rows = ["| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in (today, device, *cells(r, predictions))) + " |" for r in recorded]
    lines[rule + 1:rule + 1] = rows
    with open(file, "w", encoding="utf-8") as f:
        f.write("\n".join(lines))
