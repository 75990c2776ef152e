#include "report/report_style.h"

namespace fp {
namespace {

constexpr std::string_view kLight =
    "--bg:#f5f6f8;--card:#fff;--ink:#1b1f27;--mute:#667081;--line:#e3e6eb;--grid:#eceff3;"
    "--blue:#2c6be0;--orange:#dd6a0c;--green:#0b8f6c;--violet:#7a55d3;--red:#cf3a4b;--teal:#127f9c;";
constexpr std::string_view kDark =
    "--bg:#0e1115;--card:#161a20;--ink:#e7eaf0;--mute:#8d97a8;--line:#272d37;--grid:#20252d;"
    "--blue:#71a5ff;--orange:#ffa353;--green:#43cfa0;--violet:#b39cff;--red:#ff7b88;--teal:#5cc8e2;";

// Style of drawings, both in the page and in SVG files.
constexpr std::string_view kPlotStyle = R"(
.c-train{--c:var(--blue)}.c-raw{--c:var(--blue)}.c-val{--c:var(--orange)}.c-lr{--c:var(--violet)}
.c-grad{--c:var(--teal)}.c-speed{--c:var(--green)}.c-memory{--c:var(--red)}
.c-set0{--c:var(--violet)}.c-set1{--c:var(--teal)}.c-set2{--c:var(--green)}.c-set3{--c:var(--red)}.c-set4{--c:var(--blue)}
.grid{stroke:var(--grid);fill:none}.axis,.tick{stroke:var(--line);fill:none}
.line{fill:none;stroke:var(--c);stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
.line.faint{stroke-width:1;opacity:.38}.band{fill:var(--c);stroke:none;opacity:.16}
.dot{fill:var(--c)}.dot.faint{opacity:.38}.mark{stroke:var(--mute);stroke-dasharray:2 4;fill:none}
.limit{stroke:var(--mute);stroke-dasharray:6 4;fill:none}
svg text{fill:var(--mute);font:11px ui-sans-serif,system-ui,"Segoe UI",Roboto,Helvetica,Arial,sans-serif;font-variant-numeric:tabular-nums}
svg .note{paint-order:stroke;stroke:var(--card);stroke-width:3px;stroke-linejoin:round}
)";

constexpr std::string_view kPageStyle = R"(
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 ui-sans-serif,system-ui,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
main{max-width:1240px;margin:0 auto;padding:36px 24px 56px}
header{display:flex;flex-wrap:wrap;gap:6px 16px;align-items:baseline;margin-bottom:24px}
h1{font-size:28px;line-height:1.2;letter-spacing:-.015em;margin:0;overflow-wrap:anywhere}
h2{font-size:14px;font-weight:600;margin:0}
header p{flex-basis:100%;margin:2px 0 0;color:var(--mute);overflow-wrap:anywhere}
.status{align-self:center;font-size:12px;font-weight:600;padding:2px 10px;border-radius:99px;color:var(--s);border:1px solid var(--s)}
.running{--s:var(--blue)}.finished{--s:var(--green)}.interrupted{--s:var(--orange)}.diverged,.failed{--s:var(--red)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(160px,1fr));gap:14px;margin-bottom:14px}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:16px 18px;margin:0;min-width:0}
.tile .name{color:var(--mute);font-size:13px}
.tile .value{font-size:27px;font-weight:650;letter-spacing:-.02em;line-height:1.25;font-variant-numeric:tabular-nums}
.tile .note{color:var(--mute);font-size:12.5px}
.plots{display:grid;grid-template-columns:1fr 1fr;gap:14px}
.wide{grid-column:1/-1}
figcaption{display:flex;flex-wrap:wrap;gap:2px 18px;align-items:baseline;margin-bottom:8px}
figcaption h2{margin-right:auto}
.key{font-size:12.5px;color:var(--mute);white-space:nowrap}
.key i{display:inline-block;width:9px;height:9px;border-radius:50%;background:var(--c);margin-right:6px}
.key i.faint{opacity:.4}.key i.none{display:none}
.key b{color:var(--ink);font-weight:600;font-variant-numeric:tabular-nums;margin-left:4px}
svg{display:block;width:100%;height:auto;overflow:visible;touch-action:pan-y}
.hair,.spot{visibility:hidden}.hair{stroke:var(--mute);fill:none;opacity:.6}
.spot{fill:var(--c);stroke:var(--card);stroke-width:1.5}
.on .hair,.on .spot.here{visibility:visible}
.switch{display:flex;justify-content:flex-end;align-items:center;gap:8px;color:var(--mute);font-size:13px;margin:0 2px 10px}
.switch output{margin-right:auto;font-variant-numeric:tabular-nums}
.switch label{cursor:pointer}
#logx{accent-color:var(--blue);margin:0 6px 0 0;vertical-align:-1px}
.log{display:none}
main:has(#logx:checked) .lin{display:none}main:has(#logx:checked) .log{display:block}
.plots>:last-child:nth-child(even){grid-column:1/-1}
section.card h2{margin-bottom:10px}
pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;font:12.5px/1.55 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.sample{font:15.5px/1.65 Georgia,"Times New Roman","DejaVu Serif",serif;max-height:290px;overflow:auto}
.sample b{color:var(--blue);font-weight:inherit}
table{border-collapse:collapse;width:100%;font-size:13.5px}
td,th{text-align:left;vertical-align:top;padding:4px 14px 4px 0;border-top:1px solid var(--grid);font-weight:inherit;overflow-wrap:anywhere}
tr:first-child td,tr:first-child th{border-top:0}
th{color:var(--mute);white-space:nowrap}
details.card{margin-top:14px}summary{cursor:pointer;font-size:14px;font-weight:600}details pre{margin-top:12px}
footer{margin-top:22px;color:var(--mute);font-size:12.5px}
@media(max-width:820px){.plots{grid-template-columns:minmax(0,1fr)}main{padding:20px 14px 40px}.wide{overflow-x:auto}.wide svg{min-width:640px}}
@media print{body{background:#fff}.switch{display:none}.card{break-inside:avoid}}
)";

// All plots show their values nearest to the step under the pointer.
constexpr std::string_view kScript = R"(
(() => {
  'use strict';
  const data = JSON.parse(document.getElementById('data').textContent);
  const logSwitch = document.getElementById('logx');
  const readout = document.getElementById('at');
  const figures = [...document.querySelectorAll('figure.plot')];
  const texts = [...document.querySelectorAll('b[data-curve]')].map(el => ({el, last: el.textContent}));
  const numbers = (svg, name) => svg.dataset[name].split(' ').map(Number);
  const frames = new Map([...document.querySelectorAll('svg[data-box]')].map(svg => {
    const [left, top, width, height] = numbers(svg, 'box'), [x0, x1] = numbers(svg, 'x'), [y0, y1] = numbers(svg, 'y');
    const log = svg.dataset.log === '1', span = log ? Math.log(x1 / x0) : x1 - x0;
    return [svg, {
      left, width,
      x: v => left + width * (log ? Math.log(Math.max(v, x0) / x0) : v - x0) / span,
      y: v => top + height * (1 - (v - y0) / (y1 - y0)),
      step: px => { const s = (px - left) / width; return log ? x0 * Math.exp(s * span) : x0 + s * span; },
    }];
  }));
  const suffixed = v => {
    const units = ['', 'k', 'M', 'B', 'T'];
    let u = 0;
    while (Math.abs(v) >= 999.5 && u < 4) { v /= 1000; ++u; }
    return (u === 0 && Number.isInteger(v) ? v : v.toPrecision(3)) + units[u];
  };
  const formats = {
    plain: v => v.toPrecision(5), count: suffixed, percent: v => (100 * v).toPrecision(3) + '%',
    gibibytes: v => v.toPrecision(3) + ' GiB', scientific: v => v === 0 ? '0' : v.toExponential(2),
    milliseconds: v => v.toPrecision(4) + ' ms',
  };
  const nearest = (xs, v) => {
    let low = 0, high = xs.length - 1;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (xs[mid] < v) low = mid + 1; else high = mid;
    }
    return low > 0 && v - xs[low - 1] < xs[low] - v ? low - 1 : low;
  };
  const at = (key, step) => {
    const curve = data.curves[key], xs = data.x[curve.x];
    if (!xs.length) return null;
    const i = nearest(xs, step);
    return curve.y[i] === null ? null : {x: xs[i], y: curve.y[i], i};
  };
  const show = step => {
    const i = nearest(data.x[0], step), first = data.first[i], last = data.last[i];
    readout.textContent = first === last ? 'step ' + first.toLocaleString('en')
      : 'steps ' + first.toLocaleString('en') + ' – ' + last.toLocaleString('en') + ', mean';
    for (const {el} of texts) {
      const p = at(el.dataset.curve, step);
      el.textContent = p ? formats[el.dataset.format](p.y) : '–';
    }
    for (const figure of figures) {
      figure.classList.add('on');
      const svg = figure.querySelector(logSwitch.checked ? 'svg.log' : 'svg.lin'), f = frames.get(svg);
      svg.querySelector('.hair').setAttribute('transform', 'translate(' + f.x(data.x[0][i]) + ' 0)');
      for (const spot of svg.querySelectorAll('.spot')) {
        const p = at(spot.dataset.curve, step);
        spot.classList.toggle('here', p !== null);
        if (p) { spot.setAttribute('cx', f.x(p.x)); spot.setAttribute('cy', f.y(p.y)); }
      }
    }
  };
  const hide = () => {
    readout.textContent = '';
    figures.forEach(figure => figure.classList.remove('on'));
    texts.forEach(({el, last}) => { el.textContent = last; });
  };
  if (!data.x.length || !data.x[0].length) return;
  for (const [svg, f] of frames) {
    svg.addEventListener('pointermove', e => {
      const box = svg.getBoundingClientRect(), px = (e.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
      show(f.step(Math.min(Math.max(px, f.left), f.left + f.width)));
    });
    svg.addEventListener('pointerleave', hide);
  }
  logSwitch.addEventListener('change', hide);
})();
)";

std::string themed(std::string_view style) {
  std::string css = ":root{color-scheme:light dark;";
  css += kLight;
  css += "}@media(prefers-color-scheme:dark){:root{";
  css += kDark;
  css += "}}";
  css += kPlotStyle;
  css += style;
  return css;
}

}  // namespace

std::string page_style() { return themed(kPageStyle); }

std::string svg_file_style() {
  return themed(
      ".card{fill:var(--card);stroke:var(--line)}"
      "svg text.title{fill:var(--ink);font-size:19px;font-weight:650}svg text.subtitle{font-size:13px}");
}

std::string_view page_script() { return kScript; }

}  // namespace fp
