// The kernel's files as the detection reads them: of this machine, of a folder that holds a copy
// of them, of an archive in memory. Paths are absolute, "/sys/class/net"; links are followed as
// the kernel would, but never outside the tree. Nothing here writes. Untrusted trees are fine:
// sizes, numbers of entries and lengths of link chains are bounded. Threads: one at a time.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace collctl::topology {

inline constexpr size_t kMaxTreeFileBytes = size_t{4} << 20;  // proc/cpuinfo of 4096 cores fits
inline constexpr size_t kMaxTreeEntries = 65536;              // of one folder, and of an archive
inline constexpr size_t kMaxTreePath = 4096;

enum class EntryKind : uint8_t { none, file, folder, link };
struct TreeEntry {
  EntryKind kind = EntryKind::none;
  std::string target;  // of a link, as it is written
};

class FileTree {
 public:
  virtual ~FileTree() = default;
  // The whole file without blanks and line ends at its end; nothing when it is not there, is no
  // plain file or no text, cannot be read or is larger than kMaxTreeFileBytes.
  std::optional<std::string> read(const std::string& path);
  // Names in a folder, ordered with numbers by value (mlx5_2 before mlx5_10); none when it is not
  // there.
  std::vector<std::string> list(const std::string& path);
  // The path without links and dots; nothing when it does not exist.
  std::optional<std::string> real_path(const std::string& path);

  // One step of the above: `path` has no links before its last part.
  virtual TreeEntry entry(const std::string& path) = 0;
  virtual std::optional<std::string> content(const std::string& path) = 0;
  virtual std::vector<std::string> names(const std::string& path) = 0;
};

// The files below a folder; "/" is this machine.
class DiskTree : public FileTree {
 public:
  explicit DiskTree(std::string root);
  TreeEntry entry(const std::string& path) override;
  std::optional<std::string> content(const std::string& path) override;
  std::vector<std::string> names(const std::string& path) override;

 private:
  std::string root_;  // without a slash at its end
};

// Contents of a tree, by path. Folders of files need no entry of their own.
struct TreeNode {
  EntryKind kind = EntryKind::file;
  std::string text;  // a file's content, a link's target
  bool operator==(const TreeNode&) const = default;
};
using TreeNodes = std::map<std::string, TreeNode>;

class MemoryTree : public FileTree {
 public:
  explicit MemoryTree(TreeNodes nodes);
  TreeEntry entry(const std::string& path) override;
  std::optional<std::string> content(const std::string& path) override;
  std::vector<std::string> names(const std::string& path) override;

 private:
  TreeNodes nodes_;  // with all folders
};

// Passes on what another tree returns and keeps all of it, so that a tree of `taken` answers alike.
class RecordingTree : public FileTree {
 public:
  explicit RecordingTree(FileTree& from) : from_(from) {}
  TreeEntry entry(const std::string& path) override;
  std::optional<std::string> content(const std::string& path) override;
  std::vector<std::string> names(const std::string& path) override;
  TreeNodes take() { return std::move(taken_); }

 private:
  FileTree& from_;
  TreeNodes taken_;
  std::set<std::string> unreadable_;
};

// "mlx5_2" before "mlx5_10".
bool natural_less(const std::string& a, const std::string& b);

}  // namespace collctl::topology
