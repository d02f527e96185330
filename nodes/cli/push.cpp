#include "nodes/cli/client.hpp"
#include "nodes/cli/table.hpp"
#include "nodes/cli/verbs.hpp"
#include "nodes/http/api_json.hpp"
#include "toolbox/backoff.hpp"
#include "toolbox/less_executor.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

namespace caravan::cli {

using namespace std::chrono_literals;
using json = nlohmann::json;

namespace {

constexpr std::size_t chunk_items = 500;
constexpr std::size_t chunk_bytes = 2u << 20;  // well below MAX_BODY
constexpr auto patience = 30s;

struct line {
  std::size_t number = 0;  ///< from 1
  std::string job;         ///< as the API takes it
};

struct outcome {
  std::size_t pushed = 0;
  std::size_t refused = 0;
};

std::string random_run() {
  std::random_device random;
  std::string text;
  for (int i = 0; i < 4; ++i) {
    char part[9];
    std::snprintf(part, sizeof part, "%08x", random());
    text += part;
  }
  return text;
}

/// Sends lines in chunks. A chunk whose answer was lost is sent again under the same idempotency keys, so its items are
/// stored once whatever happened to the first try.
class pusher {
public:
  pusher(client& node, const arguments& given)
      : node_(node),
        queue_(given.get("QUEUE")),
        path_("/v1/queues/" + path_segment(queue_) + "/jobs"),
        run_(given.get("--idempotency-key", random_run())),
        quiet_(given.has("--quiet") || given.has("--json")) {
    for (const auto* name : {"delay", "at", "key", "timeout", "order-by", "deadline", "retry", "unique-until", "unique-for", "retention"})
      if (const auto value = given.find(std::string("--") + name)) {
        std::string field = name;
        std::replace(field.begin(), field.end(), '-', '_');
        common_[field] = *value;
      }
    if (const auto n = given.find("--priority")) {
      const auto value = json::parse(*n, nullptr, false);
      if (!value.is_number_integer()) throw stop(exit_usage, "--priority must be a whole number from -100 to 100");
      common_["priority"] = value;
    }
    if (const auto n = given.find("--max-attempts")) {
      const auto value = json::parse(*n, nullptr, false);
      if (!value.is_number_unsigned()) throw stop(exit_usage, "--max-attempts must be a whole number");
      common_["max_attempts"] = value;
    }
    for (const auto& h : given.all("--header")) {
      const auto middle = h.find('=');
      if (middle == std::string::npos || middle == 0)
        throw stop(exit_usage, "--header " + h + ": write --header name=value");
      common_["headers"][h.substr(0, middle)] = h.substr(middle + 1);
    }
  }

  /// `where`: "line 3", for messages.
  void add(std::string_view payload, std::size_t number) {
    if (const auto ok = http::parse_json(payload); !ok) {
      complain(number, ok.failure().text);
      return;
    }
    auto head = common_;
    head["idempotency_key"] = single_ ? run_ : run_ + "." + std::to_string(number);
    auto text = head.dump(-1, ' ', false, json::error_handler_t::replace);
    text.pop_back();
    text += ",\"payload\":";
    // JSON lines: a line break between two tokens is a blank, and in a string there is none.
    for (const char c : payload) text += c == '\n' || c == '\r' ? ' ' : c;
    text += "}";
    bytes_ += text.size();
    chunk_.push_back({number, std::move(text)});
    if (chunk_.size() >= chunk_items || bytes_ >= chunk_bytes) flush();
  }

  void flush() {
    const auto chunk = std::exchange(chunk_, {});
    bytes_ = 0;
    if (!chunk.empty()) send(chunk);
  }

  void only_one() { single_ = true; }
  [[nodiscard]] const outcome& done() const { return done_; }
  [[nodiscard]] nlohmann::ordered_json& ids() { return ids_; }

private:
  void complain(std::size_t number, const std::string& text) {
    ++done_.refused;
    clear_progress();
    std::fprintf(stderr, "caravan: %s %zu: %s\n", single_ ? "payload" : "line", number, clean(text).c_str());
  }

