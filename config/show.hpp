#pragma once

/// What a command line prints about settings. Nothing here shows a secret.

#include "config/ini.hpp"

#include <caravan/error.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace caravan::config {

struct shown_setting {
  std::string section;
  std::string key;
  std::string value;  ///< in effect; tokens and passwords as ***
  origin where;
};

/// Every setting in effect and where it comes from: all keys of the supported sections with their defaults, [queue]
/// once for itself and once for each [queue.NAME], and what the file says in sections that this version does not
/// support. A wrong value is shown as it is written: check tells what is wrong with it.
[[nodiscard]] std::vector<shown_setting> show(const ini& from);
/// As a file one could start with, the origins as comments. Secrets are *** there too, so it is for reading.
[[nodiscard]] std::string to_text(const std::vector<shown_setting>& list);

/// About a key ("LENGTH"), a key in a section ("queue.LENGTH", "[queue.mail] LENGTH") or a section ("queue"): what it
/// does, its default, its bounds and where it may stand. not_found names the nearest right name.
[[nodiscard]] expected<std::string> explain(std::string_view name);

/// docs/configuration.md.
[[nodiscard]] std::string configuration_page();

}  // namespace caravan::config
