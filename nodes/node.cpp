#include <caravan/node.hpp>

#include "nodes/function_runner.hpp"
#include "nodes/node_runtime.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <typeinfo>

namespace caravan {

namespace {
std::string type_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : type.name();
}
}  // namespace

node::node(node_options options) : runtime_(std::make_unique<node_runtime>(options)) {}

expected<std::unique_ptr<node>> node::start(node_options options) {
  try {
    return std::make_unique<node>(std::move(options));
  } catch (const exception& e) {
    return e.why();
  }
}

node::~node() = default;

caravan::limit node::limit(const std::string& name) { return caravan::limit(runtime_->limits().find(name).value()); }

string_cache node::cache(const std::string& name) { return runtime_->caches().open(name).value(); }

std::shared_ptr<queue_port> node::create_raw(const std::string& name, uniqueness unique, raw_handler handler,
                                             const std::type_info& type) {
  const auto how = unique == uniqueness::simple   ? node_runtime::uniqueness::simple
                   : unique == uniqueness::unique ? node_runtime::uniqueness::unique
                                                  : node_runtime::uniqueness::as_configured;
  return runtime_->create(name, how, handler ? make_function_runner(std::move(handler)) : nullptr, type_name(type)).value();
}

std::vector<queue_info> node::queues() const {
  std::vector<queue_info> list;
  for (const auto& q : runtime_->all())
    if (auto i = q->info()) list.push_back(std::move(*i));
  return list;
}

std::shared_ptr<queue_port> node::find_queue(std::string_view name) const { return runtime_->find(name); }
std::shared_ptr<queue_port> node::find_queue(std::uint64_t id) const { return runtime_->find(id); }

expected<void> node::flush_all(std::chrono::milliseconds timeout) {
  expected<void> answer;
  for (const auto& q : runtime_->all())
    if (auto ok = q->flush(timeout); !ok && answer) answer = ok;
  return answer;
}

caravan::cron node::cron() const { return caravan::cron(runtime_->tasks()); }

caravan::events node::events() const { return caravan::events(runtime_->events()); }

locks node::locks() { return runtime_->locks().face(); }
std::size_t node::stop() { return runtime_->stop(); }
std::uint16_t node::http_port() const { return runtime_->http_port(); }

}  // namespace caravan