  void send(const std::vector<line>& lines) {
    http_call call{"POST", path_, {}, "application/x-ndjson"};
    for (const auto& l : lines) call.body.append(l.job).push_back('\n');
    const auto answer = send_until_answered(call);
    if (answer.status == 413 && lines.size() > 1) {
      // One of them is too large; the others must not suffer.
      const auto middle = lines.begin() + static_cast<std::ptrdiff_t>(lines.size() / 2);
      send({lines.begin(), middle});
      send({middle, lines.end()});
      return;
    }
    if (answer.status == 413) return complain(lines.front().number, words_of(answer));
    if (answer.status < 200 || answer.status > 299) {
      clear_progress();
      throw stop(
          exit_refused,
          words_of(answer) + (done_.pushed ? " (" + std::to_string(done_.pushed) + " items were pushed before)" : ""));
    }
    take(lines, answer);
  }

  void take(const std::vector<line>& lines, const http_answer& answer) {
    const auto body = json::parse(answer.body, nullptr, false);
    if (!body.is_object() || !body.contains("jobs") || body["jobs"].size() != lines.size())
      throw stop(exit_refused, node_.url() + " answers with something else than a list of jobs; is it a Caravan node?");
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto& j = body["jobs"][i];
      if (!j.contains("id")) {
        complain(lines[i].number, j.value("error", "refused") + ": job " + j.value("holder", "?") + " waits already");
        continue;
      }
      ++done_.pushed;
      if (!quiet_) {
        clear_progress();
        std::printf("%s\n", clean(j.value("id", "")).c_str());
      }
      if (keep_ids) ids_.push_back(j.value("id", ""));
    }
  }

  http_answer send_until_answered(const http_call& call) {
    const auto end = std::chrono::steady_clock::now() + patience;
    pauses_.reset();
    for (;;) {
      const auto pause = pauses_.next();
      std::string why;
      try {
        auto answer = node_.send(call);
        met_ = true;
        const bool later = answer.status == 429 || answer.status == 503 || answer.status == 504;
        if (!later || std::chrono::steady_clock::now() + pause > end) return answer;
        why = words_of(answer);
      } catch (const stop& s) {
        // Nobody was ever there: that is a wrong address rather than a lost connection.
        if (!met_ || std::chrono::steady_clock::now() + pause > end) throw;
        why = s.what();
      }
      if (why != said_) {
        clear_progress();
        std::fprintf(stderr, "caravan: %s; tries again\n", clean(why).c_str());
        said_ = why;
      }
      std::this_thread::sleep_for(pause);
    }
  }

  static void clear_progress() {
    if (::isatty(STDERR_FILENO) == 1) std::fputs("\r\033[K", stderr);
  }

public:
  bool keep_ids = false;

private:
  client& node_;
  std::string queue_;
  std::string path_;
  std::string run_;
  bool quiet_;
  bool single_ = false;
  bool met_ = false;
  toolbox::backoff pauses_{{.first = 100ms, .most = 2s}};  // spread: others who push meet the same busy node
  std::string said_;
  json common_ = json::object();
  std::vector<line> chunk_;
  std::size_t bytes_ = 0;
  outcome done_;
  nlohmann::ordered_json ids_ = nlohmann::ordered_json::array();
};

/// A line on the terminal, now and then.
class progress {
public:
  explicit progress(std::uintmax_t bytes) : bytes_(bytes) {}
  void show(std::uintmax_t read, std::size_t pushed) {
    if (on_) now_and_then_.run([&] { print(read, pushed); });
  }
  void end() const {
    if (on_) std::fputs("\r\033[K", stderr);
  }

private:
  void print(std::uintmax_t read, std::size_t pushed) const {
    const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    std::string bar;
    if (bytes_ > 0) {
      const auto part = static_cast<double>(read) / static_cast<double>(bytes_);
      const auto full = static_cast<std::size_t>(std::min(part, 1.0) * 30);
      bar = "[" + std::string(full, '#') + std::string(30 - full, '.') + "] " +
            std::to_string(static_cast<int>(part * 100)) + " %  ";
    }
    std::fprintf(stderr, "\r\033[K%s%zu items, %.0f/s", bar.c_str(), pushed,
                 static_cast<double>(pushed) / std::max(seconds, 0.001));
  }

