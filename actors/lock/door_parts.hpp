#pragma once

/// What the files of the door share.

#include "actors/lock/lock_core.hpp"

#include <caravan/error.hpp>

#include <chrono>
#include <exception>
#include <string>

namespace caravan {

/// milliseconds::max(): until released.
inline std::chrono::milliseconds left_of(lock_core::time_point until, lock_core::time_point now) {
  if (until == lock_core::never) return std::chrono::milliseconds::max();
  return until <= now ? std::chrono::milliseconds{0} : std::chrono::floor<std::chrono::milliseconds>(until - now);
}

/// A store that throws has failed.
template <class Call>
auto guarded(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception& e) {
    return error{errc::backend_failed, std::string("the store of the locks threw: ") + e.what()};
  }
}

}  // namespace caravan
