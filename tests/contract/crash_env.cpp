#include "tests/contract/crash_env.hpp"

#include <leveldb/env.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

namespace caravan {

namespace fs = std::filesystem;

class crash_env::impl final : public leveldb::EnvWrapper {
public:
  impl() : EnvWrapper(Env::Default()) {}

  /// A file being written, with how much of it is safe.
  class file final : public leveldb::WritableFile {
  public:
    file(impl& disk, std::string name, leveldb::WritableFile* real, std::size_t size)
        : disk_(disk), name_(std::move(name)), real_(real), size_(size) {}
    leveldb::Status Append(const leveldb::Slice& data) override {
      const auto fits = disk_.take(data.size());
      auto status = real_->Append(leveldb::Slice(data.data(), fits));
      // The short part has to be in the file, as write(2) leaves it.
      if (status.ok() && fits < data.size()) {
        (void)real_->Flush();
        status = full(name_);
      }
      size_ += fits;
      return status;
    }
    leveldb::Status Close() override { return real_->Close(); }
    leveldb::Status Flush() override { return real_->Flush(); }
    leveldb::Status Sync() override {
      if (disk_.frozen()) return leveldb::Status::IOError(name_, "the machine stopped");
      const auto status = real_->Sync();
      if (status.ok()) disk_.synced(name_, size_);
      return status;
    }

  private:
    impl& disk_;
    const std::string name_;
    const std::unique_ptr<leveldb::WritableFile> real_;
    std::size_t size_;
  };

  static leveldb::Status full(const std::string& name) {
    return leveldb::Status::IOError(name, "No space left on device");
  }

  leveldb::Status NewWritableFile(const std::string& name, leveldb::WritableFile** result) override {
    *result = nullptr;
    if (is_full()) return full(name);
    if (frozen()) return leveldb::Status::IOError(name, "the machine stopped");
    leveldb::WritableFile* real = nullptr;
    const auto status = target()->NewWritableFile(name, &real);
    if (!status.ok()) return status;
    synced(name, 0);
    *result = new file(*this, name, real, 0);
    return status;
  }
  leveldb::Status NewAppendableFile(const std::string& name, leveldb::WritableFile** result) override {
    *result = nullptr;
    return leveldb::Status::NotSupported(name, "no appending in tests");
  }
  leveldb::Status RenameFile(const std::string& from, const std::string& to) override {
    if (frozen()) return leveldb::Status::IOError(from, "the machine stopped");
    const auto status = target()->RenameFile(from, to);
    const std::lock_guard lock{mutex_};
    if (const auto known = safe_.find(from); status.ok() && known != safe_.end()) {
      safe_[to] = known->second;
      safe_.erase(from);
    }
    return status;
  }
  leveldb::Status RemoveFile(const std::string& name) override {
    if (frozen()) return leveldb::Status::IOError(name, "the machine stopped");
    const std::lock_guard lock{mutex_};
    safe_.erase(name);
    return target()->RemoveFile(name);
  }

  void crash(const std::string& folder) {
    const std::lock_guard lock{mutex_};
    for (const auto& [name, size] : safe_) {
      std::error_code ignored;
      if (name.rfind(folder + "/", 0) == 0 && fs::exists(name)) fs::resize_file(name, size, ignored);
    }
    frozen_ = false;
  }
  void freeze() {
    const std::lock_guard lock{mutex_};
    frozen_ = true;
  }
  [[nodiscard]] bool frozen() const {
    const std::lock_guard lock{mutex_};
    return frozen_;
  }
  void room(std::optional<std::size_t> bytes) {
    const std::lock_guard lock{mutex_};
    room_ = bytes;
  }
  [[nodiscard]] std::size_t syncs() const {
    const std::lock_guard lock{mutex_};
    return syncs_;
  }

private:
  [[nodiscard]] bool is_full() const {
    const std::lock_guard lock{mutex_};
    return room_ && *room_ == 0;
  }
  std::size_t take(std::size_t bytes) {
    const std::lock_guard lock{mutex_};
    if (!room_) return bytes;
    const auto fits = std::min(bytes, *room_);
    *room_ -= fits;
    return fits;
  }
  void synced(const std::string& name, std::size_t size) {
    const std::lock_guard lock{mutex_};
    safe_[name] = size;
    ++syncs_;
  }

  mutable std::mutex mutex_;
  std::map<std::string, std::size_t> safe_;  ///< bytes of each file that a crash leaves
  std::optional<std::size_t> room_;
  bool frozen_ = false;
  std::size_t syncs_ = 0;
};

crash_env::crash_env() : impl_(std::make_unique<impl>()) {}
crash_env::~crash_env() = default;
leveldb::Env* crash_env::env() noexcept { return impl_.get(); }
void crash_env::crash(const std::string& folder) { impl_->crash(folder); }
void crash_env::freeze() { impl_->freeze(); }
void crash_env::fill_after(std::size_t bytes) { impl_->room(bytes); }
void crash_env::free() { impl_->room(std::nullopt); }
std::size_t crash_env::syncs() const { return impl_->syncs(); }

}  // namespace caravan
