// Snapshots: what was recorded replays as the same machine, from a folder and from an archive; and
// hostile ones are refused with words.
#include "tests/unit/topology/detect/snapshots.h"

namespace detect_snapshot_tests {

using namespace collctl::topology;
namespace fs = std::filesystem;
using namespace collctl::topology::testing;

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

}  // namespace detect_snapshot_tests
