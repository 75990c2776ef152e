// Rotary frequencies (Su et al., RoFormer) and their scaling for longer contexts in published models.
#include <cmath>
#include <numbers>

#include "config/model_facts.h"
#include "model/architecture.h"

namespace fp {
namespace {

// Llama 3.1: keeps the frequencies of short wavelengths, divides those of long ones by `factor`, blends in between.
double llama3_frequency(const RopeSpec& r, double w) {
  const double wavelength = 2.0 * std::numbers::pi / w, original = static_cast<double>(r.original_max_position);
  if (wavelength < original / r.high_freq_factor) return w;
  if (wavelength > original / r.low_freq_factor) return w / r.factor;
  const double s = (original / wavelength - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor);
  return (1.0 - s) * w / r.factor + s * w;
}

bool uses_long_factors(const RopeSpec& r, int64_t total_length) { return total_length > r.original_max_position; }

}  // namespace

std::vector<float> rope_frequencies(const RopeSpec& r, int64_t head_dim, int64_t total_length) {
  const int64_t half = head_dim / 2;
  std::vector<float> frequencies(static_cast<size_t>(half));
  for (int64_t i = 0; i < half; ++i) {
    double w = std::pow(r.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    if (r.kind == RopeKind::linear) w /= r.factor;
    if (r.kind == RopeKind::llama3) w = llama3_frequency(r, w);
    if (r.kind == RopeKind::longrope) {
      const auto& factors = uses_long_factors(r, total_length) ? r.long_factor : r.short_factor;
      FP_CHECK(static_cast<int64_t>(factors.size()) == half, "longrope has {} factors for head_dim {}", factors.size(),
               head_dim);
      w /= factors[static_cast<size_t>(i)];
    }
    frequencies[static_cast<size_t>(i)] = static_cast<float>(w);
  }
  return frequencies;
}

double rope_attention_factor(const RopeSpec& r, int64_t max_position, int64_t total_length) {
  if (r.kind != RopeKind::longrope) return 1.0;
  if (!uses_long_factors(r, total_length) && !r.scale_short) return 1.0;
  return r.attention_factor ? *r.attention_factor : longrope_attention_factor(r, max_position);
}

RopeTable make_rope_table(const RopeSpec& r, int64_t head_dim, int64_t max_position, int64_t positions,
                          int64_t total_length) {
  const std::vector<float> frequencies = rope_frequencies(r, head_dim, total_length);
  const double factor = rope_attention_factor(r, max_position, total_length);
  const size_t half = frequencies.size();
  RopeTable table{std::vector<float>(static_cast<size_t>(positions) * half),
                  std::vector<float>(static_cast<size_t>(positions) * half)};
  for (int64_t p = 0; p < positions; ++p) {
    const auto position = static_cast<float>(static_cast<double>(p) * r.position_scale);
    for (size_t i = 0; i < half; ++i) {
      const double angle = position * frequencies[i];  // rounded to fp32, as published
      table.cos[static_cast<size_t>(p) * half + i] = static_cast<float>(std::cos(angle) * factor);
      table.sin[static_cast<size_t>(p) * half + i] = static_cast<float>(std::sin(angle) * factor);
    }
  }
  return table;
}

}  // namespace fp
