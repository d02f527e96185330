#pragma once

/// From INI text to checked settings. Start here: load_configuration, then read_settings; check.hpp for what else to
/// tell an operator. Defaults and bounds are those of the registry.

#include "config/ini.hpp"
#include "config/node_settings.hpp"
#include "config/queue_settings.hpp"

#include <caravan/error.hpp>

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace caravan::config {

/// The file with the environment over it (NAME=value; see process_environment). An empty path: the environment alone.
/// Errors are those of read_ini_file; mistakes inside are in `found`, and a start with errors among them must stop.
[[nodiscard]] expected<parsed_ini> load_configuration(const std::filesystem::path& path,
                                                      std::span<const std::string> environment);

/// All settings, or invalid_argument with every mistake in its text, a line for each.
[[nodiscard]] expected<settings> read_settings(const ini& from);
/// Likewise, with the mistakes and the warnings added to `found`. The result is usable only if none of them is an
/// error.
settings read_settings(const ini& from, problems& found);

/// What [queue.NAME] over [queue] says, also for a queue that no section names. `app_data_path` is what DATADIR is
/// relative to. invalid_argument with every mistake in its text.
[[nodiscard]] expected<queue_settings> read_queue_settings(const ini& from, std::string_view name,
                                                           const std::filesystem::path& app_data_path);
queue_settings read_queue_settings(const ini& from, std::string_view name, const std::filesystem::path& app_data_path,
                                   problems& found);

/// The mistakes in [queue] itself, whether or not some queue inherits them. TYPE and CONN_STR may still not fit
/// together: that is seen queue by queue.
void check_shared_queue_settings(const ini& from, problems& found);

[[nodiscard]] node_settings read_node_settings(const ini& from, problems& found);
[[nodiscard]] http_settings read_http_settings(const ini& from, problems& found);
[[nodiscard]] log_settings read_log_settings(const ini& from, problems& found);
[[nodiscard]] redis_settings read_redis_settings(const ini& from, problems& found);
[[nodiscard]] lock_settings read_lock_settings(const ini& from, problems& found);
/// `own_name`: of this node, which NODES must not forget.
[[nodiscard]] cluster_settings read_cluster_settings(const ini& from, std::string_view own_name, problems& found);

/// The queues that a [queue.NAME] names, in the order of the file.
[[nodiscard]] std::vector<std::string> queue_names(const ini& from);

/// Two queues that would write under one name into one storage, an error for each: they would eat each other's items.
/// For queues that are created later; read_settings has looked at its own.
[[nodiscard]] problems storage_conflicts(const ini& from, std::span<const queue_settings> queues);

/// Letters, digits, - _ and . (no more than 128): what can stand in a URL, a key and a metric unchanged.
[[nodiscard]] bool is_valid_name(std::string_view name) noexcept;

/// The type that a TYPE means, also by its other names; nothing for an unknown one.
[[nodiscard]] std::optional<queue_type> parse_queue_type(std::string_view text);
[[nodiscard]] std::string_view to_string(queue_type type) noexcept;

/// CONN_STR of a queue and where it was set: [queue.NAME], [queue], and for redis [redis] and at last the local one. An
/// empty value in [queue.NAME] hides that of [queue].
struct sourced_text {
  std::string value;
  origin where;
  std::string section;
};
[[nodiscard]] sourced_text queue_conn_str(const ini& from, std::string_view name, queue_type type);

/// Whatever this host answers at is only on the machine itself: 127.*, ::1, localhost.
[[nodiscard]] bool is_loopback(std::string_view host) noexcept;

}  // namespace caravan::config
