#pragma once

/// Who may come in: bearer tokens, host names and foreign pages. Knows tokens only by their hash.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nodes/http/server/server.hpp"

namespace caravan::http {

class gate {
public:
  gate() = default;
  explicit gate(const options& settings);

  /// What the request's token grants; everything when no tokens are set.
  [[nodiscard]] role_set granted(std::string_view method, const fields& headers) const;
  /// Nothing when `needed` is covered, else the 401 or 403 to answer.
  [[nodiscard]] std::optional<response> refusal(role needed, role_set granted, bool had_token) const;
  /// Nothing, or the answer for a foreign page or a host name that is not ours.
  [[nodiscard]] std::optional<response> refuse_origin(std::string_view method, const fields& headers) const;
  [[nodiscard]] static bool has_token(const fields& headers) {
    return headers.find_any_case("Authorization").has_value();
  }

private:
  using digest = std::array<unsigned char, 32>;
  struct entry {
    digest hash;
    role granted;
  };
  [[nodiscard]] role_set look_up(std::string_view token) const;

  std::vector<entry> entries_;
  std::string cookie_;
  std::vector<std::string> hosts_;
};

}  // namespace caravan::http
