// Reading is libarchive's: others repack archives in many ways. Writing is our own: libarchive's
// would link all of its formats and their libraries.
#include "topology/detect/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <zlib.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/format.h"

namespace collctl::topology {
namespace {

constexpr size_t kTarBlock = 512, kTarMagic = 257;

using ReadArchive = std::unique_ptr<archive, decltype(&archive_read_free)>;

std::string shown_path(const std::string& path) {
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
            "expected a snapshot made by collctl topo --save"};
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
      return wrong("the path '{}' leads outside it", shown_path(written != nullptr ? written : ""));
    if (path->empty()) return {};  // "./"
    const auto type = archive_entry_filetype(entry);
    const char* link = archive_entry_symlink(entry);
    if (archive_entry_hardlink(entry) != nullptr || (type == AE_IFLNK && link == nullptr))
      return wrong("'{}' is a hard link: expected files, folders and symbolic links",
                   shown_path(*path));
    COLL_TRY(count_folders(*path));
    if (type == AE_IFLNK)
      nodes_[*path] = {EntryKind::link, link};
    else if (type == AE_IFDIR)
      nodes_[*path] = {EntryKind::folder, ""};
    else if (type == AE_IFREG)
      return take_file(*path);
    else
      return wrong("'{}' is no file, folder or link", shown_path(*path));
    return {};
  }

  // The folders above a path need no entry but will have a node: long paths of short names would
  // need many times their own length.
  Status count_folders(const std::string& path) {
    for (std::string at = path.substr(0, path.rfind('/')); !at.empty(); at.resize(at.rfind('/'))) {
      if (!folders_.insert(at).second) break;
      held_ += at.size();
      if (held_ > kMaxArchiveBytes || folders_.size() > kMaxTreeEntries)
        return wrong("too many folders, or too deep ones");
    }
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
        return wrong("'{}' is larger than {} MiB", shown_path(path), kMaxTreeFileBytes >> 20);
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
  std::set<std::string> folders_;
  size_t entries_ = 0, held_ = 0;
};

// Digits of a header's number field, which ends in a NUL.
void put_octal(std::string& header, size_t at, size_t width, size_t number) {
  for (size_t i = width - 1; i-- > 0; number /= 8) header[at + i] = char('0' + number % 8);
}

constexpr size_t kTarName = 100;  // of a path in a plain header

// POSIX 1003.1, ustar: name, mode, owner, group, size, time, checksum, type, link, magic, version.
void put_block(std::string& to, const std::string& path, char type, const std::string& target,
               const std::string& content) {
  std::string header(kTarBlock, '\0');
  header.replace(0, std::min(path.size(), kTarName), path, 0, kTarName);
  put_octal(header, 100, 8, type == '5' ? 0755 : 0644);
  put_octal(header, 108, 8, 0);
  put_octal(header, 116, 8, 0);
  put_octal(header, 124, 12, content.size());
  put_octal(header, 136, 12, 0);
  header.replace(148, 8, 8, ' ');
  header[156] = type;
  header.replace(157, std::min(target.size(), kTarName), target, 0, kTarName);
  header.replace(kTarMagic, 5, "ustar");
  header.replace(kTarMagic + 6, 2, "00");
  size_t sum = 0;
  for (const unsigned char c : header) sum += c;
  put_octal(header, 148, 7, sum);
  header[154] = '\0';
  to += header + content;
  to.append((kTarBlock - content.size() % kTarBlock) % kTarBlock, '\0');
}

// A record of an extended header: its own length, in digits, is part of it.
std::string long_field(const char* name, const std::string& value) {
  const size_t rest = std::string_view(name).size() + value.size() + 3;  // blank, '=', line end
  size_t length = rest + 1;
  while (std::to_string(length).size() + rest != length) ++length;
  return format("{} {}={}\n", length, name, value);
}

void put(std::string& to, const std::string& path, const TreeNode& node) {
  const bool folder = node.kind == EntryKind::folder, link = node.kind == EntryKind::link;
  const std::string name = path.substr(1) + (folder ? "/" : "");
  std::string longer;
  if (name.size() > kTarName) longer += long_field("path", name);
  if (link && node.text.size() > kTarName) longer += long_field("linkpath", node.text);
  if (!longer.empty()) put_block(to, "extended", 'x', "", longer);
  put_block(to, name,
            folder ? '5'
            : link ? '2'
                   : '0',
            link ? node.text : "", node.kind == EntryKind::file ? node.text : "");
}

Result<std::string> gzipped(const std::string& bytes) {
  constexpr int kGzipWindow = 15 + 16;  // zlib's number for a gzip header
  z_stream stream{};
  std::string packed;
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8,
                   Z_DEFAULT_STRATEGY) == Z_OK) {
    packed.resize(deflateBound(&stream, uLong(bytes.size())));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = uInt(bytes.size());
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = uInt(packed.size());
    const int result = deflate(&stream, Z_FINISH);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    if (result == Z_STREAM_END) return packed;
  }
  return Error(ErrorCode::defect, "cannot pack the archive: zlib failed");
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
  for (const auto& [path, node] : nodes)
    if (path != last) put(bytes, path, node);
  if (const auto at = nodes.find(last); at != nodes.end()) put(bytes, last, at->second);
  bytes.append(2 * kTarBlock, '\0');
  if (bytes.size() > UINT32_MAX)
    return Error(ErrorCode::unavailable, "cannot pack a snapshot of more than 4 GiB");
  if (!gzip) return bytes;
  return gzipped(bytes);
}

}  // namespace collctl::topology
