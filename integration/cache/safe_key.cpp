#include <caravan/cache.hpp>

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <new>

namespace caravan {

namespace {

std::string sha256_hex(std::string_view input) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned length = 0;
  // Fails only for want of memory.
  if (EVP_Digest(input.data(), input.size(), digest.data(), &length, EVP_sha256(), nullptr) != 1)
    throw std::bad_alloc();
  std::string out;
  for (unsigned i = 0; i < length; ++i) {
    out += "0123456789abcdef"[digest[i] >> 4];
    out += "0123456789abcdef"[digest[i] & 15];
  }
  return out;
}

}  // namespace

std::string safe_cache_key(std::string_view prefix, std::string_view input, std::size_t limit) {
  const bool plain = !input.empty() && prefix.size() + 3 + input.size() <= limit &&
                     std::all_of(input.begin(), input.end(), [](char c) { return c >= 0x21 && c <= 0x7e; });
  return std::string(prefix) + (plain ? ":s-" + std::string(input) : ":h-" + sha256_hex(input));
}

}  // namespace caravan
