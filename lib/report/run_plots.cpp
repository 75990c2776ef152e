#include "report/run_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string>

#include "base/human_text.h"

namespace fp {
namespace {

// Returns the mean of a channel in each bucket, with a band of its extremes if buckets hold several steps.
Curve channel_curve(const History& history, Channel channel, const char* key, const char* label, const char* style,
                    double scale = 1) {
  Curve c;
  c.key = key;
  c.label = label;
  c.style = style;
  bool spread = false;
  for (const Bucket& b : history.buckets()) {
    const Extent& e = b[channel];
    c.x.push_back(b.middle());
    c.y.push_back(e.mean() * scale);
    c.low.push_back(e.min * scale);
    c.high.push_back(e.max * scale);
    spread |= e.count > 1;
  }
  if (!spread) {
    c.low.clear();
    c.high.clear();
  }
  return c;
}

// Adds the raw values as a faint curve and their moving average in front.
void add_smoothed(Plot& plot, const History& history, Channel channel, const char* raw_key, const char* raw_label,
                  const char* key, const char* label, const char* style) {
  Curve raw = channel_curve(history, channel, raw_key, raw_label, style);
  raw.faint = true;
  Curve smooth;
  smooth.key = key;
  smooth.label = label;
  smooth.style = style;
  smooth.x = raw.x;
  smooth.y = history.smoothed(channel);
  plot.curves.push_back(std::move(raw));
  plot.curves.push_back(std::move(smooth));
}

Curve evaluation_curve(const History& history, std::optional<double> StepMetrics::*member, const char* key,
                       const char* label) {
  Curve c;
  c.key = key;
  c.label = label;
  c.style = "c-val";
  c.dots = true;
  for (const StepMetrics& e : history.evaluations()) {
    if (!(e.*member)) continue;
    c.x.push_back(static_cast<double>(e.step));
    c.y.push_back(*(e.*member));
  }
  return c;
}

// Returns one curve for each validation dataset, by label; `member` is the map of a step's values.
std::vector<Curve> dataset_curves(const History& history, std::map<std::string, double> StepMetrics::*member,
                                  const char* key) {
  std::map<std::string, Curve> curves;
  for (const StepMetrics& e : history.evaluations())
    for (const auto& [label, value] : e.*member) {
      Curve& c = curves[label];
      c.x.push_back(static_cast<double>(e.step));
      c.y.push_back(value);
    }
  constexpr size_t kColours = 5;  // of .c-set in the style
  std::vector<Curve> list;
  for (auto& [label, c] : curves) {
    c.key = fmt::format("{}_{}", key, list.size());
    c.label = label;
    c.style = fmt::format("c-set{}", list.size() % kColours);
    list.push_back(std::move(c));
  }
  return list;
}

void append(Plot& plot, std::vector<Curve> curves) {
  for (Curve& c : curves) plot.curves.push_back(std::move(c));
}

// Without curves if there was no evaluation of text.
Plot validation_plot(const History& history) {
  Plot plot;
  plot.title = "Validation, bits per byte";
  Curve bits = evaluation_curve(history, &StepMetrics::val_bits_per_byte, "bpb", "held-out text");
  Curve perplexity = evaluation_curve(history, &StepMetrics::val_perplexity, "ppl", "perplexity");
  if (bits.x.empty() && perplexity.x.empty()) return plot;
  if (bits.x.empty()) {
    plot.title = "Validation, perplexity";
    perplexity.label = "held-out text";
  } else {
    std::vector<Curve> of_datasets = dataset_curves(history, &StepMetrics::val_bits_per_byte_of, "bpb");
    if (!of_datasets.empty()) bits.label = "all held-out text";
    plot.curves.push_back(std::move(bits));
    append(plot, std::move(of_datasets));
    perplexity.readout = NumberFormat::plain;
  }
  plot.curves.push_back(std::move(perplexity));
  return plot;
}

Plot pairs_plot(const History& history, Channel channel, std::optional<double> StepMetrics::*validation,
                const std::string& key, const char* title, NumberFormat format) {
  Plot plot;
  plot.title = title;
  plot.format = format;
  add_smoothed(plot, history, channel, (key + "_raw").c_str(), "each step", key.c_str(), "smoothed", "c-train");
  Curve held_out = evaluation_curve(history, validation, ("val_" + key).c_str(), "validation");
  if (!held_out.x.empty()) plot.curves.push_back(std::move(held_out));
  return plot;
}

Plot throughput_plot(const RunFacts& facts, const History& history) {
  Plot plot;
  plot.title = "Throughput";
  plot.format = NumberFormat::count;
  plot.from_zero = true;
  add_smoothed(plot, history, Channel::tokens_per_s, "tps_raw", "", "tps", "tokens/s", "c-speed");
  Curve mfu = channel_curve(history, Channel::mfu, "mfu", "MFU", "");
  double mfu_sum = 0, speed_sum = 0;
  for (const Bucket& b : history.buckets()) {
    if (b[Channel::mfu].count == 0) continue;
    mfu_sum += b[Channel::mfu].sum;
    speed_sum += b[Channel::tokens_per_s].sum;
  }
  // Utilisation is throughput times a constant of the model and machine, so one curve serves two axes.
  if (history.knows_mfu() && speed_sum > 0) {
    plot.right_ratio = mfu_sum / speed_sum;
    mfu.readout = NumberFormat::percent;
    plot.curves.push_back(std::move(mfu));
  }
  Curve time = channel_curve(history, Channel::step_ms, "ms", "step", "");
  time.readout = NumberFormat::milliseconds;
  plot.curves.push_back(std::move(time));
  if (facts.predicted_tokens_per_s > 0) {
    plot.limit = facts.predicted_tokens_per_s;
    plot.limit_label = "predicted";
  }
  return plot;
}

Plot memory_plot(const RunFacts& facts, const History& history) {
  Plot plot;
  plot.title = "Peak memory";
  plot.format = NumberFormat::gibibytes;
  plot.from_zero = true;
  Curve peak = channel_curve(history, Channel::peak_bytes, "memory", "this process", "c-memory", 1 / kGiB);
  peak.low.clear();
  peak.high.clear();
  plot.curves.push_back(std::move(peak));
  if (facts.predicted_peak_bytes > 0) {
    plot.limit = static_cast<double>(facts.predicted_peak_bytes) / kGiB;
    plot.limit_label = "predicted";
  }
  return plot;
}

// Returns the middle of a range "BEGIN-END"; nothing for another text.
std::optional<double> middle_of(const std::string& range) {
  int64_t begin = 0, end = 0;
  const char* const last = range.data() + range.size();
  const auto first = std::from_chars(range.data(), last, begin);
  if (first.ec != std::errc() || first.ptr == last || *first.ptr != '-') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, last, end);
  if (second.ec != std::errc() || second.ptr != last || begin < 0 || end <= begin) return std::nullopt;
  return 0.5 * static_cast<double>(begin) + 0.5 * static_cast<double>(end);
}

Curve position_curve(const StepMetrics& m, const char* key, const char* style) {
  std::map<double, std::array<double, 2>> points;  // loss and two standard errors, by position
  for (const auto& [range, loss] : m.val_loss_at)
    if (const auto middle = middle_of(range)) {
      const auto error = m.val_loss_error_at.find(range);
      points[*middle] = {loss, error == m.val_loss_error_at.end() ? StepMetrics::kUnknown : 2 * error->second};
    }
  Curve c;
  c.key = key;
  c.label = fmt::format("step {}", m.step);
  c.style = style;
  c.dots = true;
  for (const auto& [middle, p] : points) {
    c.x.push_back(middle);
    c.y.push_back(p[0]);
    c.low.push_back(p[0] - p[1]);
    c.high.push_back(p[0] + p[1]);
  }
  return c;
}

}  // namespace

