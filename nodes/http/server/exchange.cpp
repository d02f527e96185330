#include "nodes/http/server/exchange.hpp"

#include "nodes/http/server/session.hpp"

namespace caravan::http {

// -- stream_state
// -------------------------------------------------------------------------------------------------------

void stream_state::wake() {
  (void)loop_->post([owner = owner_] {
    if (const auto s = owner.lock()) s->flush_stream();
  });
}

bool stream_state::send(std::string message) {
  {
    const std::lock_guard guard{mutex_};
    if (ending_ || finished_) return false;
    const auto too_much = !waiting_.empty() && bytes_ + message.size() > max_bytes_;
    if (waiting_.size() < max_messages_ && !too_much) {
      bytes_ += message.size();
      waiting_.push_back(std::move(message));
      if (scheduled_) return true;
      scheduled_ = true;
      wake();
      return true;
    }
    // Too slow. A gap in the events would be worse than a new connection, which goes on after Last-Event-ID.
    ending_ = true;
    waiting_.clear();
    bytes_ = 0;
  }
  (void)loop_->post([owner = owner_] {
    if (const auto s = owner.lock()) s->cut();
  });
  return false;
}

void stream_state::end() {
  const std::lock_guard guard{mutex_};
  if (ending_ || finished_) return;
  ending_ = true;
  if (scheduled_) return;
  scheduled_ = true;
  wake();
}

bool stream_state::closed() {
  const std::lock_guard guard{mutex_};
  return ending_ || finished_;
}

std::size_t stream_state::waiting() {
  const std::lock_guard guard{mutex_};
  return waiting_.size();
}

void stream_state::on_close(std::function<void()> callback) {
  {
    const std::lock_guard guard{mutex_};
    if (!finished_) {
      on_close_.swap(callback);
      return;
    }
  }
  if (callback) callback();
}

stream_state::batch stream_state::take() {
  const std::lock_guard guard{mutex_};
  batch b;
  b.messages.swap(waiting_);
  bytes_ = 0;
  b.last = ending_;
  scheduled_ = b.last || !b.messages.empty();
  return b;
}

void stream_state::finish() {
  std::function<void()> callback;
  std::deque<std::string> dropped;
  {
    const std::lock_guard guard{mutex_};
    if (finished_) return;
    finished_ = true;
    callback.swap(on_close_);
    dropped.swap(waiting_);
  }
  if (callback) callback();
}

// -- exchange
// -----------------------------------------------------------------------------------------------------------

exchange::~exchange() {
  if (!answered_.load())
    reply(problem(500, "no_answer", "the node gave no answer to this request; whether it was carried out is unknown"));
}

bool exchange::reply(response answer) {
  if (answered_.exchange(true)) return false;
  step_aside();
  if (loop_->here()) {
    if (const auto s = owner_.lock()) s->answer(id_, std::move(answer));
    return true;
  }
  (void)loop_->post([owner = owner_, id = id_, answer = std::move(answer)]() mutable {
    if (const auto s = owner.lock()) s->answer(id, std::move(answer));
  });
  return true;
}

std::shared_ptr<stream_state> exchange::stream(std::string content_type) {
  auto state = std::make_shared<stream_state>(loop_, owner_, stream_messages_, stream_bytes_);
  if (answered_.exchange(true)) {
    state->finish();
    return state;
  }
  step_aside();
  auto begin = [owner = owner_, id = id_, state, type = std::move(content_type)]() mutable {
    if (const auto s = owner.lock())
      s->start_stream(id, std::move(state), type);
    else
      state->finish();
  };
  if (loop_->here())
    begin();
  else if (!loop_->post(begin))
    state->finish();
  return state;
}

// -- the public handles
// -------------------------------------------------------------------------------------------------

bool event_stream::send(std::string message) const { return handle_ && handle_->state->send(std::move(message)); }

void event_stream::close() const {
  if (handle_) handle_->state->end();
}

bool event_stream::closed() const { return !handle_ || handle_->state->closed(); }

std::size_t event_stream::waiting() const { return handle_ ? handle_->state->waiting() : 0; }

void event_stream::on_close(std::function<void()> callback) const {
  if (handle_)
    handle_->state->on_close(std::move(callback));
  else if (callback)
    callback();
}

bool responder::reply(response answer) const { return exchange_ && exchange_->reply(std::move(answer)); }

event_stream responder::stream(std::string content_type) const {
  if (!exchange_) return {};
  return event_stream{std::make_shared<stream_handle>(exchange_->stream(std::move(content_type)))};
}

void responder::step_aside() const {
  if (exchange_) exchange_->step_aside();
}

bool responder::client_left() const { return !exchange_ || exchange_->client_left(); }

}  // namespace caravan::http
