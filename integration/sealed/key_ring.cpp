#include "integration/sealed/key_ring.hpp"

#include "messages/record.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>

namespace caravan {

namespace {

// On disk: to change it, add a version and keep opening this one.
constexpr auto mark = sealed_mark;
constexpr std::size_t nonce_size = 12;
constexpr std::size_t tag_size = 16;
constexpr std::size_t id_size = 4;

using context = std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)>;

const unsigned char* bytes_of(std::string_view s) { return reinterpret_cast<const unsigned char*>(s.data()); }
unsigned char* bytes_of(std::string& s, std::size_t at) { return reinterpret_cast<unsigned char*>(s.data()) + at; }

std::string hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    out += digits[static_cast<unsigned char>(c) >> 4];
    out += digits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

std::string_view trimmed(std::string_view s) {
  const auto from = s.find_first_not_of(" \t\r");
  return from == std::string_view::npos ? std::string_view{} : s.substr(from, s.find_last_not_of(" \t\r") - from + 1);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::array<unsigned char, 32>> decode_key(std::string_view text) {
  std::array<unsigned char, 32> key{};
  if (text.size() == 64) {
    for (std::size_t i = 0; i < key.size(); ++i) {
      const int high = hex_digit(text[2 * i]);
      const int low = hex_digit(text[2 * i + 1]);
      if (high < 0 || low < 0) return std::nullopt;
      key[i] = static_cast<unsigned char>(high << 4 | low);
    }
    return key;
  }
  std::array<unsigned char, 33> decoded{};
  if (text.size() != 44 || text.back() != '=' || text[42] == '=') return std::nullopt;
  const int n = EVP_DecodeBlock(decoded.data(), bytes_of(text), static_cast<int>(text.size()));
  if (n != 33) return std::nullopt;  // with the byte that the padding stands for
  std::copy_n(decoded.begin(), key.size(), key.begin());
  OPENSSL_cleanse(decoded.data(), decoded.size());
  return key;
}

}  // namespace

expected<key_ring> key_ring::parse(std::string_view text, const std::string& source) {
  key_ring ring;
  std::size_t line = 0;
  while (!text.empty()) {
    ++line;
    const auto end = std::min(text.find('\n'), text.size());
    const auto word = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty() || word.front() == '#') continue;
    const auto bytes = decode_key(word);
    if (!bytes)
      return error{errc::invalid_argument,
                   source + ", line " + std::to_string(line) +
                       ": is no key of 32 bytes in base64 or hexadecimal; make one with: openssl rand -base64 32"};
    key k{*bytes, {}};
    unsigned char hash[SHA256_DIGEST_LENGTH];
    SHA256(k.bytes.data(), k.bytes.size(), hash);
    std::copy_n(hash, id_size, k.id.begin());
    for (const auto& other : ring.keys_)
      if (other.id == k.id)
        return error{errc::invalid_argument,
                     source + ", line " + std::to_string(line) + ": this key stands there already; remove it"};
    ring.keys_.push_back(k);
  }
  if (ring.keys_.empty())
    return error{errc::invalid_argument, source + ": there is no key; make one with: openssl rand -base64 32"};
  return ring;
}

std::string key_ring::seal(std::string_view plain, std::string_view bound_to) const {
  const auto& k = keys_.front();
  std::string out(overhead + plain.size(), '\0');
  std::copy(mark.begin(), mark.end(), out.begin());
  std::copy(k.id.begin(), k.id.end(), bytes_of(out, mark.size()));
  auto* nonce = bytes_of(out, mark.size() + id_size);
  if (RAND_bytes(nonce, nonce_size) != 1) throw std::runtime_error("the machine gives no random bytes");
  auto* to = nonce + nonce_size;
  const context c(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  int n = 0;
  const bool good =
      c && EVP_EncryptInit_ex(c.get(), EVP_aes_256_gcm(), nullptr, k.bytes.data(), nonce) == 1 &&
      EVP_EncryptUpdate(c.get(), nullptr, &n, bytes_of(bound_to), static_cast<int>(bound_to.size())) == 1 &&
      EVP_EncryptUpdate(c.get(), to, &n, bytes_of(plain), static_cast<int>(plain.size())) == 1 &&
      EVP_EncryptFinal_ex(c.get(), to + n, &n) == 1 &&
      EVP_CIPHER_CTX_ctrl(c.get(), EVP_CTRL_GCM_GET_TAG, tag_size, to + plain.size()) == 1;
  if (!good) throw std::runtime_error("OpenSSL cannot encrypt with AES-256-GCM");
  return out;
}

expected<std::string> key_ring::open(std::string_view sealed, std::string_view bound_to) const {
  if (!is_sealed(sealed)) return error{errc::backend_failed, "it is not sealed"};
  const auto id = sealed.substr(mark.size(), id_size);
  const auto k = std::find_if(keys_.begin(), keys_.end(),
                              [&](const key& x) { return std::equal(x.id.begin(), x.id.end(), bytes_of(id)); });
  if (k == keys_.end())
    return error{errc::not_found, "it is sealed with key " + hex(id) +
                                      ", which is not among the keys of ENCRYPT; add that key behind the first"};
  const auto nonce = sealed.substr(mark.size() + id_size, nonce_size);
  const auto body = sealed.substr(overhead - tag_size, sealed.size() - overhead);
  std::string tag(sealed.substr(sealed.size() - tag_size));
  std::string out(body.size(), '\0');
  const context c(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  int n = 0;
  const bool good =
      c && EVP_DecryptInit_ex(c.get(), EVP_aes_256_gcm(), nullptr, k->bytes.data(), bytes_of(nonce)) == 1 &&
      EVP_DecryptUpdate(c.get(), nullptr, &n, bytes_of(bound_to), static_cast<int>(bound_to.size())) == 1 &&
      EVP_DecryptUpdate(c.get(), bytes_of(out, 0), &n, bytes_of(body), static_cast<int>(body.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(c.get(), EVP_CTRL_GCM_SET_TAG, tag_size, tag.data()) == 1 &&
      EVP_DecryptFinal_ex(c.get(), bytes_of(out, 0) + n, &n) == 1;
  if (!good) return error{errc::backend_failed, "it was changed after it was sealed, or belongs to another queue"};
  return out;
}

bool is_sealed(std::string_view bytes) noexcept {
  return bytes.size() >= key_ring::overhead && bytes.starts_with(mark);
}

expected<key_ring> load_key_ring(const std::string& source) {
  if (source.starts_with("env:")) {
    const auto name = source.substr(4);
    const char* text = std::getenv(name.c_str());
    if (!text)
      return error{errc::invalid_argument,
                   "ENCRYPT = " + source + ": there is no such environment variable; set it, one key a line"};
    return key_ring::parse(text, "ENCRYPT = " + source);
  }
  if (!source.starts_with("file:"))
    return error{errc::invalid_argument, "ENCRYPT = " + source + ": write file:PATH or env:NAME"};
  std::ifstream in(source.substr(5), std::ios::binary);
  std::string text;
  std::array<char, 4096> part{};
  // read() and not an iterator, which throws for a folder.
  while (in.read(part.data(), part.size()) || in.gcount() > 0)
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
  if (in.bad() || !in.eof())
    return error{errc::invalid_argument, "ENCRYPT = " + source + ": cannot be read: " + std::strerror(errno)};
  auto ring = key_ring::parse(text, "ENCRYPT = " + source);
  OPENSSL_cleanse(text.data(), text.size());
  return ring;
}

}  // namespace caravan
