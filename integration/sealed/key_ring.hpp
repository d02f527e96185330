#pragma once

/// Keys that seal and open bytes: AES-256-GCM.

#include <caravan/error.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

/// The first key seals, all of them open: that is how a key is replaced. Immutable, so thread safe. Never shows a key.
class key_ring {
public:
  /// One key a line: 32 bytes as base64 (`openssl rand -base64 32`) or 64 hexadecimal digits. Empty lines and those
  /// that begin with # are skipped. `source` is for the error text: invalid_argument names it and the line.
  static expected<key_ring> parse(std::string_view text, const std::string& source);

  /// `bound_to` must be the same when it is opened. Throws std::runtime_error when the machine gives no random bytes.
  [[nodiscard]] std::string seal(std::string_view plain, std::string_view bound_to) const;
  /// not_found: sealed with another key, which the text names by its id; backend_failed: changed since, or bound to
  /// something else.
  [[nodiscard]] expected<std::string> open(std::string_view sealed, std::string_view bound_to) const;

  /// How many bytes seal() adds.
  static constexpr std::size_t overhead = 2 + 4 + 12 + 16;

private:
  struct key {
    std::array<unsigned char, 32> bytes;
    std::array<unsigned char, 4> id;  ///< the start of its SHA-256; not secret
  };
  std::vector<key> keys_;
};

/// Whether seal() made this. JSON text never looks like that.
[[nodiscard]] bool is_sealed(std::string_view bytes) noexcept;

/// `source`: file:PATH or env:NAME.
[[nodiscard]] expected<key_ring> load_key_ring(const std::string& source);

}  // namespace caravan
