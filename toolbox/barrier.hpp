#pragma once

/// A few lines here and a few lines there must never run at the same time. `barrier` runs a function while no other
/// function given to the same barrier runs.
///
///   toolbox::barrier alone;
///   int size = alone.guard([&] { list.push_back(x); return list.size(); });
///
/// Standard: std::mutex with std::lock_guard. (std::barrier is another thing, a meeting point; use it as it is.)
/// Threads: that is what it is for; not recursive. Errors: what the function throws passes through.

#include <mutex>
#include <utility>

namespace caravan::toolbox {

class barrier {
public:
  template <class Work>
  decltype(auto) guard(Work&& work) {
    const std::lock_guard hold{mutex_};
    return std::forward<Work>(work)();
  }

private:
  std::mutex mutex_;
};

}  // namespace caravan::toolbox
