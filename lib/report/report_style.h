// The fixed parts of a report: its style sheets and its script. Nothing in them is fetched from elsewhere.
#pragma once

#include <string>
#include <string_view>

namespace fp {

std::string page_style();        // of report.html
std::string svg_file_style();    // of a picture that stands alone
std::string_view page_script();  // of report.html: values under the pointer

}  // namespace fp
