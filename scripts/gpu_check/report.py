"""The table of results: failures first, each figure with its prediction for this GPU."""
import json
import math
import os

ORDER = {"fail": 0, "open": 1, "pass": 2, "skipped": 3}
ROWS = 50  # rows of the table, so that its header stays visible; the rest is in results.json


class Predictions:
    def __init__(self, device, file=None):
        with open(file or os.path.join(os.path.dirname(__file__), "predictions.json"), encoding="utf-8") as f:
            known = json.load(f)
        self.gpu = next((g for g in known["gpus"] if g in device), None)
        self.figures = known["figures"]

    def of(self, result):
        """Returns the predicted figure; None when there is none for this GPU."""
        entry = self.figures.get(f"{result.part}: {result.check}", {})
        return entry.get(self.gpu) if result.figure is not None else None

    def ratio(self, result):
        predicted = self.of(result)
        return result.figure / predicted if predicted else None


def worst_first(results, predictions):
    """Sorts results: failures, open ones, those furthest from their prediction, those within a limit, skipped ones, and last
    those that are only reported."""
    def place(result):
        ratio = predictions.ratio(result)
        plain = result.status == "pass" and not ratio and not result.limit
        return (4 if plain else ORDER[result.status], -abs(math.log(ratio)) if ratio else 1.0)
    return sorted(results, key=place)


def cells(result, predictions):
    predicted, ratio = predictions.of(result), predictions.ratio(result)
    return (result.part, result.check, result.result, result.limit, f"{predicted:g}" if predicted else "", f"{ratio:.2f}" if ratio else "",
            result.status)


HEADER = ("part", "check", "result", "limit", "predicted", "ratio", "")


def print_table(results, predictions):
    rows = [HEADER, *(cells(r, predictions) for r in worst_first(results, predictions))]
    # A long reason may stick out; it does not push the other rows apart.
    widths = [min(56, max(len(row[i]) for row in rows)) for i in range(len(HEADER))]
    print()
    for row in rows[:ROWS + 1]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    if len(rows) > ROWS + 1:
        print(f"... and {len(rows) - ROWS - 1} more in results.json")
    counts = {s: sum(r.status == s for r in results) for s in ORDER}
    print("\n" + ", ".join(f"{n} {s}" for s, n in counts.items() if n))
