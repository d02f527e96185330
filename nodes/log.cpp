#include "nodes/log.hpp"

#include <caravan/error.hpp>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>

namespace caravan {

struct node_log::engine {
  std::unique_ptr<spdlog::logger> logger;
  bool json = false;

  void write(spdlog::level::level_enum level, std::string_view what, std::string_view text, const fields& more) {
    if (!logger->should_log(level)) return;
    if (!json) {
      std::string line = std::string(what) + ": " + std::string(text);
      for (const auto& [name, value] : more) line += " " + std::string(name) + "=" + value;
      logger->log(level, spdlog::string_view_t(line.data(), line.size()));
      return;
    }
    const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
    nlohmann::ordered_json line;
    line["at"] = fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)));
    line["ms"] = now.time_since_epoch().count() % 1000;
    line["level"] = std::string(spdlog::level::to_string_view(level).data());
    line["what"] = what;
    line["text"] = text;
    for (const auto& [name, value] : more) line[std::string(name)] = value;
    // Texts may quote what a handler wrote: bytes that are no UTF-8 must not stop the log.
    const auto out = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    logger->log(level, spdlog::string_view_t(out.data(), out.size()));
  }
};

namespace {
spdlog::level::level_enum level_of(config::log_level level) {
  switch (level) {
    case config::log_level::trace: return spdlog::level::trace;
    case config::log_level::debug: return spdlog::level::debug;
    case config::log_level::info: return spdlog::level::info;
    case config::log_level::warn: return spdlog::level::warn;
    case config::log_level::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}
}  // namespace

node_log::node_log(const config::log_settings& settings) : engine_(std::make_unique<engine>()) {
  spdlog::sink_ptr sink;
  const bool terminal = settings.file.empty() && isatty(STDERR_FILENO) == 1;
  try {
    if (!settings.file.empty())
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(settings.file);
    else if (terminal)
      sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    else
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } catch (const spdlog::spdlog_ex& e) {
    throw exception({errc::invalid_argument, "[log] FILE = " + settings.file + ": cannot be opened: " + e.what() +
                                               "; name a file in a folder that this user may write"});
  }
  engine_->json = settings.format == config::log_format::json || (settings.format == config::log_format::automatic && !terminal);
  engine_->logger = std::make_unique<spdlog::logger>("caravan", std::move(sink));
  engine_->logger->set_level(level_of(settings.level));
  engine_->logger->flush_on(spdlog::level::trace);
  engine_->logger->set_pattern(engine_->json ? "%v" : "%H:%M:%S.%e %^%l%$ %v");
}

node_log::~node_log() = default;

void node_log::info(std::string_view what, std::string_view text, const fields& more) {
  engine_->write(spdlog::level::info, what, text, more);
}
void node_log::warn(std::string_view what, std::string_view text, const fields& more) {
  engine_->write(spdlog::level::warn, what, text, more);
}
void node_log::error(std::string_view what, std::string_view text, const fields& more) {
  engine_->write(spdlog::level::err, what, text, more);
}
void node_log::debug(std::string_view what, std::string_view text, const fields& more) {
  engine_->write(spdlog::level::debug, what, text, more);
}

}  // namespace caravan
