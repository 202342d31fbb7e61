#include "topology/detect/reader_snapshot.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/format.h"
#include "base/held_signals.h"
#include "base/record.h"
#include "base/version.h"
#include "topology/detect/archive.h"

namespace collctl::topology {
namespace {

namespace fs = std::filesystem;

const std::string kMeta = "/meta.json", kDrivers = "/drivers.json", kSys = "/sys";
constexpr const char* kSchema = "collctl.snapshot/1";
constexpr size_t kMaxName = 256;

// At most `most` bytes and one more, which shows that there are more.
Result<std::string> file_content(const std::string& path, size_t most) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return base::errno_error(ErrorCode::usage, path, errno);
  std::string text(most + 1, '\0');
  file.read(text.data(), std::streamsize(text.size()));
  if (file.bad()) return base::errno_error(ErrorCode::unavailable, path, errno);
  text.resize(size_t(file.gcount()));
  return text;
}

struct Meta {
  std::string schema, version, arch, host;
};
void fields(Record& io, Meta& meta) {
  io.field("schema", meta.schema);
  io.unless_empty("version", meta.version);
  io.unless_empty("arch", meta.arch, kMaxName);
  io.unless_empty("host", meta.host, kMaxName);
}

Status read_meta(const std::string& text, const std::string& name, Reader& reader) {
  const auto wrong = [&](const std::string& what) {
    return Error(ErrorCode::usage, format("{}: {}", name + kMeta, what),
                 "expected a snapshot made by collctl topo --save");
  };
  auto meta = record_of<Meta>(text);
  if (!meta) return wrong(meta.error().message);
  if (meta->schema != kSchema)
    return wrong(format("schema '{}': expected {}", meta->schema.substr(0, 40), kSchema));
  reader.host = std::move(meta->host);
  reader.arch = std::move(meta->arch);
  return {};
}

// A copy of /sys itself, where it belongs.
class SysTree : public FileTree {
 public:
  explicit SysTree(std::unique_ptr<FileTree> copy) : copy_(std::move(copy)) {}
  TreeEntry entry(const std::string& path) override {
    if (path == kSys) return {EntryKind::folder, ""};
    return is_below(path) ? copy_->entry(inner(path)) : TreeEntry{};
  }
  std::optional<std::string> content(const std::string& path) override {
    return is_below(path) ? copy_->content(inner(path)) : std::nullopt;
  }
  std::vector<std::string> names(const std::string& path) override {
    if (path == kSys) return copy_->names("/");
    return is_below(path) ? copy_->names(inner(path)) : std::vector<std::string>();
  }

 private:
  static bool is_below(const std::string& path) { return path.starts_with(kSys + "/"); }
  static std::string inner(const std::string& path) { return path.substr(kSys.size()); }
  std::unique_ptr<FileTree> copy_;
};

// Description and facts out of the files.
Result<Reader> described(std::unique_ptr<FileTree> files, const std::string& name) {
  Reader reader;
  reader.files = std::move(files);
  const auto meta = reader.files->read(kMeta), drivers = reader.files->read(kDrivers);
  if (meta) {
    COLL_TRY(read_meta(*meta, name, reader));
  } else {
    // The description is written last: facts without it are what is left of a snapshot.
    const bool is_sys = !reader.files->real_path(kSys) && reader.files->real_path("/class") &&
                        reader.files->real_path("/devices");
    if (is_sys) reader.files = std::make_unique<SysTree>(std::move(reader.files));
    if (drivers || !reader.files->real_path(kSys))
      return Error(ErrorCode::usage,
                   format("{}: neither meta.json nor sys: not a snapshot, or one that was cut "
                          "off",
                          name),
                   "make one with collctl topo --save FILE");
    reader.findings.push_back({Severity::note,
                               "a bare copy of /sys: which machine it is from is unknown", name,
                               "collctl topo --save keeps more"});
  }
  if (drivers) {
    COLL_ASSIGN(reader.drivers, parse_drivers(*drivers, name + kDrivers));
  } else {
    reader.drivers.nvml_missing = reader.drivers.cuda_missing = "not in the snapshot";
    reader.drivers.verbs_missing = "not in the snapshot";
  }
  if (reader.host.empty()) reader.host = name;
  return reader;
}

// Where all lies in one folder, its content.
TreeNodes without_folder(TreeNodes nodes) {
  if (nodes.count(kMeta) != 0 || nodes.empty()) return nodes;
  const std::string first = nodes.begin()->first;
  const std::string folder = first.substr(0, first.find('/', 1));
  TreeNodes inner;
  for (auto& [path, node] : nodes) {
    if (path == folder && node.kind == EntryKind::folder) continue;
    if (path.compare(0, folder.size() + 1, folder + "/") != 0) return nodes;
    inner[path.substr(folder.size())] = node;
  }
  const auto sys = inner.lower_bound(kSys);
  const bool bare = sys != inner.end() && (sys->first + "/").starts_with(kSys + "/");
  return inner.count(kMeta) != 0 || bare ? inner : nodes;
}

Status write_node(const fs::path& at, const TreeNode& node) {
  std::error_code error;
  fs::create_directories(node.kind == EntryKind::folder ? at : at.parent_path(), error);
  if (!error && node.kind == EntryKind::link) fs::create_symlink(node.text, at, error);
  if (error) return base::errno_error(ErrorCode::unavailable, at.string(), error.value());
  if (node.kind != EntryKind::file) return {};
  std::ofstream file(at, std::ios::binary);
  file << node.text;
  file.close();
  if (file) return {};
  return base::errno_error(ErrorCode::unavailable, format("cannot write {}", at.string()), errno);
}

}  // namespace

