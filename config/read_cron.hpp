#pragma once

/// [cron] and [cron.NAME] to checked settings.

#include "config/cron_settings.hpp"
#include "config/ini.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace caravan::config {

/// The tasks that a [cron.NAME] or [cron.NAME.SUB] names, in the order of the file.
[[nodiscard]] std::vector<std::string> cron_names(const ini& from);

/// What [cron.NAME] over [cron] says, also for a task that no section names: a function in an application has its
/// settings there too. A schedule must be good and have a time after `now`. invalid_argument with every mistake in its
/// text.
[[nodiscard]] expected<cron_settings> read_cron_settings(const ini& from, std::string_view name,
                                                         std::chrono::sys_seconds now);
/// Likewise, with the mistakes and the warnings added to `found`.
cron_settings read_cron_settings(const ini& from, std::string_view name, std::chrono::sys_seconds now, problems& found);

/// [cron] STORE.
[[nodiscard]] expected<cron_store_type> read_cron_store(const ini& from);

/// Of every task in the file; and the mistakes in [cron] itself, whether or not some task inherits them.
[[nodiscard]] std::vector<cron_settings> read_cron(const ini& from, std::chrono::sys_seconds now, problems& found);

}  // namespace caravan::config
