#include "report/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/human_text.h"
#include "base/markup.h"
#include "base/stopwatch.h"
#include "host/doctor.h"
#include "io/filesystem.h"
#include "io/writable_folder.h"
#include "report/report_style.h"
#include "report/run_plots.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

const char* name_of(NumberFormat format) {
  switch (format) {
    case NumberFormat::plain:
      return "plain";
    case NumberFormat::count:
      return "count";
    case NumberFormat::percent:
      return "percent";
    case NumberFormat::gibibytes:
      return "gibibytes";
    case NumberFormat::scientific:
      return "scientific";
    case NumberFormat::milliseconds:
      return "milliseconds";
  }
  return "plain";
}

// Returns the last finite value of a curve.
double last_value(const Curve& curve) {
  const auto it = std::find_if(curve.y.rbegin(), curve.y.rend(), [](double y) { return std::isfinite(y); });
  return it == curve.y.rend() ? StepMetrics::kUnknown : *it;
}

struct Tile {
  std::string name, value, note;
};

std::vector<Tile> headline(const RunFacts& facts, const History& h) {
  std::vector<Tile> tiles;
  if (!h.last()) return tiles;
  const StepMetrics &first = *h.first(), &last = *h.last();
  if (facts.parameters > 0)
    tiles.push_back({"Parameters", human_count(static_cast<double>(facts.parameters)),
                     fmt::format("{:.3g} tokens for each",
                                 static_cast<double>(last.tokens) / static_cast<double>(facts.parameters))});
  tiles.push_back({"Training loss", fmt::format("{:.4f}", h.smoothed(Channel::loss).back()),
                   fmt::format("{:.4f} at step {}", first.loss, first.step)});
  if (h.is_of_pairs()) {
    const auto percent = [](double share) { return fmt::format("{:.1f}%", 100 * share); };
    tiles.push_back(
        {"Accuracy", percent(h.smoothed(Channel::accuracy).back()),
         last.val_accuracy ? percent(*last.val_accuracy) + " of held-out pairs" : "of the pairs trained on"});
    tiles.push_back(
        {"Reward margin", fmt::format("{:.4g}", h.smoothed(Channel::margin).back()),
         last.val_margin ? fmt::format("{:.4g} for held-out pairs", *last.val_margin) : "of the pairs trained on"});
  }
  if (h.best_evaluation()) {
    const StepMetrics &now = h.evaluations().back(), &best = *h.best_evaluation();
    const bool bits = now.val_bits_per_byte && best.val_bits_per_byte;
    const auto value = [&](const StepMetrics& m) { return bits ? *m.val_bits_per_byte : *m.val_loss; };
    tiles.push_back({bits ? "Validation, bits/byte" : "Validation loss", fmt::format("{:.4f}", value(now)),
                     best.step == now.step ? fmt::format("the best, at step {}", now.step)
                                           : fmt::format("best {:.4f} at step {}", value(best), best.step)});
  }
  tiles.push_back({"Tokens", human_count(static_cast<double>(last.tokens)),
                   facts.total_steps > 0 ? fmt::format("step {} of {}", last.step, facts.total_steps)
                                         : fmt::format("step {}", last.step)});
  tiles.push_back({"Time", human_duration(last.elapsed_s), "wall clock"});
  Extent ms;
  for (const Bucket& b : h.buckets()) ms.add(b[Channel::step_ms]);
  tiles.push_back(
      {"Tokens/s", human_count(h.tokens_per_s()),
       h.knows_mfu() ? fmt::format("{:.1f}% MFU", 100 * h.mfu()) : fmt::format("{:.4g} ms a step", ms.mean())});
  return tiles;
}

std::string tiles_html(const std::vector<Tile>& tiles) {
  std::string html = "<section class=\"tiles\">";
  for (const Tile& t : tiles)
    html += fmt::format(
        "<div class=\"card tile\"><div class=\"name\">{}</div><div class=\"value\">{}</div>"
        "<div class=\"note\">{}</div></div>",
        t.name, t.value, t.note);
  return html + "</section>\n";
}

std::string header_html(const RunFacts& facts) {
  std::string html = fmt::format("<header><h1>{}</h1>", escape_markup(facts.name));
  if (!facts.status.empty()) html += fmt::format("<span class=\"status {0}\">{0}</span>", escape_markup(facts.status));
  std::string line;
  for (const std::string& part : {facts.model, facts.data, facts.compute})
    if (!part.empty()) line += (line.empty() ? "" : " · ") + escape_markup(part);
  return html + (line.empty() ? "" : "<p>" + line + "</p>") + "</header>\n";
}

