#pragma once

/// INI text as Gitea reads it (go-ini with Gitea's options), each key with the place it came from.
///
///   [section]            again: merged. `[a.b]` is a child of `[a]`: an inherited look-up sees the keys of `[a]` too
///   KEY = value          or `KEY: value`. Sections and keys are case-sensitive. Twice: the last one counts
///   ; comment, # comment a value is cut at the first ; or #, blank before it or not, even inside "..."
///   KEY = "v" or 'v'     the quotes are taken off
///   KEY = `v;#`          kept as it is, up to the last ` of the line; without one there, up to the next line that has
///   one KEY = """v"""        likewise
///
/// A `\` at the end of a line does not continue it. Indentation means nothing. CRLF and a UTF-8 byte order mark are
/// taken.

#include "config/problem.hpp"

#include <caravan/error.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace caravan::config {

struct entry {
  std::string key;
  std::string value;
  origin where;
};

struct section {
  std::string name;  ///< "" for keys before the first header, and for [DEFAULT]
  origin where;      ///< of its first header
  std::vector<entry> entries;
  std::map<std::string, std::size_t, std::less<>> index;  ///< key -> place in `entries`
};

/// An entry and the section it stands in. Valid until the next change.
struct located {
  const entry* what = nullptr;
  std::string_view section;
};

/// Does a section that lacks a key show the keys of `[a]` for `[a.b]`?
enum class lookup : std::uint8_t { strict, inherited };

/// Not thread safe while it is changed.
class ini {
public:
  ini();

  /// In the order of their first header; the first one is "" and may be empty.
  [[nodiscard]] const std::vector<section>& sections() const noexcept { return sections_; }
  [[nodiscard]] const section* find_section(std::string_view name) const;

  /// The entry even when its value is empty; null when there is none. An inherited look-up ends at the nearest section
  /// that has the key, so an empty value in a child hides the value of its parent. Valid until the next change.
  [[nodiscard]] const entry* find(std::string_view section, std::string_view key, lookup how = lookup::inherited) const;

  /// The nearest entry with a value: unlike in find, an empty one hides nothing. `what` is null when there is none.
  [[nodiscard]] located locate(std::string_view section, std::string_view key) const;

  /// The value, or `fallback` when it is absent or empty.
  [[nodiscard]] std::string get(std::string_view section, std::string_view key, std::string_view fallback = {},
                                lookup how = lookup::inherited) const;
  /// Likewise, and also `fallback` when the text is no duration. For settings that others define;
  /// a setting of our own goes through read_settings.hpp, which refuses such a text.
  [[nodiscard]] std::chrono::nanoseconds get_duration(std::string_view section, std::string_view key,
                                                      std::chrono::nanoseconds fallback,
                                                      lookup how = lookup::inherited) const;

  /// Creates the section and the key when they are absent.
  section& open_section(std::string_view name, origin where);
  /// True when that changed anything but the origin.
  bool set(std::string_view section, std::string_view key, std::string value, origin where);

private:
  std::vector<section> sections_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

/// What could be read, and everything that is wrong with the rest.
struct parsed_ini {
  ini content;
  problems found;
};

/// `file` is only a name for the messages. Never throws for any text.
[[nodiscard]] parsed_ini parse_ini(std::string_view text, std::string_view file);

/// not_found, or too_large over 16 MiB; invalid_argument: it is no regular file or cannot be read.
[[nodiscard]] expected<parsed_ini> read_ini_file(const std::filesystem::path& path);

/// Text that parse_ini reads back as the same sections, keys and values. A value that no INI text can hold (several
/// lines and both kinds of quotes; only an environment variable can bring one) becomes a comment that says so.
[[nodiscard]] std::string to_text(const ini& content);

/// The same sections, keys and values, wherever they came from.
[[nodiscard]] bool same_content(const ini& a, const ini& b);

}  // namespace caravan::config
