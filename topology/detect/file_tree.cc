#include "topology/detect/file_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "base/fd.h"

namespace collctl::topology {
namespace {

constexpr int kMaxLinks = 40;  // of one path, as in the kernel

std::deque<std::string> parts_of(const std::string& path) {
  std::deque<std::string> parts;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (end > at) parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string parent_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The run of digits at a position, without leading zeros.
std::string number_at(const std::string& text, size_t& at) {
  const size_t begin = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  const size_t first = std::min(text.find_first_not_of('0', begin), at);
  return text.substr(first, at - first);
}

}  // namespace

bool natural_less(const std::string& a, const std::string& b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::string x = number_at(a, i), y = number_at(b, j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else if (a[i] != b[j]) {
      return a[i] < b[j];
    } else {
      ++i, ++j;
    }
  }
  // Equal but for zeros: any order, but always the same.
  return i == a.size() && j == b.size() ? a < b : i == a.size();
}

std::optional<std::string> FileTree::real_path(const std::string& path) {
  if (path.size() > kMaxTreePath) return std::nullopt;
  std::deque<std::string> left = parts_of(path);
  std::string at;  // the root
  int links = 0;
  while (!left.empty()) {
    const std::string part = left.front();
    left.pop_front();
    if (part == ".") continue;
    if (part == "..") {
      at = parent_of(at);  // the root's parent is the root
      continue;
    }
    const std::string next = at + "/" + part;
    if (next.size() > kMaxTreePath) return std::nullopt;
    const TreeEntry found = entry(next);
    if (found.kind == EntryKind::none) return std::nullopt;
    if (found.kind != EntryKind::link) {
      if (found.kind == EntryKind::file && !left.empty()) return std::nullopt;
      at = next;
      continue;
    }
    if (++links > kMaxLinks || found.target.size() > kMaxTreePath) return std::nullopt;
    if (!found.target.empty() && found.target[0] == '/') at.clear();
    const std::deque<std::string> inserted = parts_of(found.target);
    left.insert(left.begin(), inserted.begin(), inserted.end());
  }
  return at.empty() ? "/" : at;
}

std::optional<std::string> FileTree::read(const std::string& path) {
  const auto real = real_path(path);
  auto text = real ? content(*real) : std::nullopt;
  if (text && text->find('\0') != std::string::npos) return std::nullopt;  // no text
  while (text && !text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
  return text;
}

std::vector<std::string> FileTree::list(const std::string& path) {
  const auto real = real_path(path);
  std::vector<std::string> all = real ? names(*real) : std::vector<std::string>();
  std::sort(all.begin(), all.end(), natural_less);
  return all;
}

DiskTree::DiskTree(std::string root) : root_(std::move(root)) {
  while (!root_.empty() && root_.back() == '/') root_.pop_back();
}

TreeEntry DiskTree::entry(const std::string& path) {
  struct stat facts {};
  const std::string full = root_ + path;
  if (::lstat(full.c_str(), &facts) != 0) return {};
  if (S_ISREG(facts.st_mode)) return {EntryKind::file, ""};
  if (S_ISDIR(facts.st_mode)) return {EntryKind::folder, ""};
  if (!S_ISLNK(facts.st_mode)) return {};
  std::string target(kMaxTreePath, '\0');
  const ssize_t n = ::readlink(full.c_str(), target.data(), target.size());
  if (n < 0 || size_t(n) == target.size()) return {};
  target.resize(size_t(n));
  return {EntryKind::link, target};
}

std::optional<std::string> DiskTree::content(const std::string& path) {
  // Not blocking: a copied tree may hold a pipe where a file is expected.
  const base::Fd file(
      ::open((root_ + path).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  std::string text;
  char buffer[8192];
  ssize_t n;
  while ((n = ::read(file.get(), buffer, sizeof buffer)) > 0) {
    text.append(buffer, size_t(n));
    if (text.size() > kMaxTreeFileBytes) return std::nullopt;
  }
  if (n < 0) return std::nullopt;
  return text;
}

std::vector<std::string> DiskTree::names(const std::string& path) {
  std::vector<std::string> all;
  DIR* const folder = ::opendir((root_ + path).c_str());
  if (folder == nullptr) return all;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string name = entry->d_name;
    if (name != "." && name != ".." && all.size() < kMaxTreeEntries) all.push_back(name);
  }
  ::closedir(folder);
  return all;
}

MemoryTree::MemoryTree(TreeNodes nodes) : nodes_(std::move(nodes)) {
  TreeNodes folders;
  for (const auto& [path, unused] : nodes_)
    for (std::string at = parent_of(path); !at.empty(); at = parent_of(at))
      if (!folders.try_emplace(at, TreeNode{EntryKind::folder, ""}).second) break;
  nodes_.merge(folders);
}

TreeEntry MemoryTree::entry(const std::string& path) {
  const auto found = nodes_.find(path);
  if (found == nodes_.end()) return {};
  return {found->second.kind, found->second.kind == EntryKind::link ? found->second.text : ""};
}

std::optional<std::string> MemoryTree::content(const std::string& path) {
  const auto found = nodes_.find(path);
  if (found == nodes_.end() || found->second.kind != EntryKind::file) return std::nullopt;
  return found->second.text;
}

std::vector<std::string> MemoryTree::names(const std::string& path) {
  std::vector<std::string> all;
  const std::string inside = path == "/" ? path : path + "/";
  for (auto at = nodes_.lower_bound(inside);
       at != nodes_.end() && at->first.compare(0, inside.size(), inside) == 0; ++at)
    if (at->first.find('/', inside.size()) == std::string::npos)
      all.push_back(at->first.substr(inside.size()));
  return all;
}

TreeEntry RecordingTree::entry(const std::string& path) {
  TreeEntry found = from_.entry(path);
  // A file counts when it is read; listed only, it is kept empty: its name alone was of interest.
  if (found.kind != EntryKind::none && unreadable_.count(path) == 0)
    taken_.try_emplace(path, TreeNode{found.kind, found.target});
  return found;
}

std::optional<std::string> RecordingTree::content(const std::string& path) {
  auto text = from_.content(path);
  if (text) {
    taken_[path] = {EntryKind::file, *text};
  } else if (from_.entry(path).kind == EntryKind::file) {
    taken_.erase(path);  // there, but not to be read: for the reader it is not there
    unreadable_.insert(path);
  }
  return text;
}

std::vector<std::string> RecordingTree::names(const std::string& path) {
  std::vector<std::string> all = from_.names(path);
  if (!all.empty()) taken_.try_emplace(path, TreeNode{EntryKind::folder, ""});
  for (const std::string& name : all) (void)entry((path == "/" ? "" : path) + "/" + name);
  return all;
}

}  // namespace collctl::topology
