#pragma once

#include "integration/sealed/key_ring.hpp"
#include "integration/storage.hpp"

#include <functional>
#include <memory>
#include <string>

namespace caravan {

struct sealed_options {
  std::string queue;       ///< its name, for texts
  std::string row_prefix;  ///< what sealed items are bound to: queue_full_name, so that they open in no other queue
  bool unique = false;     ///< keys are looked for in what is not sealed yet
  /// An item could not be opened and is dead now. Called on the reading thread; must not block.
  std::function<void(const std::string& text)> report{};
};

/// A storage around `real`: payload, key, last error and headers are sealed in it. Items that were stored before in the
/// clear are read as they are, and sealed when they are written anew. An item that cannot be opened becomes dead with
/// the reason, as it is, so that it can be retried when the right key is there; other items go on. backend_failed: the
/// item that is next in line is sealed with a key that is not in `keys`: a wrong file, most likely.
[[nodiscard]] expected<std::unique_ptr<storage>> seal_storage(std::unique_ptr<storage> real, key_ring keys,
                                                              sealed_options o);

/// For a storage without keys. invalid_argument: the item that is next in line is sealed.
[[nodiscard]] expected<void> check_not_sealed(storage& store, const std::string& queue);

}  // namespace caravan