// A plot whose x axis is not the step does not follow the pointer.
std::string still_figure_html(const Plot& plot) {
  std::string html = fmt::format("<figure class=\"card\"><figcaption><h2>{}</h2>", escape_markup(plot.title));
  for (const Curve& c : plot.curves)
    html += fmt::format("<span class=\"key\"><i class=\"{}\"></i>{}</span>", c.style, escape_markup(c.label));
  return html + "</figcaption>" + render_svg(plot, true, "still") + "</figure>\n";
}

std::string figure_html(const Plot& plot) {
  if (!plot.over_steps) return still_figure_html(plot);
  std::string html = fmt::format("<figure class=\"card plot{}\"><figcaption><h2>{}</h2>",
                                 plot.width > 600 ? " wide" : "", escape_markup(plot.title));
  for (const Curve& c : plot.curves) {
    if (c.style.empty() && !c.readout) continue;
    const NumberFormat format = c.readout.value_or(plot.format);
    if (c.faint && c.label.empty()) continue;
    html +=
        fmt::format("<span class=\"key\"><i class=\"{}\"></i>{}<b data-curve=\"{}\" data-format=\"{}\">{}</b></span>",
                    c.readout ? "none" : c.style + (c.faint ? " faint" : ""), escape_markup(c.label), c.key,
                    name_of(format), format_number(last_value(c), format));
  }
  return html + "</figcaption>" + render_svg(plot, false, "lin") + render_svg(plot, true, "log") + "</figure>\n";
}

std::string json_numbers(const std::vector<double>& values, int digits) {
  std::string list = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) list += ',';
    list += std::isfinite(values[i]) ? fmt::format("{:.{}g}", values[i], digits) : "null";
  }
  return list + "]";
}

// Returns the data of the script: each x axis once, and the axis and values of every curve. Nothing needs escaping.
std::string data_json(const std::vector<Plot>& plots, const History& history) {
  std::vector<const std::vector<double>*> axes;
  std::string curves, xs;
  std::vector<double> first, last;
  for (const Bucket& b : history.buckets()) {
    first.push_back(static_cast<double>(b.first));
    last.push_back(static_cast<double>(b.last));
  }
  for (const Plot& plot : plots)
    for (const Curve& c : plot.curves) {
      if (!plot.over_steps) continue;
      auto it = std::find_if(axes.begin(), axes.end(), [&](const auto* x) { return *x == c.x; });
      if (it == axes.end()) it = axes.insert(axes.end(), &c.x);
      curves += fmt::format("{}\"{}\":{{\"x\":{},\"y\":{}}}", curves.empty() ? "" : ",", c.key, it - axes.begin(),
                            json_numbers(c.y, 6));
    }
  for (const auto* x : axes) xs += (xs.empty() ? "" : ",") + json_numbers(*x, 12);
  return fmt::format("{{\"first\":{},\"last\":{},\"x\":[{}],\"curves\":{{{}}}}}", json_numbers(first, 15),
                     json_numbers(last, 15), xs, curves);
}

std::string rows_html(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string html = "<table>";
  for (const auto& [name, value] : rows)
    html += fmt::format("<tr><th>{}</th><td>{}</td></tr>", escape_markup(name), escape_markup(value));
  return html + "</table>";
}

// Says what the run trains, from where and for how long.
std::string run_html(const RunFacts& facts) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& [name, value] :
       {std::pair{"objective", facts.objective}, std::pair{"initial weights", facts.initial_weights},
        std::pair{"length", facts.length}})
    if (!value.empty()) rows.emplace_back(name, value);
  return rows.empty() ? "" : "<section class=\"card\"><h2>Run</h2>" + rows_html(rows) + "</section>\n";
}

std::string machine_html(const MachineFacts& machine) {
  if (machine.host.empty()) return "";
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Finding& f : diagnose(machine))
    if (f.verdict != Verdict::note || f.subject == "CPU" || f.subject == "vector units")
      rows.emplace_back(f.subject, f.text);
  return "<section class=\"card\"><h2>Machine</h2>" + rows_html(rows) + "</section>\n";
}

std::string sample_html(const RunFacts& facts) {
  if (facts.sample_text.empty()) return "";
  return fmt::format(
      "<section class=\"card\"><h2>Sample text, step {}</h2><pre class=\"sample\"><b>{}</b>{}</pre>"
      "</section>\n",
      facts.sample_step, escape_markup(facts.sample_prompt), escape_markup(facts.sample_text));
}

std::string list_of(const std::vector<int64_t>& steps, int64_t count) {
  std::string text;
  for (const int64_t step : steps) text += fmt::format("{}{}", text.empty() ? "" : ", ", step);
  const int64_t more = count - static_cast<int64_t>(steps.size());
  return more > 0 ? fmt::format("{} and {} more", text, more) : text;
}

