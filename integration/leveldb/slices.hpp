#pragma once

// Between LevelDB's views and ours. For the .cpp files of this folder only.

#include <leveldb/slice.h>

#include <string_view>

namespace caravan::level {

inline leveldb::Slice slice(std::string_view s) { return {s.data(), s.size()}; }
inline std::string_view view(const leveldb::Slice& s) { return {s.data(), s.size()}; }

}  // namespace caravan::level
