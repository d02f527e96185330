#pragma once

/// A record as bytes, the same in memory and on disk. docs/formats.md describes it byte by byte.

#include "messages/record.hpp"

#include <string>
#include <string_view>

namespace caravan {

// On disk: the latest version. Version 2 has two parts more, and only records that use them are written as such. To change
// it: add a version in record_codec.cpp, keep reading all others, and add the bytes that the old code wrote to the tests.
inline constexpr std::uint8_t record_version = 2;

enum class decode_result : std::uint8_t {
  ok,
  damaged,  ///< the checksum or the structure is wrong
  newer,    ///< written by a later version of this program
};

/// Replaces `out`. `id` is not among the bytes, but in their checksum: a record under a wrong key is found out.
void encode_record(const record& r, std::string& out);

/// Fills everything but `state`. `out` is in no defined state unless the answer is ok.
[[nodiscard]] decode_result decode_record(item_id id, std::string_view bytes, record& out);

/// The same checks, for the digest and what it is held for.
[[nodiscard]] decode_result decode_digest(item_id id, std::string_view bytes, key_digest& out, key_hold& hold);

}  // namespace caravan
