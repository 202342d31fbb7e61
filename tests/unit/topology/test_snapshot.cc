// Snapshots: what was recorded replays as the same machine, from a folder and from an archive; and
// hostile ones are refused with words.
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/unit/topology/sysfs.h"
#include "topology/archive.h"
#include "topology/reader_snapshot.h"

using namespace collctl::topology;
namespace fs = std::filesystem;

namespace {

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "collctl-snapshot-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) FAIL("no temporary folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

Sysfs two_gpus() {
  Sysfs world;
  world.cpuinfo("GenuineIntel", 6, 143);
  world.numa(0, "ff");
  world.file("/sys/devices/system/cpu/online", "0-7");
  world.bridge("pci0000:00/0000:00:01.0");
  const std::string up = "pci0000:00/0000:00:01.0/0000:01:00.0";
  world.bridge(up);
  for (const char* n : {"0", "1"}) {
    world.bridge(up + "/0000:02:0" + n + ".0");
    world.pci(up + "/0000:02:0" + n + ".0/0000:0" + (*n == '0' ? "3" : "4") + ":00.0");
  }
  world.pci("pci0000:00/0000:00:02.0/0000:08:00.0",
            {"0x020700", "0x15b3", "0x1021", "32.0 GT/s PCIe", "16", "0", "", ""});
  world.rdma("mlx5_0", "pci0000:00/0000:00:02.0/0000:08:00.0", "b8ce:f603:00d4:e0a4");
  world.interface("eth0", "", "25000");
  world.file("/etc/secret", "not for anybody");
  return world;
}

DriverFacts two_gpu_facts() {
  DriverFacts facts;
  facts.nvidia_driver = "550.54.15";
  facts.cuda_missing = "libcuda.so.1: no";
  facts.gpus = {gpu_facts(0, "0000:03:00.0"), gpu_facts(1, "0000:04:00.0")};
  for (GpuFacts& gpu : facts.gpus) {
    gpu.name = "NVIDIA \"H100\" \xc3\xa9";
    gpu.uuid = "GPU-1";
    gpu.p2p = {1, 1};
    gpu.mig = false;
    gpu.c2c_mbps = {10, 20};
    gpu.fabric_uuid = "00ff";
    gpu.fabric_clique = 7;
    gpu.cuda_ordinal = 1;
    gpu.cuda_gdr = true;
  }
  add_nvlinks(facts.gpus[0], 18, "0000:04:00.0");
  add_nvlinks(facts.gpus[1], 17, "0000:03:00.0");
  add_nvlinks(facts.gpus[1], 1, "", false);
  facts.rdma.push_back({"mlx5_0", 0xb8cef60300d4e0a4, 131072, {{1, true, 400000}}});
  facts.interfaces = {{"eth0", true, false, true, 25000}};
  facts.troubles = {"one", "two"};
  return facts;
}

void check_same(const Detected& a, const Detected& b) {
  INFO("first:\n" << write_xml(a.system) << "second:\n" << write_xml(b.system));
  CHECK(a.system == b.system);
  CHECK(a.findings == b.findings);
  CHECK(a.processors.online.size() == b.processors.online.size());
}

std::string octal(size_t number, int width) {
  std::string text(size_t(width), '0');
  for (size_t at = text.size(); at-- > 0; number /= 8) text[at] = char('0' + number % 8);
  return text;
}

// One ustar header (POSIX 1003.1-1988) with its content.
std::string tar_entry(const std::string& path, char type, const std::string& content,
                      const std::string& link = "", size_t claimed = SIZE_MAX) {
  std::string header(512, '\0');
  const auto put = [&](size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  put(0, path);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, octal(claimed == SIZE_MAX ? content.size() : claimed, 11));
  put(136, octal(0, 11));
  put(148, "        ");
  header[156] = type;
  put(157, link);
  put(257, std::string("ustar\0"
                       "00",
                       8));
  unsigned sum = 0;
  for (const unsigned char c : header) sum += c;
  put(148, octal(sum, 6) + std::string("\0 ", 2));
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}
const std::string kTarEnd(1024, '\0');
const std::string kMetaText = R"({"schema":"collctl.snapshot/1","host":"h","arch":"x86_64"})";

std::string refusal(const std::string& path) {
  const auto read = snapshot_reader(path);
  if (read.ok()) return "accepted";
  CHECK(read.error().code == collctl::ErrorCode::usage);
  return read.error().message;
}

}  // namespace

TEST_CASE("driver facts survive writing and reading") {
  const DriverFacts facts = two_gpu_facts();
  const auto read = parse_drivers(drivers_json(facts), "drivers.json");
  REQUIRE(read.ok());
  CHECK(*read == facts);
  CHECK(*parse_drivers(drivers_json({}), "x") == DriverFacts{});
}

