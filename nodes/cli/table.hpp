#pragma once

/// Tables and other text on a terminal.

#include <string>
#include <string_view>
#include <vector>

namespace caravan::cli {

enum class colour : unsigned char { none, red, green, yellow, dim };

struct cell {
  std::string text;
  colour paint = colour::none;
  cell(std::string t, colour c = colour::none) : text(std::move(t)), paint(c) {}
  cell(const char* t) : text(t) {}
};

enum class side : unsigned char { left, right };

struct column {
  std::string title;
  side align = side::left;
};

/// Prints when told, with columns as wide as they must be. A line never holds what would move the cursor.
class table {
public:
  explicit table(std::vector<column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<cell> row) { rows_.push_back(std::move(row)); }
  void print() const;

private:
  std::vector<column> columns_;
  std::vector<std::vector<cell>> rows_;
};

/// Standard output is a terminal and NO_COLOR is not set.
[[nodiscard]] bool use_colour();
/// Without control characters, which a job may hold and a terminal would obey.
[[nodiscard]] std::string clean(std::string_view text);
/// The first `most` code points.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most);
/// "3m" since an instant as the API writes it; "-" for none.
[[nodiscard]] std::string age_of(std::string_view instant);

}  // namespace caravan::cli
