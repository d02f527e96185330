#include "nodes/cli/table.hpp"

#include "nodes/http/api_json.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace caravan::cli {

namespace {

std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string_view code_of(colour c) {
  switch (c) {
    case colour::none:
      return "";
    case colour::red:
      return "\033[31m";
    case colour::green:
      return "\033[32m";
    case colour::yellow:
      return "\033[33m";
    case colour::dim:
      return "\033[2m";
  }
  return "";
}

}  // namespace

bool use_colour() {
  static const bool yes = ::isatty(STDOUT_FILENO) == 1 && !std::getenv("NO_COLOR");
  return yes;
}

std::string clean(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto b = static_cast<unsigned char>(text[i]);
    // C1 controls are two bytes in UTF-8: C2 80 to C2 9F.
    const bool c1 = b == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (b >= 0x20 && b != 0x7F && !c1) {
      out.push_back(text[i]);
    } else {
      out.push_back(b == '\n' || b == '\t' ? ' ' : '?');
      if (c1) ++i;
    }
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t most) {
  if (width(text) <= most) return std::string(text);
  std::size_t at = 0;
  for (std::size_t seen = 0; at < text.size(); ++at)
    if ((text[at] & 0xC0) != 0x80 && ++seen == most) break;
  return std::string(text.substr(0, at)) + "…";
}

std::string age_of(std::string_view instant) {
  const auto at = http::parse_instant(instant);
  if (!at) return "-";
  const auto s = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now() - *at).count();
  const auto n = s < 0 ? -s : s;
  const auto text = n < 120      ? std::to_string(n) + "s"
                    : n < 7200   ? std::to_string(n / 60) + "m"
                    : n < 172800 ? std::to_string(n / 3600) + "h"
                                 : std::to_string(n / 86400) + "d";
  return s < 0 ? "in " + text : text;
}

void table::print() const {
  std::vector<std::size_t> widths;
  for (const auto& c : columns_) widths.push_back(width(c.title));
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(clean(row[i].text)));
  const auto line = [&](auto text_of, auto paint_of) {
    std::string out;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string text = text_of(i);
      const std::string blanks(widths[i] - std::min(widths[i], width(text)), ' ');
      const auto paint = use_colour() ? code_of(paint_of(i)) : std::string_view{};
      if (i > 0) out += "  ";
      if (columns_[i].align == side::right) out += blanks;
      out.append(paint).append(text).append(paint.empty() ? "" : "\033[0m");
      if (columns_[i].align == side::left && i + 1 < columns_.size()) out += blanks;
    }
    std::printf("%s\n", out.c_str());
  };
  line([&](std::size_t i) { return columns_[i].title; }, [](std::size_t) { return colour::dim; });
  for (const auto& row : rows_) {
    line([&](std::size_t i) { return clean(row[i].text); }, [&](std::size_t i) { return row[i].paint; });
  }
}

}  // namespace caravan::cli
