// Snapshots that are damaged, cut off or made to do harm: refused with words.
#include "tests/how_much.h"
#include "tests/unit/topology/detect/snapshots.h"

namespace detect_snapshot_hostile_tests {

using namespace collctl::topology;
namespace fs = std::filesystem;
using namespace collctl::topology::testing;

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
      {"no meta", tar_entry("a", '0', "x") + kTarEnd, "neither meta.json nor sys: not a snapshot"},
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
  for (int i = 0; i < 17; ++i)
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
    const auto every = size_t(collctl::test::how_much(collctl::test::Sweep::archive_cuts));
    const size_t step = (gzip ? 97 : 512) * every;
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
      {R"({"gpus":7})", "'gpus'"},
      {R"({"gpus":[{}]})", "index"},
      {R"({"gpus":[{"index":-1,"busid":"0000:01:00.0"}]})", "'index'"},
      {R"({"gpus":[{"index":18446744073709551615,"busid":"0000:01:00.0"}]})", "'index'"},
      {R"({"gpus":[{"index":0,"busid":"somewhere"}]})", "'busid'"},
      {R"({"gpus":[{"index":0,"busid":"0000:01:00.0","sm":"ninety"}]})", "'sm'"},
      {R"({"gpus":[{"index":0,"busid":"0000:01:00.0","p2p":[1,1]}]})", "'p2p'"},
      {R"({"gpus":[{"index":0,"busid":"0000:01:00.0","nvlinks":[{"link":0}]}]})", "active"},
      {R"({"gpus":[{"index":0,"busid":"0000:01:00.0","c2c_MBps":[-1]}]})", "'c2c_MBps'"},
      {R"({"rdma":[{"name":"a","system_guid":"xyz","max_qp":1}]})", "'system_guid'"},
      {R"({"interfaces":[{"name":"eth0"}]})", "up"},
      {R"({"nvml_missing":5})", "'nvml_missing'"},
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

}  // namespace detect_snapshot_hostile_tests
