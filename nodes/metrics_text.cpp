#include "nodes/metrics_text.hpp"

#include <charconv>
#include <cmath>
#include <numeric>

namespace caravan {

namespace {

constexpr std::size_t longest_value = 200;

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  return {std::begin(text), end};
}

void append_escaped(std::string& to, std::string_view value) {
  if (value.size() > longest_value) {
    auto end = longest_value;
    while (end > 0 && (static_cast<unsigned char>(value[end]) & 0xC0u) == 0x80u) --end;  // no half letters
    value = value.substr(0, end);
  }
  for (const char c : value) {
    if (c == '\\')
      to += "\\\\";
    else if (c == '"')
      to += "\\\"";
    else if (c == '\n')
      to += "\\n";
    else
      to.push_back(c);
  }
}

double seconds(time_histogram::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

void metrics_text::begin(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  series_ = 0;
  text_.append("# HELP ")
      .append(name)
      .append(" ")
      .append(help)
      .append("\n# TYPE ")
      .append(name)
      .append(" ")
      .append(type);
  text_.push_back('\n');
}

bool metrics_text::room() {
  if (series_ < most_series) {
    ++series_;
    return true;
  }
  ++left_out_;
  return false;
}

void metrics_text::sample(std::string_view suffix, labels of, std::string_view le, std::string_view value) {
  text_.append(name_).append(suffix);
  auto mark = '{';
  const auto label = [&](std::string_view name, std::string_view v) {
    text_.push_back(mark);
    text_.append(name).append("=\"");
    append_escaped(text_, v);
    text_.push_back('"');
    mark = ',';
  };
  for (const auto& [name, v] : of) label(name, v);
  if (!le.empty()) label("le", le);
  if (mark == ',') text_.push_back('}');
  text_.append(" ").append(value).push_back('\n');
}

void metrics_text::add(labels of, std::uint64_t value) {
  if (room()) sample({}, of, {}, std::to_string(value));
}

void metrics_text::add(labels of, double value) {
  if (room()) sample({}, of, {}, number(value));
}

void metrics_text::add(labels of, const time_histogram& h) {
  if (!room()) return;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < time_histogram::steps.size(); ++i) {
    if (i < h.counts.size()) below += h.counts[i];
    sample("_bucket", of, number(seconds(time_histogram::steps[i])), std::to_string(below));
  }
  const auto all = std::accumulate(h.counts.begin(), h.counts.end(), std::uint64_t{0});
  sample("_bucket", of, "+Inf", std::to_string(all));
  sample("_sum", of, {}, number(seconds(h.sum)));
  sample("_count", of, {}, std::to_string(all));
}

}  // namespace caravan