std::string events_html(const RunFacts& facts, const History& h) {
  std::vector<std::pair<std::string, std::string>> rows;
  if (facts.started > 0) rows.emplace_back("started", utc_time(facts.started) + " UTC");
  if (h.resumed_count() > 0) rows.emplace_back("resumed at", "step " + list_of(h.resumed_steps(), h.resumed_count()));
  if (h.skipped_count() > 0)
    rows.emplace_back("skipped",
                      fmt::format("{} update{} with non-finite values, at step {}", h.skipped_count(),
                                  h.skipped_count() == 1 ? "" : "s", list_of(h.skipped_steps(), h.skipped_count())));
  for (const RunEvent& e : facts.events)
    rows.emplace_back(fmt::format("step {}", e.step),
                      e.text + (e.time > 0 ? fmt::format(" ({} UTC)", utc_time(e.time)) : ""));
  if (rows.empty()) return "";
  return "<section class=\"card\"><h2>Events</h2>" + rows_html(rows) + "</section>\n";
}

std::string details_html(const char* title, const std::string& text) {
  if (text.empty()) return "";
  return fmt::format("<details class=\"card\"><summary>{}</summary><pre>{}</pre></details>\n", title,
                     escape_markup(text));
}

std::string read_if_there(const fs::path& file) { return fs::exists(file) ? read_file(file) : ""; }

History history_of(const fs::path& run_directory) {
  const fs::path file = run_directory / "metrics.jsonl";
  if (!fs::exists(file))
    throw DataError(
        fmt::format("{}: not found; name the folder of a run (run.directory, by default runs/<name>)", file.string()));
  History history = read_history(file);
  if (history.buckets().empty() && fs::file_size(file) > 0)
    throw DataError(fmt::format("{}: has no line that is a metrics object", file.string()));
  return history;
}

void write_page(const fs::path& run_directory, const RunFacts& facts) {
  const RunTexts texts{read_if_there(run_directory / "config.yaml"), read_if_there(run_directory / "plan.txt")};
  write_file_atomically(run_directory / "report.html",
                        report_page(facts, history_of(run_directory), texts, unix_seconds()));
}

}  // namespace

std::string report_page(const RunFacts& facts, const History& history, const RunTexts& texts, double now) {
  const std::vector<Plot> plots = run_plots(facts, history);
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>";
  html += fmt::format("<title>{} – fptrain</title><style>{}</style></head>\n<body><main>\n", escape_markup(facts.name),
                      page_style());
  html += header_html(facts) + tiles_html(headline(facts, history));
  html +=
      "<div class=\"switch\"><output id=\"at\"></output>"
      "<label><input type=\"checkbox\" id=\"logx\"/>logarithmic steps</label></div>\n<section class=\"plots\">\n";
  for (const Plot& plot : plots) html += figure_html(plot);
  html +=
      sample_html(facts) + run_html(facts) + events_html(facts, history) + machine_html(facts.machine) + "</section>\n";
  html += details_html("Run spec, resolved", texts.spec) + details_html("Plan", texts.plan);
  html += fmt::format("<footer>fptrain {} · {} logged steps · written {} UTC</footer>\n</main>\n",
                      escape_markup(facts.version), history.steps(), utc_time(now));
  html +=
      fmt::format("<script type=\"application/json\" id=\"data\">{}</script>\n<script>{}</script>\n</body></html>\n",
                  data_json(plots, history), page_script());
  return html;
}

std::string loss_picture(const RunFacts& facts, const History& history) {
  Plot plot = loss_plot(facts, history);
  plot.width = 860;
  plot.height = 320;
  std::string subtitle = facts.model;
  for (const Tile& t : headline(facts, history))
    if (t.name == "Tokens" || t.name == "Time")
      subtitle += fmt::format("{}{}{}", subtitle.empty() ? "" : " · ", t.value, t.name == "Tokens" ? " tokens" : "");
  if (history.best_evaluation() && history.best_evaluation()->val_bits_per_byte)
    subtitle += fmt::format(" · {:.3f} bits per byte held out", *history.best_evaluation()->val_bits_per_byte);
  const std::string title = fmt::format("{}: l{}", facts.name, plot.title.substr(1));  // "Loss, ..." in a sentence
  return render_svg_file(plot, title, subtitle);
}

void write_report(const fs::path& run_directory, const RunFacts& facts) {
  save_run_facts(run_directory, facts);
  write_page(run_directory, facts);
}

void write_report(const fs::path& run_directory) { write_page(run_directory, load_run_facts(run_directory)); }

void write_loss_picture(const fs::path& run_directory, const fs::path& svg_file) {
  const History history = history_of(run_directory);
  output_file(svg_file, "--svg", loss_picture(load_run_facts(run_directory), history));
}

}  // namespace fp
