#pragma once

/// [cache] and its named sections, e.g. [cache.last_commit]. Each is a cache of its own: what a named section does not
/// say is as in [cache], but its values are apart.

#include "config/cache_settings.hpp"
#include "config/ini.hpp"
#include "config/read_settings.hpp"

#include <caravan/error.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace caravan::config {

/// The caches that a [cache.NAME] names, in the order of the file.
[[nodiscard]] std::vector<std::string> cache_names(const ini& from);

/// What [cache.NAME] over [cache] says, also for a cache that no section names; an empty name: [cache]. A section that
/// sets ADAPTER does not inherit HOST, which would be that of another engine. invalid_argument with every mistake.
[[nodiscard]] expected<cache_settings> read_cache_settings(const ini& from, std::string_view name);
/// Likewise, with the mistakes and the warnings added to `found`.
cache_settings read_cache_settings(const ini& from, std::string_view name, problems& found);

/// HOST of [cache.NAME] (an empty name: [cache]) as it counts, and where it was set: for redis without one it is that
/// of [redis].
[[nodiscard]] sourced_text cache_host(const ini& from, std::string_view name);

/// HOST of ADAPTER = memcache: servers with ; or , between them, each HOST, HOST:PORT, [IPv6]:PORT or the path of a
/// unix socket. invalid_argument that names the wrong part.
[[nodiscard]] expected<std::vector<memcached_host>> parse_memcached_hosts(std::string_view text);

/// HOST of ADAPTER = twoqueue: empty, a size, or {"size":N,"recent_ratio":R,"ghost_ratio":G} with any of them.
/// invalid_argument that names the value.
[[nodiscard]] expected<two_queue_settings> parse_two_queue(std::string_view text);

}  // namespace caravan::config
