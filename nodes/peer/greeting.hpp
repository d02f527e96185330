#pragma once

/// What two nodes say to each other before CAF does. Plain text, one line each way; no I/O here.

#include <caravan/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

struct peer_greeting {
  std::string name;         ///< [node] NAME
  std::string incarnation;  ///< different for each start of a node
  std::uint32_t protocol = 0;
};

/// The longest line, with its newline. A stranger who sends more without one is turned away.
inline constexpr std::size_t greeting_size = 512;

/// With a newline at its end. Blanks and control characters in the words become '_'.
[[nodiscard]] std::string greeting_line(const peer_greeting& g);
/// Without its newline. invalid_argument: this is no greeting.
[[nodiscard]] expected<peer_greeting> parse_greeting(std::string_view line);

/// The answer of a door that lets nobody in; with a newline.
[[nodiscard]] std::string refusal_line(std::string_view why);
/// A greeting, or what a refusal says, as forbidden.
[[nodiscard]] expected<peer_greeting> parse_answer(std::string_view line);

/// Who may be at the other end.
struct peer_rules {
  std::uint32_t protocol = 0;
  std::vector<std::string> nodes;  ///< names that may join; empty: any
  bool certificates = false;       ///< the name must be in the certificate
};
/// `in_certificate`: its common name and DNS names. forbidden or not_supported, for people at both ends: names no
/// secret.
[[nodiscard]] expected<void> check_peer(const peer_rules& rules, const peer_greeting& g,
                                        const std::vector<std::string>& in_certificate);

}  // namespace caravan
