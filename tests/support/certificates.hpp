#pragma once

#include "nodes/peer/peer_door.hpp"
#include "tests/support/temp_folder.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace caravan::testing_support {

/// A CA of its own and a certificate for each node, as examples/cluster makes them.
class certificates {
public:
  /// `names` with blanks between.
  explicit certificates(const std::string& names) {
    const auto command = std::string(CARAVAN_SOURCE_DIR) + "/examples/cluster/make_certificates.sh '" +
                         folder_.path().string() + "' " + names + " >/dev/null";
    if (std::system(command.c_str()) != 0) throw std::runtime_error("make_certificates.sh failed");
  }
  [[nodiscard]] peer_tls of(const std::string& name) const {
    const auto at = folder_.path().string() + "/";
    return {at + name + ".pem", at + name + ".key", at + "ca.pem"};
  }

private:
  temp_folder folder_;
};

}  // namespace caravan::testing_support