Result<SourceKind> kind_of_source(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return base::errno_error(ErrorCode::usage, path, errno);
  if (S_ISDIR(facts.st_mode)) return SourceKind::folder;
  if (!S_ISREG(facts.st_mode)) return SourceKind::xml;  // which says what is wrong with it
  COLL_ASSIGN(const std::string head, file_content(path, 511));
  return looks_like_archive(head) ? SourceKind::archive : SourceKind::xml;
}

Result<Reader> snapshot_reader(const std::string& path) {
  COLL_ASSIGN(const SourceKind kind, kind_of_source(path));
  if (kind == SourceKind::folder) return described(std::make_unique<DiskTree>(path), path);
  COLL_ASSIGN(const std::string bytes, file_content(path, kMaxArchiveBytes));
  COLL_ASSIGN(TreeNodes nodes, unpack(bytes, path));
  return described(std::make_unique<MemoryTree>(without_folder(std::move(nodes))), path);
}

Detected discover_recorded(Reader& reader, TreeNodes& taken) {
  std::unique_ptr<FileTree> original = std::move(reader.files);
  auto recording = std::make_unique<RecordingTree>(*original);
  RecordingTree& recorder = *recording;
  reader.files = std::move(recording);
  Detected detected = discover(reader);
  taken = recorder.take();
  reader.files = std::move(original);
  return detected;
}

TreeNodes snapshot_files(const Reader& reader, TreeNodes taken) {
  const Meta meta{kSchema, base::kVersion, reader.arch, reader.host};
  taken[kMeta] = {EntryKind::file, base::indented_json(json_of(meta))};
  taken[kDrivers] = {EntryKind::file, drivers_json(reader.drivers)};
  taken.try_emplace("/sys", TreeNode{EntryKind::folder, ""});
  return taken;
}

Result<std::string> snapshot_archive(const TreeNodes& files, bool gzip) {
  return pack(files, kMeta, gzip);
}

Status write_snapshot_folder(const TreeNodes& files, const std::string& path) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(path, error)) && !fs::is_empty(path, error))
    return Error(ErrorCode::usage, format("{} already exists", path),
                 "name a new folder, or an archive: NAME.tar.gz");
  // Beside it, so that a rename does; an empty folder gives way.
  std::string temporary = fs::path(path).lexically_normal().string();
  while (temporary.size() > 1 && temporary.back() == '/') temporary.pop_back();
  const std::string target = temporary;
  temporary += ".XXXXXX";
  const base::HeldSignals whole;  // nothing of half a folder is left
  if (::mkdtemp(temporary.data()) == nullptr)
    return base::errno_error(ErrorCode::unavailable, format("cannot create {}", path), errno);
  Status written;
  for (const auto& [at, node] : files)
    if (written.ok()) written = write_node(temporary + at, node);
  if (written.ok()) {
    const mode_t mask = ::umask(022);
    ::umask(mask);
    if (::chmod(temporary.c_str(), 0777 & ~mask) != 0 ||
        ::rename(temporary.c_str(), target.c_str()) != 0)
      written = base::errno_error(ErrorCode::unavailable, format("cannot create {}", path), errno);
  }
  if (!written.ok()) fs::remove_all(temporary, error);
  return written;
}

}  // namespace collctl::topology