Plot position_plot(const std::vector<StepMetrics>& evaluations) {
  Plot plot;
  plot.title = "Held-out loss by position, nats per token";
  plot.over_steps = false;
  const auto has_positions = [](const StepMetrics& m) { return !m.val_loss_at.empty(); };
  const auto first = std::find_if(evaluations.begin(), evaluations.end(), has_positions);
  if (first == evaluations.end()) return plot;
  const auto last = std::find_if(evaluations.rbegin(), evaluations.rend(), has_positions);
  if (last->step != first->step) plot.curves.push_back(position_curve(*first, "at_first", "c-lr"));
  plot.curves.push_back(position_curve(*last, "at_last", "c-val"));
  return plot;
}

Plot loss_plot(const RunFacts& facts, const History& history) {
  Plot plot;
  plot.title = history.is_of_pairs()      ? "Loss, mean of pairs"
               : facts.objective == "sft" ? "Loss, nats per token of answers"
                                          : "Loss, nats per token";
  plot.width = 1160;
  plot.height = 340;
  add_smoothed(plot, history, Channel::loss, "loss", "each step", "smooth", "smoothed", "c-train");
  Curve validation = evaluation_curve(history, &StepMetrics::val_loss, "val", "validation");
  if (!validation.x.empty()) plot.curves.push_back(std::move(validation));
  if (history.is_of_pairs()) append(plot, dataset_curves(history, &StepMetrics::val_loss_of, "val"));
  return plot;
}

std::vector<Plot> run_plots(const RunFacts& facts, const History& history) {
  std::vector<Plot> plots{loss_plot(facts, history)};
  if (Plot validation = validation_plot(history); !validation.curves.empty()) plots.push_back(std::move(validation));
  if (history.is_of_pairs()) {
    plots.push_back(pairs_plot(history, Channel::accuracy, &StepMetrics::val_accuracy, "accuracy",
                               "Accuracy, pairs with the chosen answer preferred", NumberFormat::percent));
    plots.push_back(
        pairs_plot(history, Channel::margin, &StepMetrics::val_margin, "margin", "Reward margin", NumberFormat::plain));
  }
  Plot rate;
  rate.title = "Learning rate";
  rate.format = NumberFormat::scientific;
  rate.from_zero = true;
  rate.curves.push_back(channel_curve(history, Channel::lr, "lr", "rate", "c-lr"));
  plots.push_back(std::move(rate));
  Plot norm;
  norm.title = "Gradient norm";
  norm.from_zero = true;
  add_smoothed(norm, history, Channel::grad_norm, "norm_raw", "each step", "norm", "smoothed", "c-grad");
  plots.push_back(std::move(norm));
  if (history.limits_errors()) {
    Plot widened;
    widened.title = "Parameters whose gradients are sent with more bits";
    widened.from_zero = true;
    widened.curves.push_back(channel_curve(history, Channel::widened, "widened", "parameters", "c-grad"));
    plots.push_back(std::move(widened));
  }
  plots.push_back(throughput_plot(facts, history));
  plots.push_back(memory_plot(facts, history));
  for (Plot& plot : plots) {
    if (history.last())
      plot.x = AxisRange{static_cast<double>(history.first()->step), static_cast<double>(history.last()->step)};
    for (const int64_t step : history.resumed_steps()) plot.marks.push_back(static_cast<double>(step));
  }
  plots.front().marks_label = "resumed";
  if (Plot positions = position_plot(history.evaluations()); !positions.curves.empty())
    plots.push_back(std::move(positions));
  return plots;
}

}  // namespace fp
