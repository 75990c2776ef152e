// Style sheets and script of a report. They load nothing from a network.
#pragma once

#include <string>
#include <string_view>

namespace fp {

std::string page_style();        // style sheet of report.html
std::string svg_file_style();    // style sheet of a standalone picture
std::string_view page_script();  // script of report.html: shows values under the pointer

}  // namespace fp
