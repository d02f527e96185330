#include "integration/redis/redis_value.hpp"

#include <openssl/evp.h>

#include <array>

namespace caravan {

redis_script::redis_script(std::string name, std::string_view text) : name_(std::move(name)), text_(text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr);
  constexpr std::string_view hex = "0123456789abcdef";
  for (unsigned i = 0; i < size; ++i) {
    sha_ += hex[digest[i] >> 4];
    sha_ += hex[digest[i] & 15];
  }
}

}  // namespace caravan
