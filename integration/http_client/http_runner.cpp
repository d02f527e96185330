#include "integration/http_client/http_runner.hpp"

#include "integration/http_client/http_answer.hpp"
#include "integration/process/handler_json.hpp"
#include "integration/process/sigpipe_guard.hpp"
#include "toolbox/pool.hpp"

#include <curl/curl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <variant>

namespace caravan {

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using http_client::target_guard;
using std::chrono::milliseconds;
using kind = item_outcome::kind;

/// How long a worker stays with a batch that is not sent: a short pause is over then, and items go round slowly.
constexpr milliseconds longest_hold = 1s;
constexpr milliseconds refused_hold = 250ms;

struct easy_deleter {
  void operator()(CURL* x) const { ::curl_easy_cleanup(x); }
};
struct multi_deleter {
  void operator()(CURLM* x) const { ::curl_multi_cleanup(x); }
};
struct url_deleter {
  void operator()(CURLU* x) const { ::curl_url_cleanup(x); }
};
struct list_deleter {
  void operator()(curl_slist* x) const { ::curl_slist_free_all(x); }
};
using header_lines = std::unique_ptr<curl_slist, list_deleter>;

/// What one call at a time uses. The multi handle is there for its wake-up, the only way to end a call from outside
/// at once, and keeps the connection.
struct session {
  std::unique_ptr<CURLM, multi_deleter> multi{::curl_multi_init()};
  std::unique_ptr<CURL, easy_deleter> easy{::curl_easy_init()};
};

session open_session() {
  session fresh;
  // curl makes a multi handle without a wake-up when it finds no descriptors for one: a stop would go unheard.
  if (fresh.multi && ::curl_multi_wakeup(fresh.multi.get()) != CURLM_OK) fresh.multi.reset();
  return fresh;
}

/// A call's use of a session. However it ends, the easy handle leaves its multi handle, as it must before either is
/// used again, and forgets the options, which point into the call; connection, names and TLS sessions stay.
class attached {
public:
  explicit attached(session& s) : session_(s) {}
  ~attached() {
    ::curl_multi_remove_handle(session_.multi.get(), session_.easy.get());
    ::curl_easy_reset(session_.easy.get());
  }
  attached(const attached&) = delete;
  attached& operator=(const attached&) = delete;
  CURLMcode attach() { return ::curl_multi_add_handle(session_.multi.get(), session_.easy.get()); }

private:
  session& session_;
};

struct body_sink {
  std::string bytes;
  std::size_t limit = 0;
  bool is_cut = false;
};

/// What callbacks and curl report about one call.
struct call_notes {
  body_sink sink;
  int socket_error = 0;
  char problem[CURL_ERROR_SIZE] = "";
};

extern "C" std::size_t caravan_take_body(char* data, std::size_t size, std::size_t count, void* to) noexcept {
  auto& sink = *static_cast<body_sink*>(to);
  const auto n = size * count;
  const auto room = sink.limit - sink.bytes.size();
  try {
    sink.bytes.append(data, std::min(n, room));
  } catch (...) {
    return 0;  // ends the transfer; no exception may pass through curl
  }
  if (n <= room) return n;
  sink.is_cut = true;
  return 0;
}

/// Opens the socket itself: curl would let it leak into programs that the application starts, and hides why it failed.
extern "C" curl_socket_t caravan_open_socket(void* code, curlsocktype, curl_sockaddr* address) noexcept {
  const int fd = ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  if (fd < 0) *static_cast<int*>(code) = errno;
  return fd < 0 ? CURL_SOCKET_BAD : fd;
}

void add_header(header_lines& lines, const std::string& line) {
  auto* longer = ::curl_slist_append(lines.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  (void)lines.release();
  lines.reset(longer);
}

std::string header_of(CURL* easy, const char* name) {
  curl_header* found = nullptr;
  return ::curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &found) == CURLHE_OK ? found->value : "";
}

std::string part_of(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (::curl_url_get(url, part, &text, 0) != CURLUE_OK) return {};
  std::string result = text;
  ::curl_free(text);
  return result;
}

void start_curl() {
  static const auto rc = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  if (rc != CURLE_OK) throw std::runtime_error(std::string("libcurl does not start: ") + ::curl_easy_strerror(rc));
}

/// How a transfer ended on our side.
enum class ending { complete, deadline, stop };

/// "RUN_ID": X-Caravan-Run-Id.
std::string header_name(std::string_view fact) {
  std::string out = "X-Caravan-";
  bool first = true;
  for (const char c : fact) {
    out += c == '_' ? '-' : first || c < 'A' || c > 'Z' ? c : static_cast<char>(c - 'A' + 'a');
    first = c == '_';
  }
  return out;
}

class http_runner final : public runner {
public:
  http_runner(std::string url, std::string shown_url, http_options options)
      : url_(std::move(url)),
        shown_url_(handlers::readable(shown_url)),
        who_("POST " + shown_url_),
        options_(std::move(options)),
        guard_(options_.guard),
        // No limit: each worker needs one, and a call that does not come back must not cost the others theirs.
        sessions_(toolbox::pool<session>::no_limit, open_session, {.max_age = options_.max_idle}) {}

