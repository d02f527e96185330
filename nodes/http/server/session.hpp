#pragma once

/// Private to the server. One connection: reads requests one after the other, has them handled, writes the answers.
///
///   handshake ──> idle ──> head ──> body ──> running ──> writing ──┬──> idle
///                                              └──> streaming ──> writing ──> lingering ──> closed
///
/// All of it happens on the loop's thread. A request that cannot be served jumps to writing.

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "nodes/http/server/engine.hpp"
#include "nodes/http/server/exchange.hpp"
#include "nodes/http/server/transport.hpp"

namespace caravan::http {

class session final : public transport_user, public std::enable_shared_from_this<session> {
public:
  session(engine& e, std::shared_ptr<io_loop> loop, std::unique_ptr<transport> t, std::string remote);

  void start();
  /// Too many connections: says so and closes.
  void start_refused();

  /// Ignored unless `id` is the request that runs.
  void answer(std::uint64_t id, response r);
  void start_stream(std::uint64_t id, std::shared_ptr<stream_state> stream, const std::string& content_type);
  void flush_stream();

  /// What the door says about a request that waits there; ignored unless it is the one at hand.
  void admitted(std::uint64_t id, std::shared_ptr<door::place> place);
  void turned_away(std::uint64_t id);

  /// Closes when nothing runs, else after the answer.
  void stop_soon();
  /// Closes now.
  void cut();

  void on_ready(error_code ec) override;
  void on_read(error_code ec, std::size_t bytes) override;
  void on_written(error_code ec, std::size_t bytes) override;

private:
  enum class state { handshake, idle, head, body, running, writing, streaming, lingering, closed };
  using clock = std::chrono::steady_clock;
  using parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  // Reading.
  void pump();
  void read_more();
  void begin_head();
  bool advance_head();
  void judge_head();
  bool advance_body();
  void wait_for_body();
  void handle();
  void call_handler(std::shared_ptr<door::place> place);
  void fail(error_code ec);

  // Writing.
  void respond(response r);
  void append_head(std::string& out, const response& r, std::optional<std::size_t> length, bool chunked);
  void write_more();
  void written();
  void next_request();
  void linger();
  void next_messages();
  void end_stream_body(std::string& out);

  void log_access();
  void close();
  void expire_after(std::chrono::milliseconds d) { deadline_ = clock::now() + d; }
  void arm_timer();
  void on_deadline();

  engine& engine_;
  const std::shared_ptr<io_loop> loop_;
  const std::unique_ptr<transport> transport_;
  const std::string remote_;
  state state_ = state::handshake;

  boost::asio::steady_timer timer_;
  clock::time_point deadline_ = clock::time_point::max();
  clock::time_point armed_until_{};

  std::string buffer_;  // where the transport reads to
  std::string in_;      // read, not yet parsed from in_at_ on
  std::size_t in_at_ = 0;
  bool read_pending_ = false;
  bool input_ended_ = false;

  // The request at hand.
  std::optional<parser> parser_;
  std::size_t header_bytes_ = 0;
  std::string method_;
  std::string path_;
  request request_;
  const route_target* target_ = nullptr;
  std::optional<response> refusal_;  // decided from the head; the body is only read past
  bool wants_continue_ = false;
  bool old_version_ = false;  // HTTP/1.0
  bool keep_alive_ = false;
  std::uint64_t id_ = 0;
  std::optional<door::ticket> waits_;  // at the door, for the request id_
  clock::time_point began_{};
  const std::shared_ptr<std::atomic<bool>> left_ = std::make_shared<std::atomic<bool>>(false);

  // The answer at hand.
  std::string out_[2];  // head (with a small body), large body
  std::size_t out_piece_ = 0;
  std::size_t out_at_ = 0;
  std::size_t progress_ = 0;  // bytes since the write deadline was set
  bool write_pending_ = false;
  bool interim_ = false;  // a "100 Continue" is on its way
  bool close_after_ = false;
  bool hasty_ = false;    // the server stops: close without lingering
  bool refused_ = false;  // one connection too many
  int status_ = 0;
  std::uint64_t sent_ = 0;
  std::shared_ptr<stream_state> stream_;
  bool chunked_ = false;
  bool events_ = false;  // text/event-stream, so comments are allowed
};

}  // namespace caravan::http
