#pragma once

/// Takes the values of one section as the registry describes them. Only for the files of this folder.

#include "config/ini.hpp"
#include "config/registry.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace caravan::config {

/// Every read gives something to go on with, and every mistake goes to `found`: so all of them are seen at once.
class reader {
public:
  reader(const ini& from, std::string_view section, problems& found) : from_(from), section_(section), found_(found) {}

  [[nodiscard]] std::string text(std::string_view key);
  [[nodiscard]] bool boolean(std::string_view key);
  /// Also sizes in bytes. Nothing: no limit.
  [[nodiscard]] std::optional<std::int64_t> number(std::string_view key);
  [[nodiscard]] std::chrono::milliseconds duration(std::string_view key);
  /// The place of the value in the choices of the registry.
  [[nodiscard]] std::size_t choice(std::string_view key);
  /// Absolute; relative paths start at `base`.
  [[nodiscard]] std::string path(std::string_view key, const std::filesystem::path& base);

  /// Reports about the value of `key` wherever it stands.
  void complain(std::string_view key, std::string cause, std::string remedy, severity level = severity::error);

private:
  [[nodiscard]] const key_spec& spec_of(std::string_view key) const;
  [[nodiscard]] std::optional<std::int64_t> parse(const key_spec& spec, std::string_view text) const;

  const ini& from_;
  std::string section_;
  problems& found_;
};

/// A value as it may be shown in an error text: no password, no control characters, not endless.
[[nodiscard]] std::string shown(std::string_view value);

/// `base` + `path`, without . and .. in it.
[[nodiscard]] std::string absolute_path(const std::filesystem::path& base, const std::filesystem::path& path);

}  // namespace caravan::config
