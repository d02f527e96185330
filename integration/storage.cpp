#include "integration/storage.hpp"

#include <xxhash.h>

namespace caravan {

using namespace std::chrono;

key_digest digest_of(std::string_view key_or_payload) noexcept {
  // XXH3 is frozen since xxHash 0.8: digests on disk stay valid.
  const auto hash = XXH3_128bits(key_or_payload.data(), key_or_payload.size());
  key_digest result{hash.high64, hash.low64};
  if (!result) result.low = 1;  // all zero means "no key"
  return result;
}

item_id first_id_at(wall_time now) noexcept {
  constexpr wall_time epoch = sys_days{year{2020} / January / 1};
  constexpr std::int64_t last_millisecond = (std::int64_t{1} << 42) - 1;
  // A clock that stands before 2020 still has to hand out valid ids.
  if (now <= epoch) return item_id{1};
  const auto since = (now - epoch).count();
  return item_id{static_cast<std::uint64_t>(since < last_millisecond ? since : last_millisecond) << 22};
}

}  // namespace caravan
