#pragma once

/// A file system for LevelDB that can lose what was not synced and that can be full. For tests.
///
///   crash_env disk;
///   options.env = disk.env();
///   ...
///   disk.crash(folder);      // every file is cut back to what was synced
///   disk.fill();             // writes answer "No space left on device" until free()

#include <cstddef>
#include <memory>
#include <string>

namespace leveldb {
class Env;
}

namespace caravan {

/// Thread safe. Works on real files.
class crash_env {
public:
  crash_env();
  ~crash_env();

  [[nodiscard]] leveldb::Env* env() noexcept;

  /// What a power cut leaves: call it when every storage of the folder is gone, or after freeze().
  void crash(const std::string& folder);
  /// From here on nothing reaches the files any more, as if the machine had stopped; what the program still does at its
  /// end is lost. Ended by crash().
  void freeze();

  /// After `bytes` more the disk is full: a write that does not fit is done as far as it fits.
  void fill_after(std::size_t bytes);
  void fill() { fill_after(0); }
  void free();

  /// Syncs so far, of all files.
  [[nodiscard]] std::size_t syncs() const;

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace caravan
