// A subset of the Jinja template language, for the chat templates of Hugging Face folders. Templates are foreign:
// parsing and rendering take bounded time and memory, and everything outside the subset is refused by name.
//   {{ expression }}, {% if/elif/else/endif %}, {% for x in list if condition %} with loop.first, .last, .index,
//   .index0 and .length, {% set x = ... %}, {% set namespace.x = ... %}, {% generation %} (ignored), {# comments #},
//   the trim marks {%- and -%}; line ends after statements and blanks before them are removed, as transformers does
//   texts, numbers, true, false, none, lists, dicts; + - * / // % ~, comparisons, in, and, or, not, is; x if c else y;
//   a.b, a[i], a[i:j:k]; filters trim, upper, lower, length, first, last, default, join, replace, string, list, int,
//   tojson; tests defined, undefined, none, string, mapping, iterable, sequence, number, integer, boolean, true, false;
//   methods of texts strip, lstrip, rstrip, startswith, endswith, split, upper, lower, replace, of dicts get, items,
//   keys; functions range, namespace, raise_exception
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace fp {

// Thrown where a template calls raise_exception: it refuses the conversation.
struct JinjaRefusal : DataError {
  using DataError::DataError;
};

class JinjaTemplate {
 public:
  // Throws DataError naming `where`, the line, and what is outside the subset.
  JinjaTemplate(std::string_view text, const std::string& where);
  ~JinjaTemplate();
  JinjaTemplate(JinjaTemplate&&) noexcept;

  // Returns the text for these variables, an object. Throws JinjaRefusal, or DataError as the constructor does.
  std::string render(const nlohmann::json& variables) const;

  struct Program;

 private:
  std::unique_ptr<const Program> program_;
};

}  // namespace fp
