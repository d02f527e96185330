#pragma once

/// The text format that Prometheus scrapes (version 0.0.4). Plain: no CAF, no HTTP.

#include "messages/time_histogram.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace caravan {

/// Collects families one after another. Names and help texts come from the code, label values from outside: they are
/// escaped, and cut at 200 bytes. A family has at most `most_series` series; those beyond are counted and left out, so
/// that whoever makes up names cannot fill the memory of what scrapes.
class metrics_text {
public:
  using labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;
  static constexpr std::size_t most_series = 2'000;

  /// Begins a family; the samples that follow belong to it.
  void counter(std::string_view name, std::string_view help) { begin(name, "counter", help); }
  void gauge(std::string_view name, std::string_view help) { begin(name, "gauge", help); }
  void histogram(std::string_view name, std::string_view help) { begin(name, "histogram", help); }

  void add(labels of, std::uint64_t value);
  void add(labels of, double value);
  /// All series of one histogram. Values are in seconds.
  void add(labels of, const time_histogram& h);

  /// Left out because their family was full.
  [[nodiscard]] std::uint64_t left_out() const noexcept { return left_out_; }
  [[nodiscard]] std::string take() { return std::move(text_); }

private:
  void begin(std::string_view name, std::string_view type, std::string_view help);
  [[nodiscard]] bool room();
  void sample(std::string_view suffix, labels of, std::string_view le, std::string_view value);

  std::string text_;
  std::string name_;
  std::size_t series_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace caravan
