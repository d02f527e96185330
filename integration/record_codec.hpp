#pragma once

/// A record as bytes, the same in memory and on disk. docs/formats.md describes version 1 byte by byte.

#include "messages/record.hpp"

#include <string>
#include <string_view>

namespace caravan {

// On disk. To change it: add version 2 in record_codec.cpp, keep reading version 1, and add the bytes that the old code
// wrote to the tests.
inline constexpr std::uint8_t record_version = 1;

enum class decode_result : std::uint8_t {
  ok,
  damaged,  ///< the checksum or the structure is wrong
  newer,    ///< written by a later version of this program
};

/// Replaces `out`. `id` is not among the bytes, but in their checksum: a record under a wrong key is found out.
void encode_record(const record& r, std::string& out);

/// Fills everything but `state`. `out` is in no defined state unless the answer is ok.
[[nodiscard]] decode_result decode_record(item_id id, std::string_view bytes, record& out);

/// The same checks, for the digest alone.
[[nodiscard]] decode_result decode_digest(item_id id, std::string_view bytes, key_digest& out);

}  // namespace caravan
