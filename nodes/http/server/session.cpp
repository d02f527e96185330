#include "nodes/http/server/session.hpp"

#include "nodes/http/server/rank.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <charconv>

namespace caravan::http {

namespace {

namespace asio = boost::asio;
namespace beast_http = boost::beast::http;

constexpr std::size_t small_read = 4096;           // what an idle connection costs
constexpr std::size_t large_read = 64u << 10;      // for bodies
constexpr std::size_t pipeline_limit = 64u << 10;  // read ahead while a request runs
constexpr std::size_t joined_body = 16u << 10;     // smaller bodies are copied behind their head: one write
constexpr std::size_t write_quota = 64u << 10;     // what a reader must take within each write_deadline

std::string_view view(boost::beast::string_view s) { return {s.data(), s.size()}; }

std::string without_breaks(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\r' || c == '\n' || c == '\0'; }, ' ');
  return text;
}

void append_number(std::string& out, std::uint64_t n, int base = 10) {
  char text[20];
  out.append(text, std::to_chars(text, text + sizeof text, n, base).ptr);
}

}  // namespace

session::session(engine& e, std::shared_ptr<io_loop> loop, std::unique_ptr<transport> t, std::string remote)
    : engine_(e), loop_(std::move(loop)), transport_(std::move(t)), remote_(std::move(remote)), timer_(loop_->io) {}

void session::start() {
  if (engine_.stopping()) return close();
  expire_after(engine_.settings.header_deadline);
  arm_timer();
  transport_->handshake(shared_from_this());
}

void session::start_refused() {
  refused_ = true;
  start();
}

void session::on_ready(error_code ec) {
  if (state_ == state::closed) return;
  if (ec) return close();
  if (refused_) {
    close_after_ = true;
    auto r = problem(503, "too_many_connections", "this node has all the connections it may have: try again later");
    r.headers.push_back({"Retry-After", "1"});
    return respond(std::move(r));
  }
  state_ = state::idle;  // the header deadline runs on: a client that never says a word need not stay for long
  read_more();
}

// -- reading
// ------------------------------------------------------------------------------------------------------------

void session::read_more() {
  if (read_pending_ || state_ == state::closed) return;
  if (input_ended_) {
    // A client may end its side and still wait for the answer to what it sent, but there is nothing else to come.
    if (state_ == state::idle || state_ == state::head || state_ == state::body || state_ == state::lingering) close();
    return;
  }
  buffer_.resize(state_ == state::body ? large_read : small_read);
  if (state_ == state::idle && buffer_.capacity() > small_read) buffer_.shrink_to_fit();
  read_pending_ = true;
  transport_->read(asio::buffer(buffer_), shared_from_this());
}

void session::on_read(error_code ec, std::size_t bytes) {
  read_pending_ = false;
  if (state_ == state::closed) return;
  if (ec) {
    input_ended_ = true;
    left_->store(true, std::memory_order_relaxed);
    const auto still_needed = (state_ == state::running && !waits_) || state_ == state::writing;
    if (ec != asio::error::eof || !still_needed) close();
    return;
  }
  switch (state_) {
    case state::streaming:
      close_after_ = true;  // a request behind a stream is not kept; closing tells the client to repeat it
      return read_more();
    case state::lingering:
      return read_more();
    case state::running:
    case state::writing:
      in_.append(buffer_, 0, bytes);
      if (state_ == state::running && in_.size() - in_at_ < pipeline_limit) read_more();
      return;
    default:
      in_.append(buffer_, 0, bytes);
      if (!interim_) pump();
  }
}

void session::pump() {
  // Each round takes a step of one request; a request that is whole leaves the loop.
  bool more_needed = false;
  while (!more_needed && in_at_ < in_.size()) {
    if (state_ == state::idle) {
      // Some clients end a body with a line break too many.
      if (in_[in_at_] == '\r' || in_[in_at_] == '\n') {
        ++in_at_;
        continue;
      }
      begin_head();
    }
    if (state_ == state::head)
      more_needed = !advance_head();
    else if (state_ == state::body)
      more_needed = !advance_body();
    else
      break;
  }
  if (in_at_ == in_.size()) {
    in_.clear();
    in_at_ = 0;
    if (in_.capacity() > large_read) in_.shrink_to_fit();
  } else if (in_at_ >= large_read) {
    in_.erase(0, in_at_);
    in_at_ = 0;
  }
  if (state_ == state::body)
    wait_for_body();
  else if (state_ == state::idle || state_ == state::head || state_ == state::running)
    read_more();
}

void session::begin_head() {
  state_ = state::head;
  began_ = clock::now();
  expire_after(engine_.settings.header_deadline);
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(engine_.settings.max_header));
  parser_->body_limit(engine_.settings.max_body);
  header_bytes_ = 0;
  method_.clear();
  path_.clear();
  request_ = {};
  target_ = nullptr;
  refusal_.reset();
  wants_continue_ = false;
  old_version_ = false;
  keep_alive_ = false;
}