  batch_result run(const batch& work, const run_context& ctx) override {
    if (!work.items || work.items->empty()) return {};
    const auto size = work.items->size();
    const auto started = clock::now();
    if (ctx.stop.stop_requested() && !handlers::is_past_deadline(ctx, started))
      return whole_batch(size, kind::unhandled, "");
    if (started >= ctx.deadline) return whole_batch(size, kind::failed, who_ + " was not sent: its time was over");
    std::optional<target_guard::call> permit;
    if (auto refused = ask_guard(ctx, size, permit)) return std::move(*refused);

    const handlers::sigpipe_guard no_sigpipe;  // also for connections that have grown old, which close here
    auto used = sessions_.get();
    if (!used->multi || !used->easy) {
      used.discard();
      return whole_batch(size, kind::later, who_ + " cannot be sent now: out of memory or descriptors");
    }
    return call(*used, work, ctx, started, *permit);
  }

  [[nodiscard]] std::string describe() const override { return shown_url_; }
  [[nodiscard]] std::string restraint() const override { return guard_.restraint(); }

private:
  /// The permit, or what becomes of the batch without one.
  std::optional<batch_result> ask_guard(const run_context& ctx, std::size_t size,
                                        std::optional<target_guard::call>& permit) {
    for (bool waited = false;; waited = true) {
      auto may = guard_.begin();
      if (auto* call = std::get_if<target_guard::call>(&may)) {
        permit.emplace(std::move(*call));
        return std::nullopt;
      }
      const auto& refused = std::get<target_guard::refusal>(may);
      const bool paused = refused.why == target_guard::reason::paused;
      const auto hold = waited ? 0ms : std::min(refused.delay, paused ? longest_hold : refused_hold);
      if (!stay(ctx, hold) && !handlers::is_past_deadline(ctx, clock::now()))
        return whole_batch(size, kind::unhandled, "");
      // A short pause is over now.
      if (paused && !waited && hold == refused.delay && clock::now() < ctx.deadline) continue;
      return whole_batch(size, kind::later, who_ + " " + refused.text,
                         std::max<milliseconds>(refused.delay - hold, 1ms));
    }
  }

