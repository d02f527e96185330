#include "nodes/function_runner.hpp"

#include <utility>
#include <vector>

namespace caravan {

namespace {

item_outcome::kind kind_of(context::verdict v) {
  switch (v) {
    case context::verdict::failed: return item_outcome::kind::failed;
    case context::verdict::rejected: return item_outcome::kind::rejected;
    case context::verdict::later: return item_outcome::kind::later;
    case context::verdict::result: return item_outcome::kind::handled;
    case context::verdict::handled:
    case context::verdict::unhandled: break;
  }
  return item_outcome::kind::unhandled;
}

class function_runner final : public runner {
public:
  explicit function_runner(raw_handler handler) : handler_(std::move(handler)) {}

  batch_result run(const batch& work, const run_context& ctx) override {
    std::vector<const std::string*> payloads;
    std::vector<item_facts> facts;
    payloads.reserve(work.items->size());
    facts.reserve(work.items->size());
    for (const auto& r : *work.items) {
      payloads.push_back(&r.payload);
      facts.push_back({r.id, r.attempts + 1, r.key, r.headers});
    }
    context call(work.queue, work.token, ctx.stop, ctx.deadline, std::move(facts));
    handler_(payloads, call);
    batch_result rest;
    for (std::uint32_t i = 0; i < call.outcomes().size(); ++i) {
      const auto& o = call.outcomes()[i];
      if (o.what != context::verdict::handled) rest.push_back({i, kind_of(o.what), o.text, o.delay});
    }
    return rest;
  }

  [[nodiscard]] std::string describe() const override { return "C++ function"; }

private:
  raw_handler handler_;
};

}  // namespace

std::shared_ptr<runner> make_function_runner(raw_handler handler) {
  return std::make_shared<function_runner>(std::move(handler));
}

}  // namespace caravan