bool session::advance_head() {
  error_code ec;
  const auto used = parser_->put(asio::buffer(in_.data() + in_at_, in_.size() - in_at_), ec);
  in_at_ += used;
  header_bytes_ += used;
  if (ec && ec != beast_http::error::need_more) {
    fail(ec);
    return true;
  }
  // The parser limits only what it has not yet taken: header lines that arrive one by one would never end.
  const auto done = parser_->is_header_done();
  if (header_bytes_ + (done ? 0 : in_.size() - in_at_) > engine_.settings.max_header) {
    fail(beast_http::error::header_limit);
    return true;
  }
  if (!done) return false;
  judge_head();
  state_ = state::body;
  if (parser_->is_done()) {
    handle();
  } else {
    parser_->eager(true);
    expire_after(engine_.settings.body_deadline);
  }
  return true;
}

/// Everything that can be refused is refused before a body is read, and before a client sends one it asks to send.
void session::judge_head() {
  const auto& head = parser_->get();
  old_version_ = head.version() < 11;
  keep_alive_ = head.keep_alive();
  method_ = view(head.method_string());
  std::size_t hosts = 0;
  for (const auto& f : head) {
    const auto name = view(f.name_string());
    const auto value = view(f.value());
    request_.headers.add(std::string{name}, std::string{value});
    if (equal_any_case(name, "Host")) ++hosts;
    // The parser takes an encoding that it does not know for no body at all; what follows would be read as a request.
    if (equal_any_case(name, "Transfer-Encoding") && !refusal_) {
      if (old_version_)
        refusal_ = problem({errc::invalid_argument, "HTTP/1.0 has no Transfer-Encoding"});
      else if (!equal_any_case(value, "chunked"))
        refusal_ = problem({errc::not_supported, "the only Transfer-Encoding understood here is chunked"});
      if (refusal_) keep_alive_ = false;
    }
    if (equal_any_case(name, "Expect")) {
      wants_continue_ = !old_version_ && equal_any_case(value, "100-continue");
      if (!wants_continue_ && !refusal_)
        refusal_ = problem(417, "expectation_failed", "the only Expect understood here is 100-continue");
    }
  }
  if (refusal_) return;
  if (hosts > 1 || (hosts == 0 && !old_version_)) {
    refusal_ = problem({errc::invalid_argument, "exactly one Host header is needed"});
    return;
  }
  auto target = view(head.target());
  if (!target.starts_with('/')) {  // "GET http://host/path", as to a proxy
    const auto scheme = target.find("://");
    const auto slash = scheme == std::string_view::npos ? scheme : target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? std::string_view{} : target.substr(slash);
  }
  const auto mark = std::min(target.find('?'), target.size());
  path_ = target.substr(0, mark);
  auto query = parse_query(target.substr(std::min(mark + 1, target.size())));
  auto match = engine_.routes.find(method_, path_);
  if (!query || match.result == route_match::verdict::bad_path) {
    refusal_ = problem({errc::invalid_argument, "the path or the query is not properly encoded"});
    return;
  }
  refusal_ = engine_.doors.refuse_origin(method_, request_.headers);
  if (refusal_) return;
  if (match.result == route_match::verdict::no_path) {
    refusal_ = problem({errc::not_found, "there is nothing at " + path_});
    return;
  }
  if (match.result == route_match::verdict::no_method) {
    refusal_ = problem(405, "method_not_allowed", method_ + " is not possible here, only " + match.allow);
    refusal_->headers.push_back({"Allow", std::move(match.allow)});
    return;
  }
  request_.granted = engine_.doors.granted(method_, request_.headers);
  refusal_ = engine_.doors.refusal(match.target->needed, request_.granted, gate::has_token(request_.headers));
  target_ = match.target;
  request_.query = std::move(*query);
  request_.params = std::move(match.params);
}

