"""Evaluates the results of scripts/quality: means, noise, significant differences, and a picture of the curves."""
import dataclasses
import math
import statistics

import quality_runs as runs

MARK = "<!-- quality: all below is written by scripts/quality --report -->"


@dataclasses.dataclass
class Results:
    by_variant: dict  # variant -> seed -> result

    @staticmethod
    def read(bench):
        found = {}
        for variant in runs.VARIANTS:
            seeds = sorted(int(f.name.split(".seed-")[1][:-5]) for f in bench.results.glob(f"{variant}.seed-*.json"))
            kept = {seed: bench.result(variant, seed) for seed in seeds}
            kept = {seed: result for seed, result in kept.items() if result}
            if kept:
                found[variant] = kept
        return Results(found)

    def ranges_of_meshes(self, loss=lambda result: result["final_loss"]):
        """Returns, by seed, the spread of the losses of plain runs on different meshes, for seeds with at least two meshes."""
        meshes = [found for variant, found in self.by_variant.items() if runs.VARIANTS[variant].is_mesh]
        seeds = sorted({seed for found in meshes for seed in found})
        losses = {seed: [loss(found[seed]) for found in meshes if seed in found] for seed in seeds}
        return {seed: max(each) - min(each) for seed, each in losses.items() if len(each) > 1}

    def differences(self, variant, loss=lambda result: result["final_loss"]):
        """From plain runs of the same seeds."""
        plain = self.by_variant.get(runs.PLAIN, {})
        return [loss(r) - loss(plain[seed]) for seed, r in self.by_variant[variant].items() if seed in plain]


def mean_and_error(values):
    """The mean, and its standard error where there are at least two values."""
    if not values:
        return "", ""
    mean = statistics.fmean(values)
    return mean, statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else ""


def number(value, form):
    return format(value, form) if value != "" else ""


# Student's quantiles for 95 % by the number of values: so many standard errors a mean is from 0 by chance in one of 20 cases.
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}


def claim(differences, noise):
    """What can be said of the mean of these differences."""
    mean, error = mean_and_error(differences)
    if error == "" or not noise:
        return "not enough runs"
    if abs(mean) <= max(noise) or abs(mean) <= STUDENT.get(len(differences), 2.26) * error:
        return "no difference can be claimed"
    return "worse" if mean > 0 else "better"


def verdict(variant, differences, noise):
    if variant == runs.PLAIN:
        return "what the others are compared with"
    return "noise" if runs.VARIANTS[variant].is_mesh else claim(differences, noise)


def rates(results, noise):
    """The learning rates that were tried, and the best of each optimizer against each other with seeds that did not choose them."""
    tried = {}
    for variant, found in results.by_variant.items():
        v = runs.VARIANTS[variant]
        if v.optimizer and runs.TRIED_WITH in found:
            tried.setdefault(v.optimizer, []).append((found[runs.TRIED_WITH]["final_loss"], v.rate, variant))
    if len(tried) < 2:
        return []
    lines = ["", "## Learning rates", "", f"Held-out loss with seed {runs.TRIED_WITH}:", "",
             "| optimizer | learning rate: held-out loss | best |", "|---|---|---|"]
    for optimizer, losses in tried.items():
        by_rate = sorted(losses, key=lambda t: float(t[1]))
        each = "; ".join(f"{rate}: {loss:.5f}" for loss, rate, _ in by_rate)
        end = ", an end of those tried" if min(losses) in (by_rate[0], by_rate[-1]) else ""
        lines.append(f"| {optimizer} | {each} | {min(losses)[1]}{end} |")
    (first, (_, rate, plain)), (second, (_, other_rate, other)) = ((o, min(losses)) for o, losses in list(tried.items())[:2])
    a, b = results.by_variant[plain], results.by_variant[other]
    seeds = [s for s in b if s in a and s != runs.TRIED_WITH]
    differences = [b[s]["final_loss"] - a[s]["final_loss"] for s in seeds]
    if len(differences) > 1:
        mean, error = mean_and_error(differences)
        lines += ["", f"**{second} at {other_rate} against {first} at {rate}**, seeds {', '.join(map(str, seeds))}, which did not choose "
                      f"the rates: {mean:+.5f}, standard error {error:.5f}: {claim(differences, noise)}."]
    return lines


def markdown(results):
    noise = list(results.ranges_of_meshes().values())
    lines = ["| variant | seeds | held-out loss | standard error | training loss, last tenth | difference from plain | "
             "standard error | what can be said | minutes a run |", "|---|---|---|---|---|---|---|---|---|"]
    for variant, found in results.by_variant.items():
        if runs.VARIANTS[variant].optimizer and variant != runs.PLAIN:
            continue  # in a table of their own
        mean, error = mean_and_error([r["final_loss"] for r in found.values()])
        tail, _ = mean_and_error([r["tail_loss"] for r in found.values()])
        off, off_error = mean_and_error(results.differences(variant)) if variant != runs.PLAIN else ("", "")
        minutes = statistics.fmean(r["seconds"] for r in found.values()) / 60
        lines.append(f"| {variant} | {', '.join(map(str, found))} | {mean:.5f} | {number(error, '.5f')} | {tail:.5f} | "
                     f"{number(off, '+.5f')} | {number(off_error, '.5f')} | {verdict(variant, results.differences(variant), noise)} | "
                     f"{minutes:.1f} |")
    lines += ["", "Losses are in nats per byte; the held-out one is of the last checkpoint over all held-out text."]
    if noise:
        each = ", ".join(f"seed {seed}: {value:.5f}" for seed, value in results.ranges_of_meshes().items())
        lines += ["", f"**Noise: {max(noise):.5f}.** So far apart are plain runs of one seed on different meshes ({each}); "
                      "nothing below the largest of them can be claimed."]
    else:
        lines += ["", "Noise: not known before plain runs of one seed on two meshes are finished."]
    lines += rates(results, noise)
    made = sorted({(r["date"], r["commit"], r["cpu"]) for found in results.by_variant.values() for r in found.values()})
    lines += ["", "Made on: " + "; ".join(f"{date}, commit {commit}, {cpu}" for date, commit, cpu in made) + "."]
    return "\n".join(lines)


