#include "base/user_cache.h"

#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/env.h"
#include "base/format.h"
#include "base/whole_file.h"

namespace collctl::base {
namespace {

// Empty where the variables name no absolute path, or are another user's (set-uid).
std::string cache_root() {
  if (::getauxval(AT_SECURE) != 0) return "";
  std::string given = environment("XDG_CACHE_HOME").value_or("");
  if (given.starts_with('/')) return given;
  const std::string home = environment("HOME").value_or("");
  return home.starts_with('/') ? home + "/.cache" : "";
}

std::string folder_of(const std::string& root) {
  return root + "/collctl";
}

// Where somebody else may write, they may replace what is in there.
Status check_folder(const std::string& folder) {
  struct stat found {};
  if (::stat(folder.c_str(), &found) != 0)
    return errno_error(ErrorCode::unavailable, folder, errno);
  if (!S_ISDIR(found.st_mode)) return Error(ErrorCode::unavailable, folder + ": not a folder");
  if (found.st_uid != ::geteuid() || (found.st_mode & 022) != 0)
    return Error(ErrorCode::unavailable, format("{}: it belongs to user {} and has mode {:o}",
                                                folder, found.st_uid, found.st_mode & 07777));
  return {};
}

Status make_folder() {
  const std::string root = cache_root();
  if (root.empty()) return Error(ErrorCode::unavailable, "neither XDG_CACHE_HOME nor HOME is set");
  for (const std::string& folder : {root, folder_of(root)})
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
      return errno_error(ErrorCode::unavailable, "cannot make " + folder, errno);
  return check_folder(folder_of(root));
}

}  // namespace

std::string cache_path(const std::string& name) {
  const std::string root = cache_root();
  return root.empty() ? "" : folder_of(root) + "/" + name;
}

Result<std::optional<std::string>> read_cached(const std::string& name, size_t most) {
  const std::string path = cache_path(name);
  struct stat found {};
  if (path.empty() || ::lstat(path.c_str(), &found) != 0) return std::optional<std::string>();
  COLL_ASSIGN(std::string text, read_trusted_file(path, most));
  return std::optional(std::move(text));
}

std::vector<std::string> cached_names(const std::string& prefix) {
  std::vector<std::string> names;
  if (cache_root().empty()) return names;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder_of(cache_root()), failed), end;
       !failed && at != end; at.increment(failed))
    if (std::string name = at->path().filename().string(); name.starts_with(prefix))
      names.push_back(std::move(name));
  std::ranges::sort(names);
  return names;
}

Status write_cached(const std::string& name, const std::string& content) {
  COLL_TRY(make_folder());
  return write_file_atomically(cache_path(name), content, 0600);
}

Status try_cached(const std::string& name, size_t bytes) {
  const std::string trial = format("{}.try-{}", name, ::getpid());
  COLL_TRY(write_cached(trial, std::string(bytes, ' ')));
  ::unlink(cache_path(trial).c_str());
  return {};
}

}  // namespace collctl::base
