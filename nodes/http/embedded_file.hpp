#pragma once

/// The files of web/, which the build puts into the program.

#include <span>
#include <string_view>

namespace caravan::http {

struct embedded_file {
  std::string_view path;  ///< "pages/queues.js"
  std::string_view content;
  std::string_view hash;  ///< SHA-256, in hexadecimal digits
};

[[nodiscard]] std::span<const embedded_file> embedded_files();

}  // namespace caravan::http
