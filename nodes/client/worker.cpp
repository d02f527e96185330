#include <caravan/worker.hpp>

#include "nodes/client/remote_worker.hpp"
#include "nodes/function_runner.hpp"

namespace caravan {

using namespace std::chrono_literals;

struct worker::impl {
  std::unique_ptr<remote_worker> remote;
};

namespace {

std::vector<std::string> names_of(std::string_view text) {
  std::vector<std::string> list;
  while (!text.empty()) {
    const auto comma = text.find(',');
    if (const auto name = text.substr(0, comma); !name.empty()) list.emplace_back(name);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return list;
}

}  // namespace

worker::worker(worker_options options, raw_handler handler) : impl_(std::make_unique<impl>()) {
  remote_worker_options o;
  o.addresses = node_addresses::parse(options.addresses).value();
  o.queues = names_of(options.queue);
  if (o.queues.empty()) throw exception({errc::invalid_argument, "a worker needs the name of a queue"});
  if (options.concurrency == 0) throw exception({errc::invalid_argument, "a worker needs a concurrency above 0"});
  if (options.lease < 1s || options.lease > 24h)
    throw exception({errc::invalid_argument, "a worker's lease must be from 1s to 24h"});
  o.calls = {std::move(options.token), std::move(options.tls_ca)};
  o.concurrency = options.concurrency;
  o.batch = options.batch;
  o.name = std::move(options.name);
  o.version = CARAVAN_VERSION;
  o.lease = options.lease;
  o.shutdown_timeout = options.shutdown_timeout;
  o.log = std::move(options.log);
  o.handler = make_function_runner(std::move(handler));
  impl_->remote = std::make_unique<remote_worker>(std::move(o));
}

worker::~worker() = default;

std::size_t worker::stop() { return impl_->remote->stop(); }

void worker::wait() {
  while (!impl_->remote->wait_for_stop(1h)) {
  }
}

worker_figures worker::figures() const {
  const auto f = impl_->remote->figures();
  return {f.claimed, f.handled, f.not_handled, f.handed_back, f.lost};
}

const std::string& worker::name() const { return impl_->remote->name(); }

}  // namespace caravan
