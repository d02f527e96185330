#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

namespace caravan {

/// A folder for one test, gone at its end together with what stands beside it under the same name.
class temp_folder {
public:
  temp_folder() {
    static std::atomic<int> next{0};
    path_ = (std::filesystem::temp_directory_path() /
             ("caravan-test-" + std::to_string(::getpid()) + "-" + std::to_string(++next)))
                .string();
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  temp_folder(const temp_folder&) = delete;
  temp_folder& operator=(const temp_folder&) = delete;
  ~temp_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

private:
  std::string path_;
};

}  // namespace caravan