TEST_CASE("a recorded machine replays the same from memory, a folder and archives") {
  const Sysfs world = two_gpus();
  Reader live = world.reader(two_gpu_facts());
  const Detected direct = discover(live);
  TreeNodes taken;
  check_same(direct, discover_recorded(live, taken));
  check_same(direct, discover(live));  // the reader is as before
  CHECK(direct.system.cpus.at(0).children.size() == 2);
  const TreeNodes files = snapshot_files(live, taken);
  for (const auto& [path, node] : files)
    CHECK(node.text.find("not for anybody") == std::string::npos);

  const Folder folder;
  REQUIRE(write_snapshot_folder(files, folder / "snapshot").ok());
  for (const bool gzip : {false, true})
    write(folder / (gzip ? "s.tgz" : "s.tar"), *snapshot_archive(files, gzip));
  for (const char* name : {"snapshot", "s.tgz", "s.tar"}) {
    INFO(name);
    auto reader = snapshot_reader(folder / name);
    if (!reader.ok()) FAIL(reader.error().message);
    CHECK(reader->host == "node");
    CHECK(reader->arch == "x86_64");
    CHECK(reader->drivers == live.drivers);
    check_same(direct, discover(*reader));
  }
}

TEST_CASE("this machine and its snapshot are equal") {
  Reader live = live_reader();
  TreeNodes taken;
  const Detected direct = discover_recorded(live, taken);
  const Folder folder;
  write(folder / "live.tar.gz", *snapshot_archive(snapshot_files(live, taken), true));
  auto reader = snapshot_reader(folder / "live.tar.gz");
  if (!reader.ok()) FAIL(reader.error().message);
  check_same(direct, discover(*reader));
}

TEST_CASE("an archive of a folder that holds the snapshot is one as well") {
  const Folder folder;
  write(folder / "s.tar",
        tar_entry("node1/", '5', "") + tar_entry("node1/meta.json", '0', kMetaText) +
            tar_entry("node1/sys/devices/system/node/node0/cpumap", '0', "3\n") + kTarEnd);
  auto reader = snapshot_reader(folder / "s.tar");
  REQUIRE(reader.ok());
  CHECK(reader->host == "h");
  CHECK(discover(*reader).system.cpus.at(0).affinity == "3");
}

TEST_CASE("a bare copy of /sys is read, with a finding") {
  const Folder folder;
  fs::create_directories(folder / "root/sys/devices/system/node/node0");
  write(folder / "root/sys/devices/system/node/node0/cpumap", "f\n");
  fs::create_directories(folder / "root/sys/class/net");
  fs::create_directories(folder / "root/sys/devices/virtual/net/v0");
  write(folder / "root/sys/devices/virtual/net/v0/speed", "25000\n");
  fs::create_symlink("../../devices/virtual/net/v0", folder / "root/sys/class/net/v0");
  write(folder / "wrapped.tar",
        tar_entry("a/sys/devices/system/node/node0/cpumap", '0', "f\n") + kTarEnd);
  // The folder above it, the copy itself, and an archive of a folder above it.
  for (const char* name : {"root", "root/sys", "root/sys/", "wrapped.tar"}) {
    INFO(name);
    auto reader = snapshot_reader(folder / name);
    REQUIRE(reader.ok());
    const Detected found = discover(*reader);
    CHECK(found.system.cpus.at(0).affinity == "f");
    CHECK(has_finding(found.findings, "a bare copy of /sys"));
    if (std::string(name).starts_with("root"))
      CHECK(reader->files->read("/sys/class/net/v0/speed") == "25000");
    CHECK_FALSE(reader->files->read("/devices/system/node/node0/cpumap"));
  }
  const auto neither = snapshot_reader(folder / "root/sys/class");
  REQUIRE(!neither.ok());
  CHECK(neither.error().code == collctl::ErrorCode::usage);
}

TEST_CASE("a snapshot folder is the whole or nothing, and never over another") {
  const Folder folder;
  const TreeNodes files = {{"/meta.json", {EntryKind::file, kMetaText}}};
  fs::create_directories(folder / "full/inner");
  const auto refused = write_snapshot_folder(files, folder / "full");
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == collctl::ErrorCode::usage);
  fs::create_directories(folder / "empty");
  CHECK(write_snapshot_folder(files, folder / "empty/").ok());
  CHECK(fs::exists(folder / "empty/meta.json"));
  CHECK(write_snapshot_folder(files, folder / "no/such/place").error().code ==
        collctl::ErrorCode::unavailable);
  // A tree that cannot be written: a file where a folder is needed.
  const TreeNodes impossible = {{"/a", {EntryKind::file, "x"}}, {"/a/b", {EntryKind::file, "y"}}};
  CHECK(!write_snapshot_folder(impossible, folder / "half").ok());
  size_t left = 0;
  for (const auto& entry : fs::directory_iterator(folder / "")) left += entry.exists();
  CHECK(left == 2);  // full and empty
}