  batch_result call(session& used, const batch& work, const run_context& ctx, clock::time_point started,
                    target_guard::call& permit) {
    const auto size = work.items->size();
    const auto body = http_client::request_body(work, ctx);
    const auto headers = request_headers(work, ctx, body);
    call_notes notes;
    auto& sink = notes.sink;
    sink.limit = options_.body_limit;
    auto* easy = used.easy.get();
    CURLcode code = CURLE_OK;
    long status = 0;
    http_client::answer got;
    {
      attached transfer(used);
      prepare(easy, body, headers.get(), notes);
      if (transfer.attach() != CURLM_OK)
        return whole_batch(size, kind::later, who_ + " cannot be sent now: out of memory");
      const auto how = wait(used, ctx, code);
      if (how == ending::stop) return whole_batch(size, kind::unhandled, "");
      if (how == ending::deadline) {
        permit.failed();
        const auto ran_for = std::chrono::duration_cast<milliseconds>(clock::now() - started);
        return whole_batch(size, kind::failed, who_ + " timed out after " + handlers::to_text(ran_for));
      }
      ::curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
      got = {static_cast<int>(status), std::move(sink.bytes), sink.is_cut, header_of(easy, "Retry-After"),
             header_of(easy, "Location")};
    }
    // A body beyond our limit is ended by us; the status is as good as ever.
    if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && sink.is_cut)) {
      const auto now = std::chrono::floor<milliseconds>(std::chrono::system_clock::now());
      auto result = http_client::to_result(work, got, who_, now, options_.max_delay);
      const auto pause = http_client::parse_retry_after(got.retry_after, now, options_.max_delay).value_or(0ms);
      // One that says when to come back works; it is only busy.
      if ((got.status == 429 || got.status == 503) && pause > 0ms)
        guard_.pause(pause, got.status);
      else if (got.status >= 500)
        permit.failed();
      else
        permit.succeeded();
      return result;
    }
    if (!is_shortage(code, notes)) permit.failed();
    return not_answered(size, code, notes, got);
  }

  /// False: asked to stop meanwhile.
  static bool stay(const run_context& ctx, milliseconds length) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    const auto until = std::min(clock::now() + length, ctx.deadline);
    return !stopped.wait_until(lock, ctx.stop, until, [&] { return ctx.stop.stop_requested(); });
  }

  static bool is_shortage(CURLcode code, const call_notes& notes) {
    return code == CURLE_OUT_OF_MEMORY || notes.socket_error == EMFILE || notes.socket_error == ENFILE ||
           notes.socket_error == ENOMEM || notes.socket_error == ENOBUFS;
  }

  batch_result not_answered(std::size_t size, CURLcode code, const call_notes& notes,
                            const http_client::answer& got) const {
    const auto why = handlers::readable(notes.problem[0] != '\0' ? notes.problem : ::curl_easy_strerror(code));
    if (is_shortage(code, notes))
      return whole_batch(size, kind::later, who_ + " cannot be sent now: out of memory or descriptors");
    if (got.status == 0) return whole_batch(size, kind::failed, who_ + " got no answer: " + why);
    auto text = who_ + " answered " + std::to_string(got.status) + ", but the answer broke off: " + why;
    if (const auto said = handlers::readable(std::string_view(got.body).substr(0, 512)); !said.empty())
      text += ": " + said;
    return whole_batch(size, kind::failed, text);
  }

  void prepare(CURL* easy, const std::string& body, curl_slist* headers, call_notes& notes) const {
    ::curl_easy_setopt(easy, CURLOPT_URL, url_.c_str());
    ::curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    ::curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION,
                       0L);  // a redirected POST changes its method or sends the items to a stranger
    ::curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    // Else the end of a call waits for a name server that does not answer. The resolver's thread then ends by itself.
    ::curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    ::curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));
    ::curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);  // a call without a deadline must notice a host that vanished
    ::curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, caravan_open_socket);
    ::curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, &notes.socket_error);
    ::curl_easy_setopt(easy, CURLOPT_USERAGENT, "caravan/" CARAVAN_VERSION);
    ::curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    ::curl_easy_setopt(easy, CURLOPT_POST, 1L);
    ::curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data());
    ::curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    ::curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, caravan_take_body);
    ::curl_easy_setopt(easy, CURLOPT_WRITEDATA, &notes.sink);
    ::curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, notes.problem);
  }

  header_lines request_headers(const batch& work, const run_context& ctx, const std::string& body) const {
    header_lines lines;
    const auto queue = http_client::header_value(work.queue);
    const auto token = std::to_string(work.token);
    add_header(lines, "Content-Type: application/json");
    add_header(lines, "Accept: application/json");
    add_header(lines, "Expect:");  // else curl asks before a large body and waits a second where nobody answers that
    add_header(lines, "X-Caravan-Queue: " + queue);
    add_header(lines, "X-Caravan-Lease-Token: " + token);
    add_header(lines, "Idempotency-Key: " + queue + "." + token);
    if (const auto trace = handlers::trace_parent(work); !trace.empty()) add_header(lines, "traceparent: " + trace);
    for (const auto& [name, value] : ctx.facts)
      add_header(lines, header_name(name) + ": " + http_client::header_value(value));
    if (!options_.secret.empty()) {
      const auto now =
          std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()).time_since_epoch().count();
      add_header(lines, "X-Caravan-Signature: " + http_client::signature(options_.secret, now, body));
    }
    return lines;
  }

  static ending wait(session& used, const run_context& ctx, CURLcode& code) {
    auto* multi = used.multi.get();
    // curl_multi_wakeup is the one call on a multi handle that other threads may make.
    const std::stop_callback on_stop(ctx.stop, [multi] { ::curl_multi_wakeup(multi); });
    for (;;) {
      int running = 0;
      if (::curl_multi_perform(multi, &running) != CURLM_OK) {
        code = CURLE_OUT_OF_MEMORY;
        return ending::complete;
      }
      int left = 0;
      while (const auto* message = ::curl_multi_info_read(multi, &left)) {
        if (message->msg != CURLMSG_DONE) continue;
        code = message->data.result;
        return ending::complete;
      }
      const auto now = clock::now();
      if (ctx.stop.stop_requested()) return handlers::is_past_deadline(ctx, now) ? ending::deadline : ending::stop;
      if (now >= ctx.deadline) return ending::deadline;
      // The cap also keeps time_point::max() within an int.
      const auto timeout = static_cast<int>(std::min<clock::duration>(ctx.deadline - now, 1min) / 1ms) + 1;
      if (::curl_multi_poll(multi, nullptr, 0, timeout, nullptr) != CURLM_OK) {
        code = CURLE_OUT_OF_MEMORY;
        return ending::complete;
      }
    }
  }

  const std::string url_;
  const std::string shown_url_;
  const std::string who_;
  const http_options options_;
  target_guard guard_;
  toolbox::pool<session> sessions_;
};

}  // namespace

