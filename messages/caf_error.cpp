#include "messages/caf_error.hpp"

#include <caf/atom.hpp>
#include <caf/sec.hpp>

namespace caravan {

caf::atom_value error_category() noexcept { return caf::atom("caravan"); }

caf::error to_caf(const error& e) {
  return caf::error{static_cast<std::uint8_t>(e.code), error_category(), caf::make_message(e.text)};
}

error from_caf(const caf::error& e) {
  if (e && e.category() == error_category()) {
    const auto& context = e.context();
    const auto code = static_cast<errc>(e.code());
    if (!context.empty() && context.match_element<std::string>(0)) return {code, context.get_as<std::string>(0)};
    return {code, std::string(to_string(code))};
  }
  if (e == caf::sec::request_timeout) return {errc::timed_out, "no answer in time; whether it was done is unknown"};
  if (e == caf::sec::request_receiver_down || e == caf::sec::cannot_connect_to_node)
    return {errc::queue_closed, "the actor that was asked is gone"};
  return {errc::backend_failed, "an actor answered with an error of the runtime: " + caf::to_string(e)};
}

}  // namespace caravan
