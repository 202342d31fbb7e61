#include "topology/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <memory>

#include "base/format.h"

namespace collctl::topology {
namespace {

constexpr size_t kTarBlock = 512, kTarMagic = 257;

struct Freed {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};
using ReadArchive = std::unique_ptr<archive, decltype(&archive_read_free)>;
using WriteArchive = std::unique_ptr<archive, decltype(&archive_write_free)>;

std::string shown(const std::string& path) {
  std::string safe = path.substr(0, 80);
  for (char& c : safe)
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = '?';
  return safe;
}

// "/sys/class" of "./sys/class/"; nothing for what leads out of the archive.
std::optional<std::string> inner_path(const std::string& text) {
  if (text.empty() || text[0] == '/' || text.size() > kMaxTreePath ||
      text.find('\\') != std::string::npos)
    return std::nullopt;
  std::string path;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('/', at), text.size());
    const std::string part = text.substr(at, end - at);
    at = end + 1;
    if (part == "..") return std::nullopt;
    if (!part.empty() && part != ".") path += "/" + part;
  }
  return path;
}

class Unpacker {
 public:
  Unpacker(std::string_view bytes, std::string name)
      : from_(archive_read_new(), archive_read_free), name_(std::move(name)), bytes_(bytes) {}

  Result<TreeNodes> run() {
    if (bytes_.size() > kMaxArchiveBytes)
      return wrong("larger than {} MiB", kMaxArchiveBytes >> 20);
    if (!from_ || archive_read_support_format_tar(from_.get()) != ARCHIVE_OK ||
        archive_read_support_filter_gzip(from_.get()) != ARCHIVE_OK ||
        archive_read_open_memory(from_.get(), bytes_.data(), bytes_.size()) != ARCHIVE_OK)
      return unreadable();
    archive_entry* entry = nullptr;
    int result;
    while ((result = archive_read_next_header(from_.get(), &entry)) == ARCHIVE_OK ||
           result == ARCHIVE_WARN) {
      if (unpacked() > kMaxArchiveBytes)
        return wrong("unpacks to more than {} MiB", kMaxArchiveBytes >> 20);
      if (++entries_ > kMaxTreeEntries) return wrong("more than {} entries", kMaxTreeEntries);
      COLL_TRY(take(entry));
    }
    if (result != ARCHIVE_EOF) return unreadable();
    return std::move(nodes_);
  }

 private:
  template <class... T>
  Error wrong(fmt::format_string<T...> text, T&&... values) const {
    return {ErrorCode::usage, name_ + ": " + format(text, std::forward<T>(values)...),
            "expected a snapshot that collctl topo --save has made"};
  }
  Error unreadable() const {
    const char* why = from_ ? archive_error_string(from_.get()) : nullptr;
    return wrong("cannot be unpacked: {}", why != nullptr ? why : "no memory");
  }
  size_t unpacked() const { return size_t(archive_filter_bytes(from_.get(), 0)); }

  Status take(archive_entry* entry) {
    const char* written = archive_entry_pathname(entry);
    const auto path = written != nullptr ? inner_path(written) : std::nullopt;
    if (!path)
      return wrong("the path '{}' leads out of it", shown(written != nullptr ? written : ""));
    if (path->empty()) return {};  // "./"
    const auto type = archive_entry_filetype(entry);
    const char* link = archive_entry_symlink(entry);
    if (archive_entry_hardlink(entry) != nullptr || (type == AE_IFLNK && link == nullptr))
      return wrong("'{}' is a hard link: expected files, folders and symbolic links", shown(*path));
    if (type == AE_IFLNK)
      nodes_[*path] = {EntryKind::link, link};
    else if (type == AE_IFDIR)
      nodes_[*path] = {EntryKind::folder, ""};
    else if (type == AE_IFREG)
      return take_file(*path);
    else
      return wrong("'{}' is no file, folder or link", shown(*path));
    return {};
  }

  Status take_file(const std::string& path) {
    TreeNode node;
    char buffer[16384];
    la_ssize_t n;
    while ((n = archive_read_data(from_.get(), buffer, sizeof buffer)) > 0) {
      node.text.append(buffer, size_t(n));
      held_ += size_t(n);
      if (node.text.size() > kMaxTreeFileBytes)
        return wrong("'{}' is larger than {} MiB", shown(path), kMaxTreeFileBytes >> 20);
      if (held_ > kMaxArchiveBytes || unpacked() > kMaxArchiveBytes)
        return wrong("unpacks to more than {} MiB", kMaxArchiveBytes >> 20);
    }
    if (n < 0) return unreadable();
    nodes_[path] = std::move(node);
    return {};
  }

  ReadArchive from_;
  std::string name_;
  std::string_view bytes_;
  TreeNodes nodes_;
  size_t entries_ = 0, held_ = 0;
};

la_ssize_t append(archive*, void* to, const void* data, size_t size) {
  static_cast<std::string*>(to)->append(static_cast<const char*>(data), size);
  return la_ssize_t(size);
}

bool put(archive* to, const std::string& path, const TreeNode& node) {
  const std::unique_ptr<archive_entry, Freed> entry(archive_entry_new());
  if (!entry) return false;
  archive_entry_set_pathname(entry.get(), path.c_str() + 1);  // relative
  archive_entry_set_mtime(entry.get(), 0, 0);
  archive_entry_set_perm(entry.get(), node.kind == EntryKind::folder ? 0755 : 0644);
  archive_entry_set_filetype(entry.get(), node.kind == EntryKind::folder ? AE_IFDIR
                                          : node.kind == EntryKind::link ? AE_IFLNK
                                                                         : AE_IFREG);
  if (node.kind == EntryKind::link) archive_entry_set_symlink(entry.get(), node.text.c_str());
  const size_t size = node.kind == EntryKind::file ? node.text.size() : 0;
  archive_entry_set_size(entry.get(), la_int64_t(size));
  if (archive_write_header(to, entry.get()) < ARCHIVE_WARN) return false;
  return size == 0 || archive_write_data(to, node.text.data(), size) == la_ssize_t(size);
}

}  // namespace

bool looks_like_archive(std::string_view bytes) {
  const bool gzip = bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
  return gzip || (bytes.size() >= kTarBlock && bytes.substr(kTarMagic, 5) == "ustar");
}

Result<TreeNodes> unpack(std::string_view bytes, const std::string& name) {
  return Unpacker(bytes, name).run();
}

Result<std::string> pack(const TreeNodes& nodes, const std::string& last, bool gzip) {
  std::string bytes;
  const WriteArchive to(archive_write_new(), archive_write_free);
  // pax, as plain ustar cannot hold long paths.
  bool fine = to && archive_write_set_format_pax_restricted(to.get()) == ARCHIVE_OK &&
              (!gzip || archive_write_add_filter_gzip(to.get()) == ARCHIVE_OK) &&
              archive_write_open(to.get(), &bytes, nullptr, append, nullptr) == ARCHIVE_OK;
  for (const auto& [path, node] : nodes)
    if (path != last) fine = fine && put(to.get(), path, node);
  if (const auto at = nodes.find(last); at != nodes.end())
    fine = fine && put(to.get(), last, at->second);
  fine = fine && archive_write_close(to.get()) == ARCHIVE_OK;
  if (fine) return bytes;
  const char* why = to ? archive_error_string(to.get()) : nullptr;
  return Error(ErrorCode::defect,
               format("an archive cannot be made: {}", why != nullptr ? why : "no memory"));
}

}  // namespace collctl::topology