expected<std::unique_ptr<runner>> make_http_runner(std::string_view url, http_options options) {
  const auto refuse = [](const std::string& why) { return error{errc::invalid_argument, "HANDLER: " + why}; };
  start_curl();
  std::unique_ptr<CURLU, url_deleter> parsed(::curl_url());
  if (!parsed) throw std::bad_alloc();
  // The URL itself stays out of these texts: where its password begins is not known.
  if (url.find('\0') != std::string_view::npos) return refuse("the URL holds a NUL byte");
  const auto rc = ::curl_url_set(parsed.get(), CURLUPART_URL, std::string(url).c_str(), 0);
  if (rc == CURLUE_UNSUPPORTED_SCHEME) return refuse("only http:// and https:// URLs can be called");
  if (rc != CURLUE_OK) return refuse(std::string("the URL cannot be read: ") + ::curl_url_strerror(rc));
  const auto scheme = part_of(parsed.get(), CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https")
    return refuse("only http:// and https:// URLs can be called, not " + scheme + "://");
  if (part_of(parsed.get(), CURLUPART_HOST).empty()) return refuse("the URL has no host");
  if (options.connect_timeout <= 0ms) return refuse("the connect timeout must be more than 0");
  if (options.max_idle <= 0ms) return refuse("the longest idle time of a connection must be more than 0");

  const bool has_user =
      !part_of(parsed.get(), CURLUPART_USER).empty() || !part_of(parsed.get(), CURLUPART_PASSWORD).empty();
  const bool has_query = !part_of(parsed.get(), CURLUPART_QUERY).empty();
  ::curl_url_set(parsed.get(), CURLUPART_FRAGMENT, nullptr, 0);
  auto called = part_of(parsed.get(), CURLUPART_URL);
  for (const auto part : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS, CURLUPART_QUERY})
    ::curl_url_set(parsed.get(), part, nullptr, 0);
  auto shown = part_of(parsed.get(), CURLUPART_URL);
  if (has_user) shown.insert(shown.find("://") + 3, "***@");
  if (has_query) shown += "?...";
  return std::unique_ptr<runner>(
      std::make_unique<http_runner>(std::move(called), std::move(shown), std::move(options)));
}

}  // namespace caravan
