// `gpu-test`: what the GPUs of a host do between each other and with the host's memory, a figure
// for each pair and direction, with everything that arrived compared. One rank opens all GPUs of
// its host. Part of `check`; hidden otherwise. Threads: values.
//
// Figures are comparable with nvbandwidth's, GB/s of 1e9 bytes that arrive:
//   write         a copy engine of the sender (device_to_device_memcpy_write_ce)
//   read          one of the receiver (device_to_device_memcpy_read_ce, whose rows receive)
//   kernel write  stores of the sender's multiprocessors (device_to_device_memcpy_write_sm)
//   kernel read   loads of the receiver's (device_to_device_memcpy_read_sm)
//   both          writes by copy engine in both directions at the same time, their sum
//   latency       microseconds of a load of 8 bytes that the next one depends on, by a thread of
//                 `from` in memory of `to` (device_to_device_latency_sm)
//   to all        writes to all others at once, their sum (one_to_all_write_ce); from all likewise
//                 (all_to_one_write_ce); all pairs at once, what a GPU sends and receives then
//   to GPU        host memory of a NUMA node, pinned, to the GPU by copy engine
//                 (host_to_device_memcpy_ce); from GPU likewise; both at once, their sum
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cmd/cli/parse.h"
#include "cmd/document/document.h"
#include "cmd/measure/task.h"
#include "cmd/text/console.h"

namespace collctl::cmd {

inline constexpr size_t kMostGpus = 64;
struct GpuTestSpec {
  double seconds = 0.008;               // that each figure is measured, at least two copies
  uint64_t bytes = uint64_t{64} << 20;  // of a copy; less where memory is short
};
void fields(Record& io, GpuTestSpec& spec);

enum class PairFigure : uint8_t { write, read, kernel_write, kernel_read, both, latency };
inline constexpr size_t kPairFigures = 6;
struct FigureWords {
  const char* key;   // of JSON
  const char* name;  // of findings
  const char* text;  // for people, with the unit
  const char* unit;
};
const FigureWords& words_of(PairFigure figure);

struct GpuEnd {
  std::string device;  // "0000:4b:00.0"
  std::string model;   // "NVIDIA H200"
  int numa = -1;       // -1: the kernel does not say
  // GB/s, 0: not measured; with one GPU there is none.
  double to_all = 0, from_all = 0;           // alone
  double sends_of_all = 0, gets_of_all = 0;  // while all pairs are busy
};
// Data from one to the other. Both are indexes of `gpus`.
struct GpuPair {
  int from = 0, to = 0;
  std::string path;  // "NVL", "PIX", "SYS": as topo has it; empty: not known
  std::string why;   // they do not reach each other's memory; then nothing was measured
  std::array<double, kPairFigures> figures = {};  // 0: not measured
  std::vector<std::string> wrong = {};  // names of figures whose data was not what was sent
  double of(PairFigure figure) const { return figures[size_t(figure)]; }
};
struct HostLeg {
  int gpu = 0;        // index of `gpus`
  int node = -1;      // NUMA node of the memory; -1: where the kernel put it
  int distance = -1;  // of the GPU's node to it, as the kernel counts (10: itself); -1: not known
  double to_GBps = 0, from_GBps = 0, both_GBps = 0;
  bool wrong = false;
};
struct GpuReport {
  Host host = {};
  uint64_t bytes = 0;  // of a copy
  std::vector<GpuEnd> gpus = {};
  std::vector<GpuPair> pairs = {};  // every ordered pair
  std::vector<HostLeg> legs = {};
  std::string no_kernels = {};  // why figures by kernels are missing; empty: they are not
  std::string no_nodes = {};    // why memory of NUMA nodes could not be told apart; likewise
  std::string busy = {};        // what others had of the host, or a GPU, if it is much
};
// Reading trusts nothing: pairs and legs are of GPUs that are there.
void fields(base::Record& io, GpuReport& report);
std::string gpu_json(const GpuReport& report);
Result<GpuReport> read_gpu_report(const std::string& json);

// On this host, all GPUs that this process may use. Errors: unavailable, for GPUs that are here and
// cannot be used, or memory; lost, deadline: the pair in the context.
Result<GpuReport> measure_gpus(const GpuTestSpec& spec, const kernels::cuda::Launcher& launcher);

// report.cc, pure. The matrix of one figure; none: no pair has it.
std::optional<Grid> figure_grid(const GpuReport& report, PairFigure figure);
Table gpu_table(const GpuReport& report);
Table leg_table(const GpuReport& report);
// With its exit code. `json`: gpu_json(), or the file that the report was read from.
Document gpu_document(const GpuReport& report, std::string json);
// Heat maps of all figures of these hosts, the first few of them; empty: there is no pair.
std::string gpus_svg(std::span<const GpuReport> reports);

extern const RankTask kGpuTask;
Result<int> gpu_command(const ParsedLine& line, Console& console);

}  // namespace collctl::cmd
