#pragma once

/// A call that may be refused has to say so without an exception, and C++20 has no std::expected.
/// `outcome<T>` holds a value or a `failure`: what the tools of this folder answer when they cannot do what was asked.
///
///   toolbox::outcome<int> half(int x) {
///     if (x % 2 != 0) return toolbox::failure{toolbox::fault::invalid_argument, "odd"};
///     return x / 2;
///   }
///   if (auto h = half(8)) use(*h);
///   else report(h.error().text);
///
/// Tools that run a caller's function never force this type on it: they take anything that tests true or false
/// (`testable`), such as std::optional, or an expected of the caller's own, and hand it back as it came.
///
/// Threads: a plain value. Errors: value() throws toolbox::error_thrown. Units: none.

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace caravan::toolbox {

/// Chosen by what the caller should do next.
enum class fault : std::uint8_t {
  invalid_argument,  ///< fix the call
  closed,            ///< the tool was stopped: do not call again
  timed_out,         ///< no answer in time: try later, or allow more time
  cancelled,         ///< the caller's own stop token, or a cancel: give up
  busy,              ///< all slots are taken: try later
  rejected,          ///< overload protection refuses: back off
  failed,            ///< the work itself reported an error; see the text
  no_output,         ///< a reducer ended without a result: fix the reducer
};

/// The enumerator's own name.
[[nodiscard]] constexpr const char* to_string(fault code) noexcept {
  switch (code) {
    case fault::invalid_argument:
      return "invalid_argument";
    case fault::closed:
      return "closed";
    case fault::timed_out:
      return "timed_out";
    case fault::cancelled:
      return "cancelled";
    case fault::busy:
      return "busy";
    case fault::rejected:
      return "rejected";
    case fault::failed:
      return "failed";
    case fault::no_output:
      return "no_output";
  }
  return "unknown";
}

/// `code` for programs, `text` for people.
struct failure {
  fault code = fault::failed;
  std::string text;

  friend bool operator==(const failure&, const failure&) = default;
};

/// Thrown by outcome::value() only.
class error_thrown : public std::runtime_error {
public:
  explicit error_thrown(failure cause) : std::runtime_error(cause.text), cause_(std::move(cause)) {}
  [[nodiscard]] const failure& why() const noexcept { return cause_; }

private:
  failure cause_;
};

template <class T>
class [[nodiscard]] outcome {
public:
  using value_type = T;

  outcome(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  outcome(failure cause) : content_(std::in_place_index<1>, std::move(cause)) {}

  [[nodiscard]] bool has_value() const noexcept { return content_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  /// Undefined without a value.
  T& operator*() & noexcept { return *std::get_if<0>(&content_); }
  const T& operator*() const& noexcept { return *std::get_if<0>(&content_); }
  T&& operator*() && noexcept { return std::move(*std::get_if<0>(&content_)); }
  T* operator->() noexcept { return std::get_if<0>(&content_); }
  const T* operator->() const noexcept { return std::get_if<0>(&content_); }

  /// Throws error_thrown without a value.
  T& value() & {
    if (!has_value()) throw error_thrown(error());
    return **this;
  }
  T&& value() && {
    if (!has_value()) throw error_thrown(error());
    return std::move(**this);
  }

  /// Undefined with a value.
  [[nodiscard]] const failure& error() const noexcept { return *std::get_if<1>(&content_); }
  /// True when there is an error and it is this one.
  [[nodiscard]] bool is(fault code) const noexcept { return !has_value() && error().code == code; }

private:
  std::variant<T, failure> content_;
};

template <>
class [[nodiscard]] outcome<void> {
public:
  using value_type = void;

  outcome() = default;
  outcome(failure cause) : cause_(std::move(cause)), failed_(true) {}

  [[nodiscard]] bool has_value() const noexcept { return !failed_; }
  explicit operator bool() const noexcept { return !failed_; }
  void value() const {
    if (failed_) throw error_thrown(cause_);
  }
  [[nodiscard]] const failure& error() const noexcept { return cause_; }
  [[nodiscard]] bool is(fault code) const noexcept { return failed_ && cause_.code == code; }

private:
  failure cause_;
  bool failed_ = false;
};

/// What a caller's function may return when it can fail: true means it went well. Numbers are none: 0 is a number.
template <class R>
concept testable = requires(const R& r) {
  static_cast<bool>(r);
  requires !std::is_arithmetic_v<R> || std::same_as<R, bool>;
};

/// A testable that holds a T when it is true.
template <class R, class T>
concept holder_of = !std::same_as<std::remove_cvref_t<R>, T> && requires(const std::remove_cvref_t<R>& r) {
  static_cast<bool>(r);
  { *r } -> std::convertible_to<const T&>;
};

}  // namespace caravan::toolbox
