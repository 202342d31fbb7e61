// Written machines that snapshots are made of, and archives by hand.
#pragma once
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/unit/topology/detect/sysfs.h"
#include "topology/detect/archive.h"
#include "topology/detect/reader_snapshot.h"

namespace collctl::topology::testing {

namespace fs = std::filesystem;

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

inline void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline Sysfs two_gpus() {
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

inline DriverFacts two_gpu_facts() {
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

inline void check_same(const Detected& a, const Detected& b) {
  INFO("first:\n" << write_xml(a.system) << "second:\n" << write_xml(b.system));
  CHECK(a.system == b.system);
  CHECK(a.findings == b.findings);
  CHECK(a.processors.online.size() == b.processors.online.size());
}

inline std::string octal(size_t number, int width) {
  std::string text(size_t(width), '0');
  for (size_t at = text.size(); at-- > 0; number /= 8) text[at] = char('0' + number % 8);
  return text;
}

// One ustar header (POSIX 1003.1-1988) with its content.
inline std::string tar_entry(const std::string& path, char type, const std::string& content,
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
inline const std::string kTarEnd(1024, '\0');
inline const std::string kMetaText =
    R"({"schema":"collctl.snapshot/1","host":"h","arch":"x86_64"})";

inline std::string refusal(const std::string& path) {
  const auto read = snapshot_reader(path);
  if (read.ok()) return "accepted";
  CHECK(read.error().code == collctl::ErrorCode::usage);
  return read.error().message;
}

}  // namespace collctl::topology::testing