COLOURS = ["#2c6be0", "#0b8f6c", "#7a55d3", "#dd6a0c", "#cf3a4b", "#127f9c", "#8a6d1d", "#667081"]
STYLE = """:root{color-scheme:light dark;--card:#fff;--ink:#1b1f27;--mute:#667081;--grid:#e3e6eb}
@media(prefers-color-scheme:dark){:root{--card:#161a20;--ink:#e7eaf0;--mute:#8d97a8;--grid:#272d37}}
text{fill:var(--mute);font:11px ui-sans-serif,system-ui,sans-serif}text.title{fill:var(--ink);font-size:14px;font-weight:600}
.card{fill:var(--card)}.grid{stroke:var(--grid);fill:none}.band{fill:var(--mute);opacity:.22}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}"""


class Panel:
    """A plot of curves over steps, placed in a picture."""

    def __init__(self, title, top, height, steps, low, high):
        self.title, self.top, self.height, self.steps = title, top, height, steps
        margin = 0.06 * (high - low) or 1e-6
        self.low, self.high = low - margin, high + margin

    def x(self, step):
        return 70 + 790 * step / self.steps

    def y(self, value):
        return self.top + self.height * (self.high - value) / (self.high - self.low)

    def frame(self):
        parts = [f'<text class="title" x="70" y="{self.top - 10}">{self.title}</text>']
        step = 10 ** math.floor(math.log10((self.high - self.low) / 3))
        step *= next(m for m in (1, 2, 5, 10) if (self.high - self.low) / (m * step) <= 6)
        for i in range(math.ceil(self.low / step), math.floor(self.high / step) + 1):
            y = self.y(i * step)
            parts.append(f'<path class="grid" d="M70 {y:.1f}H860"/><text x="64" y="{y + 4:.1f}" text-anchor="end">'
                         f'{i * step:.5g}</text>')
        for i in range(5):
            at = self.steps * i / 4
            parts.append(f'<text x="{self.x(at):.1f}" y="{self.top + self.height + 16}" text-anchor="middle">{at:g}</text>')
        return parts

    def curve(self, points, colour):
        d = "M" + "L".join(f"{self.x(s):.1f} {self.y(v):.1f}" for s, v in points)
        return f'<path class="line" stroke="{colour}" d="{d}"/>'

    def band(self, points):
        """Symmetric around 0, as far as the values reach."""
        edge = [f"{self.x(s):.1f} {self.y(v):.1f}" for s, v in points]
        edge += [f"{self.x(s):.1f} {self.y(-v):.1f}" for s, v in reversed(points)]
        return f'<path class="band" d="M{"L".join(edge)}Z"/>'


def curve_points(results):
    """Steps and, by variant, the mean training loss; its mean difference from plain; and the noise by step."""
    first = next(iter(next(iter(results.by_variant.values())).values()))
    steps = [step for step, _ in first["train_loss"]]
    means, off, noise = {}, {}, []
    for variant, found in results.by_variant.items():
        means[variant] = [(s, statistics.fmean(r["train_loss"][i][1] for r in found.values())) for i, s in enumerate(steps)]
        if variant != runs.PLAIN and results.differences(variant):
            off[variant] = [(s, statistics.fmean(results.differences(variant, lambda r, i=i: r["train_loss"][i][1])))
                            for i, s in enumerate(steps)]
    for i, s in enumerate(steps):
        ranges = results.ranges_of_meshes(lambda r, i=i: r["train_loss"][i][1])
        if ranges:
            noise.append((s, max(ranges.values())))
    return steps, means, off, noise


def svg(results):
    steps, means, off, noise = curve_points(results)
    colours = dict(zip(runs.VARIANTS, COLOURS * (1 + len(runs.VARIANTS) // len(COLOURS))))
    values = [v for points in means.values() for _, v in points]
    panels = [(Panel("Training loss, nats per byte (mean of the seeds)", 40, 190, steps[-1], min(values), max(values)), means)]
    apart = [v for points in off.values() for _, v in points] + [v for _, v in noise] + [-v for _, v in noise]
    parts = []
    if apart:
        panels.append((Panel("Difference from plain bf16 with the same seeds; grey: noise among meshes", 290, 190, steps[-1],
                             min(apart), max(apart)), off))
        if noise:
            parts.append(panels[1][0].band(noise))
    for panel, curves in panels:
        parts += panel.frame()
        parts += [panel.curve(points, colours[variant]) for variant, points in curves.items()]
    bottom = panels[-1][0].top + panels[-1][0].height + 40
    for i, variant in enumerate(means):
        x, y = 70 + 200 * (i % 4), bottom + 18 * (i // 4)
        parts.append(f'<path class="line" stroke="{colours[variant]}" d="M{x} {y - 4}h22"/><text x="{x + 28}" y="{y}">'
                     f'{variant}</text>')
    height = bottom + 18 * ((len(means) - 1) // 4) + 14
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" width="900" height="{height}" role="img">'
            f"<title>Loss curves of the variants</title><style>{STYLE}</style>"
            f'<rect class="card" width="900" height="{height}"/>\n' + "\n".join(parts) + "\n</svg>\n")
