#pragma once

/// TYPE = redis: a queue that several nodes have. One of them owns it; all of them push.

#include "nodes/queue_host.hpp"

namespace caravan {

/// Needs parts.shared.
[[nodiscard]] expected<std::shared_ptr<hosted_queue>> make_shared_queue(host_parts parts);

}  // namespace caravan