  std::uintmax_t bytes_;
  bool on_ = ::isatty(STDERR_FILENO) == 1;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  toolbox::less_executor now_and_then_{200ms};
};

void push_file(pusher& to, const std::string& file) {
  std::ifstream opened;
  std::uintmax_t size = 0;
  if (file != "-") {
    opened.open(file, std::ios::binary);
    if (!opened) throw stop(exit_usage, "--file " + file + ": cannot be read");
    std::error_code ec;
    if (std::filesystem::is_regular_file(file, ec)) size = std::filesystem::file_size(file, ec);
  }
  std::istream& in = file == "-" ? std::cin : opened;
  progress bar(size);
  std::uintmax_t read = 0;
  std::string text;
  for (std::size_t number = 1; std::getline(in, text); ++number) {
    read += text.size() + 1;
    if (text.find_first_not_of(" \t\r") != std::string::npos) to.add(text, number);
    bar.show(read, to.done().pushed);
  }
  to.flush();
  bar.end();
  if (in.bad()) throw stop(exit_refused, "--file " + file + ": broke off while it was read");
}

exit_code run_push(const arguments& given) {
  const auto payloads = given.all("JSON");
  const auto file = given.find("--file");
  if (payloads.empty() == !file.has_value())
    throw stop(exit_usage, "give payloads as JSON, or a file of them with --file (- for standard input)");
  client node(given);
  pusher to(node, given);
  to.keep_ids = given.has("--json");
  if (file) {
    push_file(to, *file);
  } else {
    if (payloads.size() == 1) to.only_one();
    for (std::size_t i = 0; i < payloads.size(); ++i) to.add(payloads[i], i + 1);
    to.flush();
  }
  const auto& done = to.done();
  if (given.has("--json"))
    print_json({{"pushed", done.pushed}, {"refused", done.refused}, {"ids", std::move(to.ids())}});
  else if (given.has("--quiet"))
    std::printf("%zu\n", done.pushed);
  if (done.refused > 0 && done.pushed + done.refused > 1)
    std::fprintf(stderr, "caravan: %zu items pushed, %zu refused\n", done.pushed, done.refused);
  return done.refused > 0 ? exit_refused : exit_done;
}

}  // namespace

std::vector<verb> push_verbs() {
  return {{"",
           "push",
           "Pushes jobs and prints their ids.",
           {{"QUEUE", "", "The queue", times::once},
            {"JSON", "", "Payloads: any JSON values", times::any},
            {"--file", "FILE", "One payload a line; - is standard input"},
            {"--delay", "DURATION", "Not before this has passed: 5s, 1h30m"},
            {"--at", "TIME", "Not before this instant: 2026-05-01T12:00:00Z"},
            {"--key", "KEY", "In a unique queue: what must not wait twice, instead of the payload"},
            {"--idempotency-key", "KEY",
             "Pushing again with the same key stores nothing twice; several items get KEY.1, KEY.2, ..."},
            {"--max-attempts", "N", "Failed handler calls before the job is dead; 0: as the queue is set"},
            {"--timeout", "DURATION", "Of one handler call"},
            {"--priority", "N", "-100 to 100: above 0 before all others, below 0 behind them"},
            {"--order-by", "KEY", "Jobs that share it are handled one after another (KEY_CONCURRENCY)"},
            {"--deadline", "TIME", "Past this instant the job is dead and no handler is called"},
            {"--retry", "POLICY", "As RETRY: 'exponential 1s..1h', 'linear 30s' or 'list 1s,5s,1m'"},
            {"--unique-until", "WHEN", "start, done or success: how long it keeps equal ones out"},
            {"--unique-for", "DURATION", "Keeps equal ones out for this long, whatever becomes of it"},
            {"--retention", "DURATION", "How long it can be seen when it is finished"},
            {"--header", "NAME=VALUE", "Travels to the handler; may be given again", times::any},
            {"--quiet", "", "Prints how many were pushed instead of their ids"}},
           "caravan push mail '{\"to\": \"ann@example.org\"}' --delay 5m",
           run_push,
           talks_to::node,
           "Sends up to 500 items at a time. When the connection breaks or the node is busy, a chunk is sent again for "
           "up to "
           "30 s, under the same idempotency keys: nothing is stored twice. A line that is no JSON is named and left "
           "out, the "
           "others are pushed; the exit code is then 1, as it is when a unique queue refuses an item."}};
}

}  // namespace caravan::cli