TEST_CASE("links of a snapshot never lead out of it, and never in circles") {
  const Folder folder;
  fs::create_directories(folder / "s/sys");
  write(folder / "secret", "outside");
  write(folder / "s/sys/in", "inside");
  fs::create_symlink("../../secret", folder / "s/sys/up");
  fs::create_symlink(folder / "secret", folder / "s/sys/absolute");
  fs::create_symlink("b", folder / "s/sys/a");
  fs::create_symlink("a", folder / "s/sys/b");
  fs::create_symlink("/sys/in", folder / "s/sys/root");
  fs::create_symlink("..", folder / "s/sys/parent");
  REQUIRE(mkfifo((folder / "s/sys/pipe").c_str(), 0600) == 0);
  DiskTree tree(folder / "s");
  CHECK(tree.read("/sys/in") == "inside");
  CHECK(tree.read("/sys/root") == "inside");
  CHECK(tree.read("/sys/parent/sys/parent/sys/in") == "inside");
  CHECK(!tree.read("/sys/up"));
  CHECK(!tree.read("/sys/absolute"));
  CHECK(!tree.read("/../secret"));
  CHECK(!tree.read("/sys/a"));
  CHECK(!tree.read("/sys/pipe"));
  CHECK(!tree.read("/sys"));
  CHECK(tree.real_path("/sys/../..") == "/");
}

TEST_CASE("hostile archives are refused with a reason") {
  const Folder folder;
  const std::string path = folder / "bad.tar";
  const std::string meta = tar_entry("meta.json", '0', kMetaText);
  struct Case {
    const char* what;
    std::string bytes;
    const char* part;
  };
  const std::string good = meta + tar_entry("sys/x", '0', std::string(5000, 'x')) + kTarEnd;
  const Case cases[] = {
      {"up and out", meta + tar_entry("sys/../../etc/passwd", '0', "x") + kTarEnd, "leads out"},
      {"absolute", meta + tar_entry("/etc/passwd", '0', "x") + kTarEnd, "leads out"},
      {"hard link", meta + tar_entry("sys/x", '1', "", "meta.json") + kTarEnd, "hard link"},
      {"device", meta + tar_entry("sys/x", '3', "") + kTarEnd, "no file, folder or link"},
      {"pipe", meta + tar_entry("sys/x", '6', "") + kTarEnd, "no file, folder or link"},
      {"cut off", good.substr(0, 2000), "cannot be unpacked"},
      {"lies about its size", meta + tar_entry("sys/x", '0', "x", "", 1 << 30) + kTarEnd,
       "bad.tar"},
      {"no meta", tar_entry("a", '0', "x") + kTarEnd,
       "neither meta.json nor sys: this is no snapshot"},
      {"other schema", tar_entry("meta.json", '0', R"({"schema":"collctl.snapshot/9"})") + kTarEnd,
       "expected collctl.snapshot/1"},
      {"meta is no JSON", tar_entry("meta.json", '0', "{") + kTarEnd, "meta.json: "},
      {"meta is a number", tar_entry("meta.json", '0', "7") + kTarEnd, "meta.json: "},
      {"drivers are no JSON", meta + tar_entry("drivers.json", '0', "[") + kTarEnd,
       "drivers.json: "},
      {"file too large",
       meta + tar_entry("sys/x", '0', std::string(kMaxTreeFileBytes + 1, 'x')) + kTarEnd,
       "larger than 4 MiB"},
  };
  for (const Case& one : cases) {
    INFO(one.what);
    write(path, one.bytes);
    CHECK(refusal(path).find(one.part) != std::string::npos);
  }
  write(path, good);
  CHECK(refusal(path) == "accepted");
}

TEST_CASE("archives that unpack to far too much are refused early") {
  const Folder folder;
  TreeNodes bomb;
  for (int i = 0; i < 40; ++i)
    bomb["/sys/" + std::to_string(i)] = {EntryKind::file, std::string(kMaxTreeFileBytes - 1, '\0')};
  write(folder / "bomb.tgz", *pack(bomb, "", true));
  CHECK(fs::file_size(folder / "bomb.tgz") < 1 << 20);
  CHECK(refusal(folder / "bomb.tgz").find("unpacks to more than 64 MiB") != std::string::npos);
  TreeNodes many;
  for (size_t i = 0; i <= kMaxTreeEntries; ++i)
    many["/sys/" + std::to_string(i)] = {EntryKind::folder, ""};
  write(folder / "many.tgz", *pack(many, "", true));
  CHECK(refusal(folder / "many.tgz").find("more than 65536 entries") != std::string::npos);
  // 40 paths of 4000 bytes are 2000 folders each, whose names together are 160 MB.
  TreeNodes deep;
  for (int i = 0; i < 40; ++i) {
    std::string path = "/" + std::to_string(i);
    while (path.size() < 4000) path += "/a";
    deep[path] = {EntryKind::file, "x"};
  }
  write(folder / "deep.tgz", *pack(deep, "", true));
  CHECK(refusal(folder / "deep.tgz").find("too deep") != std::string::npos);
}