bool session::advance_body() {
  error_code ec;
  in_at_ += parser_->put(asio::buffer(in_.data() + in_at_, in_.size() - in_at_), ec);
  if (ec && ec != beast_http::error::need_more) {
    fail(ec);
    return true;
  }
  if (parser_->is_done()) {
    handle();
    return true;
  }
  // What the parser leaves is one chunk's header or the trailer, which it does not limit at all.
  if (in_.size() - in_at_ > engine_.settings.max_header) {
    fail(beast_http::error::header_limit);
    return true;
  }
  return ec != beast_http::error::need_more;
}

void session::wait_for_body() {
  if (refusal_) {  // no reason to read on
    close_after_ = true;
    return respond(std::move(*refusal_));
  }
  if (wants_continue_) {
    wants_continue_ = false;
    interim_ = true;
    out_[0] = "HTTP/1.1 100 Continue\r\n\r\n";
    return write_more();
  }
  read_more();
}

void session::handle() {
  state_ = state::running;
  began_ = clock::now();
  deadline_ = clock::time_point::max();
  ++id_;
  if (refusal_) return respond(std::move(*refusal_));
  request_.method = method_;
  request_.path = path_;
  request_.remote = remote_;
  request_.body = std::move(parser_->get().body());
  const auto level = engine_.entrance ? rank_of(method_, target_->needed) : std::nullopt;
  if (!level) return call_handler(nullptr);
  const auto [verdict, number] = engine_.entrance->arrive(*level, {loop_, weak_from_this(), id_});
  if (verdict == toolbox::admission::go) return call_handler(std::make_shared<door::place>(engine_.entrance));
  waits_ = number;
  if (verdict == toolbox::admission::refused) turned_away(id_);
}

void session::admitted(std::uint64_t id, std::shared_ptr<door::place> place) {
  if (id != id_ || !std::exchange(waits_, std::nullopt)) return;
  if (state_ == state::running) call_handler(std::move(place));
}

void session::turned_away(std::uint64_t id) {
  if (id != id_ || !std::exchange(waits_, std::nullopt) || state_ != state::running) return;
  auto r = problem(503, "overloaded", "more requests come in than this node can answer: try again later");
  r.headers.push_back({"Retry-After", "1"});
  respond(std::move(r));
}

void session::call_handler(std::shared_ptr<door::place> place) {
  const responder answer{std::make_shared<exchange>(loop_, weak_from_this(), id_, left_, std::move(place),
                                                    engine_.settings.stream_messages, engine_.settings.stream_bytes)};
  try {
    target_->call(std::move(request_), answer);
  } catch (const std::exception& e) {
    // The text may hold anything, also what the caller must not see.
    engine_.report(method_ + " " + path_ + ": the handler threw: " + e.what());
    answer.reply(problem(500, "internal", "the node failed to handle this request; see its log"));
  } catch (...) {
    engine_.report(method_ + " " + path_ + ": the handler threw something that is no std::exception");
    answer.reply(problem(500, "internal", "the node failed to handle this request; see its log"));
  }
}

void session::fail(error_code ec) {
  close_after_ = true;  // where the next request would begin is unknown
  if (ec == beast_http::error::header_limit)
    return respond(problem(431, "header_too_large",
                           "the request's headers exceed " + std::to_string(engine_.settings.max_header) + " bytes"));
  if (ec == beast_http::error::body_limit || ec == beast_http::error::buffer_overflow)
    return respond(problem(
        {errc::too_large, "the request's body exceeds " + std::to_string(engine_.settings.max_body) + " bytes"}));
  respond(problem({errc::invalid_argument, "malformed request: " + ec.message()}));
}

