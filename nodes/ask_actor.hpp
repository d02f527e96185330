#pragma once

/// Asking an actor from a thread that may wait. For I/O threads, which may not, there is http/ask.hpp.

#include "messages/caf_error.hpp"
#include "nodes/foreign_thread.hpp"

#include <caravan/error.hpp>

#include <caf/all.hpp>

#include <chrono>
#include <string>

namespace caravan {

/// `who` stands in the text of a timeout: "queue \"mail\": did not answer within 10000 ms".
template <class Reply, class Actor, class Message>
[[nodiscard]] expected<Reply> ask_actor(caf::actor_system& system, const Actor& whom, const Message& what,
                                        std::chrono::milliseconds timeout, const std::string& who) {
  const foreign_thread here;
  caf::scoped_actor self{system};
  expected<Reply> answer{errc::timed_out, who + " did not answer within " + std::to_string(timeout.count()) + " ms"};
  self->request(whom, timeout, what)
      .receive([&](Reply& r) { answer = std::move(r); },
               [&](caf::error& e) {
                 if (e != caf::sec::request_timeout) answer = from_caf(e);
               });
  return answer;
}

}  // namespace caravan
