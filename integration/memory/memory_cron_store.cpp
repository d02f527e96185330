#include "integration/memory/memory_cron_store.hpp"

namespace caravan {

expected<memory_cron_store::found> memory_cron_store::read(const std::string& task) {
  found out;
  if (clock_) out.now = clock_();
  const std::lock_guard lock(mutex_);
  if (const auto at = rows_.find(task); at != rows_.end()) out.bytes = at->second;
  return out;
}

expected<bool> memory_cron_store::replace(const std::string& task, const std::optional<std::string>& was,
                                          const std::string& bytes) {
  const std::lock_guard lock(mutex_);
  const auto at = rows_.find(task);
  if (was ? at == rows_.end() || at->second != *was : at != rows_.end()) return false;
  rows_[task] = bytes;
  return true;
}

}  // namespace caravan
