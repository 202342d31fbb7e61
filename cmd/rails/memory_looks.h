// Every direction that was measured with memory: its kind, what is usual of that, whether it is
// bad, and the parts that it goes through, as trials for cmd/judge/blame.h; and how it is told.
// Pure. Threads: values; the report outlives it.
#pragma once
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cmd/judge/blame.h"
#include "cmd/rails/rails.h"

namespace collctl::cmd {

// One direction of a measurement.
struct MemoryAt {
  size_t trial = 0;
  bool back = false;
};
const runtime::MemoryFlow& flow_of(const RailsReport& report, const MemoryAt& at);
// That of host memory between the same two NICs, made before it; null: there is none.
const runtime::MemoryFlow* host_flow_of(const RailsReport& report, const MemoryAt& at);
// "GPU 3", "host memory"
std::string memory_name(const RailsHost& host, int gpu);
// "GPUDirect (DMA-BUF)", "through pinned host memory: no peer memory module is loaded", "host
// memory"
std::string use_text(const runtime::MemoryUse& use);

// An end of a direction.
struct MemoryPathEnd {
  int host = 0, gpu = runtime::kHostMemory, nic = 0;
  Way way = Way::out;
  auto operator<=>(const MemoryPathEnd&) const = default;
};

// One direction: its figures held against what is usual.
struct Looked {
  MemoryAt at;
  MemoryPathEnd out, in;
  std::string kind;
  double expected = 0, ratio = 1;
  bool counts = true;  // the same NICs work with host memory
  bool bad = false, last = true;
  std::vector<int> parts;
};

class MemoryLooks {
 public:
  MemoryLooks(const RailsReport& report, double below);
  const std::vector<Looked>& all() const { return all_; }  // in turn
  const Suspects& parts() const { return parts_; }
  const std::vector<Trial>& trials() const { return trials_; }
  // Hosts whose GPUs have something bad in their last measurement.
  std::vector<int> in_doubt() const;

  const runtime::RailGpu& gpu(const MemoryPathEnd& end) const {
    return host(end.host).gpus.list[size_t(end.gpu)];
  }
  const std::string& nic_name(const MemoryPathEnd& end) const {
    return host(end.host).nics[size_t(end.nic)].name;
  }
  Subject path_of(const Looked& one) const;
  // "GPU 3 -> mlx5_4" of a GPU's memory beside the other host's; else the whole way.
  std::string path_text(const Looked& one) const;
  // "11 of 48 GB/s, host memory 47, GPUDirect (DMA-BUF)"
  std::string figures(const Looked& one) const;
  // Facts of this host about these devices, and about the host itself.
  std::vector<runtime::RailFact> facts_of(const Host& at,
                                          const std::set<std::string>& devices) const;

 private:
  void look();
  void hold();
  void judge(Looked& one, const std::map<std::string, double>& usual,
             const std::map<std::string, double>& usual_both) const;
  std::string kind_of(const Looked& one) const;
  std::string end_kind(const MemoryPathEnd& end, const runtime::MemoryUse& use) const;
  std::vector<int> parts_of(const Looked& one);
  void add_parts(const MemoryPathEnd& end, std::vector<int>& parts);
  const RailsHost& host(int at) const { return r_.hosts[size_t(at)]; }
  std::string memory_of(const MemoryPathEnd& end) const {
    return memory_name(host(end.host), end.gpu);
  }

  const RailsReport& r_;
  double below_;
  std::vector<Looked> all_;
  std::map<std::string, double> usual_;
  // NICs of a GPU and GPUs of a NIC, by host and index; and how many of a host were tried.
  std::map<std::pair<int, int>, std::set<int>> nics_of_, gpus_of_;
  std::map<int, int> gpus_tried_, nics_tried_;
  Suspects parts_;
  std::vector<Trial> trials_;
};

}  // namespace collctl::cmd
