#pragma once

/// Queues that pushes made are not in the configuration, but their items outlive the node: so their names are kept in a
/// file of the data folder, and the next start opens them again.

#include <string_view>

namespace caravan {
class node_runtime;
}

namespace caravan::http {

/// Opens what earlier pushes made. One that cannot be opened is in the log; a push tries again.
void open_created(node_runtime& node);
/// Durable when it returns, or in the log why not.
void remember_created(node_runtime& node, std::string_view queue);

}  // namespace caravan::http
