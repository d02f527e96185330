#pragma once

/// The errors that applications, nodes and the wire share.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace caravan {

/// Chosen by what the caller should do next.
/// On the wire and in stored data: append only, never renumber.
enum class errc : std::uint8_t {
  already_in_queue = 1,   ///< nothing to do: an equal item waits already
  queue_full = 2,         ///< wait and push again, or raise LENGTH
  queue_closed = 3,       ///< the queue is stopped or draining; find its owner again
  too_large = 4,          ///< fix the call: the item exceeds the limit named in the text
  backend_failed = 5,     ///< retry with backoff and tell an operator; whether it was written is unknown
  fenced = 6,             ///< another node owns the thing now: stop, never retry here
  not_found = 7,          ///< fix the name
  invalid_argument = 8,   ///< fix the call
  timed_out = 9,          ///< the outcome is unknown: repeat with the same idempotency key
  not_supported = 10,     ///< this backend or build cannot do it
  conflict = 11,          ///< the thing exists already, or is in a state that forbids the call
  unauthorized = 12,      ///< no or a wrong token
  forbidden = 13,         ///< the token's role does not allow it
};

/// The enumerator's own name ("queue_full"); "unknown" for a value from a newer node.
[[nodiscard]] std::string_view to_string(errc code) noexcept;

/// What went wrong: `code` for programs, `text` for people (thing, cause, remedy; never a secret).
struct error {
  errc code = errc::invalid_argument;
  std::string text;

  friend bool operator==(const error&, const error&) = default;
};

/// Thrown only by expected<T>::value() and by constructors that have no other way to refuse.
class exception : public std::runtime_error {
public:
  explicit exception(error cause) : std::runtime_error(cause.text), error_(std::move(cause)) {}
  [[nodiscard]] const error& why() const noexcept { return error_; }

private:
  error error_;
};

/// A value or an error. std::expected in the form C++20 lacks; only what the project needs.
template <class T>
class [[nodiscard]] expected {
public:
  expected(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  expected(error cause) : content_(std::in_place_index<1>, std::move(cause)) {}
  expected(errc code, std::string text) : content_(std::in_place_index<1>, error{code, std::move(text)}) {}

  [[nodiscard]] bool has_value() const noexcept { return content_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  /// Undefined without a value, as with std::expected.
  T& operator*() & noexcept { return *std::get_if<0>(&content_); }
  const T& operator*() const& noexcept { return *std::get_if<0>(&content_); }
  T&& operator*() && noexcept { return std::move(*std::get_if<0>(&content_)); }
  T* operator->() noexcept { return std::get_if<0>(&content_); }
  const T* operator->() const noexcept { return std::get_if<0>(&content_); }

  /// Throws caravan::exception without a value.
  T& value() & {
    if (!has_value()) throw exception(failure());
    return **this;
  }
  const T& value() const& {
    if (!has_value()) throw exception(failure());
    return **this;
  }
  /// By value: `auto&& x = f().value()` must not dangle.
  T value() && {
    if (!has_value()) throw exception(failure());
    return std::move(**this);
  }
  template <class U>
  T value_or(U&& fallback) const& {
    return has_value() ? **this : static_cast<T>(std::forward<U>(fallback));
  }

  /// Undefined with a value.
  [[nodiscard]] const error& failure() const noexcept { return *std::get_if<1>(&content_); }

private:
  std::variant<T, error> content_;
};

template <>
class [[nodiscard]] expected<void> {
public:
  expected() = default;
  expected(error cause) : error_(std::move(cause)), failed_(true) {}
  expected(errc code, std::string text) : error_{code, std::move(text)}, failed_(true) {}

  [[nodiscard]] bool has_value() const noexcept { return !failed_; }
  explicit operator bool() const noexcept { return !failed_; }
  void value() const {
    if (failed_) throw exception(error_);
  }
  [[nodiscard]] const error& failure() const noexcept { return error_; }

private:
  error error_;
  bool failed_ = false;
};

}  // namespace caravan