// -- writing
// ------------------------------------------------------------------------------------------------------------

void session::answer(std::uint64_t id, response r) {
  if (state_ == state::running && id == id_) respond(std::move(r));
}

void session::append_head(std::string& out, const response& r, std::optional<std::size_t> length, bool chunked) {
  out.append("HTTP/1.1 ");
  append_number(out, static_cast<std::uint64_t>(r.status));
  out.append(" ").append(reason_of(r.status)).append("\r\nDate: ").append(loop_->date()).append("\r\n");
  if (!r.content_type.empty()) out.append("Content-Type: ").append(without_breaks(r.content_type)).append("\r\n");
  for (const auto& h : r.headers)
    out.append(without_breaks(h.name)).append(": ").append(without_breaks(h.value)).append("\r\n");
  if (length) {
    out.append("Content-Length: ");
    append_number(out, *length);
    out.append("\r\n");
  }
  if (chunked) out.append("Transfer-Encoding: chunked\r\n");
  if (close_after_)
    out.append("Connection: close\r\n");
  else if (old_version_)
    out.append("Connection: keep-alive\r\n");
  out.append("\r\n");
}

void session::respond(response r) {
  state_ = state::writing;
  if (!keep_alive_ || engine_.stopping()) close_after_ = true;
  if (r.status < 200 || r.status > 599) r.status = 500;
  status_ = r.status;
  const auto bodiless = r.status == 204 || r.status == 304;
  append_head(out_[0], r, bodiless ? std::nullopt : std::optional{r.body.size()}, false);
  if (!bodiless && method_ != "HEAD") {
    if (r.body.size() <= joined_body)
      out_[0].append(r.body);
    else
      out_[1] = std::move(r.body);
  }
  write_more();
}

void session::write_more() {
  if (progress_ == 0) expire_after(engine_.settings.write_deadline);
  write_pending_ = true;
  const auto& piece = out_[out_piece_];
  transport_->write(asio::buffer(piece.data() + out_at_, piece.size() - out_at_), shared_from_this());
}

void session::on_written(error_code ec, std::size_t bytes) {
  write_pending_ = false;
  if (state_ == state::closed) return;
  if (ec) return close();
  sent_ += bytes;
  out_at_ += bytes;
  progress_ += bytes;
  if (progress_ >= write_quota) progress_ = 0;
  if (out_at_ < out_[out_piece_].size()) return write_more();
  out_at_ = 0;
  if (out_piece_ == 0 && !out_[1].empty()) {
    out_piece_ = 1;
    return write_more();
  }
  out_piece_ = 0;
  progress_ = 0;
  for (auto& piece : out_) {
    piece.clear();
    if (piece.capacity() > joined_body) piece.shrink_to_fit();
  }
  written();
}

void session::written() {
  if (interim_) {
    interim_ = false;
    sent_ = 0;
    expire_after(engine_.settings.body_deadline);
    return pump();
  }
  if (state_ == state::streaming) return next_messages();
  log_access();
  if (stream_) std::exchange(stream_, nullptr)->finish();
  if (hasty_ && in_at_ == in_.size()) return close();
  if (close_after_) return linger();
  next_request();
}

void session::next_request() {
  state_ = state::idle;
  expire_after(engine_.settings.idle_deadline);
  parser_.reset();
  pump();
}

void session::linger() {
  // A plain close with unread input makes the kernel throw away what the client has not yet read, our answer included.
  state_ = state::lingering;
  parser_.reset();
  in_ = {};
  in_at_ = 0;
  expire_after(engine_.settings.linger);
  arm_timer();
  transport_->finish(shared_from_this());
  read_more();
}

// -- streams
// ------------------------------------------------------------------------------------------------------------