TEST_CASE("an archive that was cut off anywhere is refused") {
  const Sysfs world = two_gpus();
  Reader live = world.reader(two_gpu_facts());
  TreeNodes taken;
  (void)discover_recorded(live, taken);
  const Folder folder;
  for (const bool gzip : {false, true}) {
    const std::string whole = *snapshot_archive(snapshot_files(live, taken), gzip);
    // Two empty blocks end a tar archive, and the description's block before them is filled up.
    const size_t needed = gzip ? whole.size() : whole.rfind('}') + 1;
    const size_t step = gzip ? 97 : 512;
    for (size_t size = 0; size < needed; size += step) {
      INFO("gzip " << gzip << ", " << size << " of " << whole.size() << " bytes");
      write(folder / "cut", whole.substr(0, size));
      const auto kind = kind_of_source(folder / "cut");
      REQUIRE(kind.ok());
      // Too little of it to be an archive: then it is no topology file either.
      if (*kind == SourceKind::xml)
        CHECK(!read_xml_file(folder / "cut").ok());
      else
        CHECK(refusal(folder / "cut") != "accepted");
    }
    write(folder / "cut", whole);
    CHECK(refusal(folder / "cut") == "accepted");
  }
}

TEST_CASE("damaged archives are refused or read, never more") {
  const Sysfs world = two_gpus();
  Reader live = world.reader(two_gpu_facts());
  TreeNodes taken;
  (void)discover_recorded(live, taken);
  const Folder folder;
  std::mt19937 random(7);
  int read = 0;
  for (const bool gzip : {false, true}) {
    const std::string good = *snapshot_archive(snapshot_files(live, taken), gzip);
    for (int round = 0; round < 300; ++round) {
      std::string bytes = good;
      if (round % 3 == 0) bytes.resize(random() % bytes.size());
      for (int i = 0; i < 1 + round % 5 && !bytes.empty(); ++i)
        bytes[random() % bytes.size()] = char(random());
      const auto nodes = unpack(bytes, "x");
      if (!nodes.ok()) continue;
      ++read;
      Reader reader = world.reader();
      reader.files = std::make_unique<MemoryTree>(*nodes);
      CHECK(!discover(reader).system.cpus.empty());
    }
  }
  CHECK(read > 0);
}

TEST_CASE("driver facts that cannot be are refused with the field's name") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "parse error"},
      {"[]", ""},
      {R"({"gpus":7})", "\"gpus\""},
      {R"({"gpus":[{}]})", "index"},
      {R"({"gpus":[{"index":-1,"busid":"0000:01:00.0"}]})", "\"index\""},
      {R"({"gpus":[{"index":18446744073709551615,"busid":"0000:01:00.0"}]})", "\"index\""},
      {R"({"gpus":[{"index":0,"busid":"somewhere"}]})", "\"busid\""},
      {R"({"gpus":[{"index":0,"busid":"0000:01:00.0","sm":"ninety"}]})", "\"sm\""},
      {R"({"gpus":[{"index":0,"busid":"0000:01:00.0","p2p":[1,1]}]})", "\"p2p\""},
      {R"({"gpus":[{"index":0,"busid":"0000:01:00.0","nvlinks":[{"link":0}]}]})", "active"},
      {R"({"gpus":[{"index":0,"busid":"0000:01:00.0","c2c_MBps":[-1]}]})", "\"c2c_MBps\""},
      {R"({"rdma":[{"name":"a","system_guid":"xyz","max_qp":1}]})", "\"system_guid\""},
      {R"({"interfaces":[{"name":"eth0"}]})", "up"},
      {R"({"nvml_missing":5})", "type"},
      {R"({"nvml_missing":"a\u0000b"})", "expected text"},
  };
  for (const auto& [text, part] : cases) {
    INFO(text);
    const auto read = parse_drivers(text, "drivers.json");
    REQUIRE(!read.ok());
    CHECK(read.error().message.find(part) != std::string::npos);
    CHECK(read.error().message.rfind("drivers.json: ", 0) == 0);
  }
  // Too deep for a parser that recurses.
  CHECK(!parse_drivers(std::string(1 << 20, '['), "x").ok());
}