void session::start_stream(std::uint64_t id, std::shared_ptr<stream_state> stream, const std::string& content_type) {
  if (state_ != state::running || id != id_) return stream->finish();
  state_ = state::streaming;
  stream_ = std::move(stream);
  status_ = 200;
  events_ = content_type.starts_with("text/event-stream");
  chunked_ = !old_version_;
  if (!keep_alive_ || !chunked_ || engine_.stopping()) close_after_ = true;
  response head{200, content_type, {{"Cache-Control", "no-cache"}}, ""};
  if (events_) head.headers.push_back({"X-Accel-Buffering", "no"});  // nginx would collect events
  append_head(out_[0], head, std::nullopt, chunked_);
  if (method_ == "HEAD" || engine_.stopping()) stream_->end();
  if (method_ == "HEAD") state_ = state::writing;
  read_more();  // how a leaving client is noticed
  write_more();
}

void session::flush_stream() {
  if (state_ == state::streaming && !write_pending_) next_messages();
}

void session::next_messages() {
  auto batch = stream_->take();
  auto& out = out_[0];
  const auto chunk = [this, &out](std::string_view text) {
    if (text.empty()) return;  // an empty chunk would end the body
    if (chunked_) {
      append_number(out, text.size(), 16);
      out.append("\r\n");
    }
    out.append(text);
    if (chunked_) out.append("\r\n");
  };
  for (const auto& message : batch.messages) chunk(message);
  if (batch.last) {
    state_ = state::writing;
    if (chunked_) out.append("0\r\n\r\n");
  }
  if (!out.empty()) return write_more();
  if (batch.last) return written();
  if (!batch.messages.empty()) return next_messages();  // all were empty
  if (events_)
    expire_after(engine_.settings.heartbeat);
  else
    deadline_ = clock::time_point::max();
}

// -- ends
// ---------------------------------------------------------------------------------------------------------------

void session::stop_soon() {
  switch (state_) {
    case state::handshake:
    case state::idle:
    case state::head:
      return close();
    case state::writing:
      // An answer that did not announce the end: its client sits on an idle connection and would let us linger.
      hasty_ = !close_after_;
      close_after_ = true;
      return;
    case state::streaming:
      close_after_ = true;
      return stream_->end();
    default:
      return;
  }
}

void session::cut() { close(); }

void session::log_access() {
  const auto took = began_ == clock::time_point{} ? clock::duration{0} : clock::now() - began_;
  engine_.log({method_, path_, status_, std::chrono::duration_cast<std::chrono::microseconds>(took), sent_, remote_,
               target_ ? target_->needed : role::anyone, request_.granted});
  sent_ = 0;
  status_ = 0;
}

void session::close() {
  if (state_ == state::closed) return;
  const auto self = shared_from_this();
  constexpr int client_closed_request = 499;  // nginx's number; no client ever sees it
  if (state_ == state::running) status_ = client_closed_request;
  const auto unlogged = state_ == state::running || state_ == state::writing || state_ == state::streaming;
  state_ = state::closed;
  if (const auto number = std::exchange(waits_, std::nullopt)) engine_.entrance->give_up(*number);
  left_->store(true, std::memory_order_relaxed);
  if (unlogged) log_access();
  timer_.cancel();
  transport_->close();
  if (stream_) std::exchange(stream_, nullptr)->finish();
  engine_.gone(*loop_, *this);
}

/// The timer is never moved when a deadline is: it wakes after the shortest one and looks. So a fast request costs no
/// timer operation at all.
void session::arm_timer() {
  armed_until_ = std::min(deadline_, clock::now() + engine_.shortest_deadline);
  timer_.expires_at(armed_until_);
  timer_.async_wait([self = shared_from_this()](error_code ec) {
    if (!ec && self->state_ != state::closed) self->on_deadline();
  });
}

void session::on_deadline() {
  const auto now = clock::now();
  if (now < armed_until_) return;  // overtaken by a later arm_timer()
  if (now < deadline_) return arm_timer();
  switch (state_) {
    case state::head:
    case state::body:
      if (interim_) return close();
      close_after_ = true;
      respond(problem(408, "request_timeout", "the request did not arrive in time"));
      break;
    case state::streaming:
      if (write_pending_) return close();
      out_[0] = chunked_ ? "3\r\n:\n\n\r\n" : ":\n\n";
      write_more();
      break;
    default:
      return close();
  }
  arm_timer();
}

}  // namespace caravan::http
