// `burn-test`: load on everything in a host that computes, for so long, and every bit of what it
// computes looked at. On hosts with GPUs: products on tensor cores and in all precisions, and all
// of the memory that is free, on all GPUs at once, and beside them vector units of cores that drive
// none, and memory of the host; on others: of all cores. A product is held against itself in
// earlier rounds, against the host's own arithmetic, and, by whoever has several reports, against
// that of others of its model. Clocks and power settings are read and never changed. One rank on
// each host. Part of `check`; hidden otherwise.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/processors.h"
#include "cmd/cli/parse.h"
#include "cmd/document/document.h"
#include "cmd/measure/task.h"
#include "cmd/text/console.h"

namespace collctl::cmd {

// --- What a host reports. Values.

struct BurnSample {
  double at_s = 0;  // since the beginning; of several samples in one, the first
  // 0: not known. For several: mean; least; most.
  double power_W = 0, clock_MHz = 0, temperature_C = 0, memory_C = 0;
  uint64_t throttled = 0;  // bits of NVML's reasons, of all
};
// A curve of bounded length: where it is full, two samples that stand side by side become one.
class BurnCurve {
 public:
  static constexpr size_t kMost = 240;
  void add(const BurnSample& sample);
  const std::vector<BurnSample>& samples() const { return samples_; }

 private:
  std::vector<BurnSample> samples_;
  size_t each_ = 1, pending_ = 0;  // samples in one, and in the last
};
// `into` stands for `weight` samples already.
void merge_sample(BurnSample& into, const BurnSample& next, size_t weight);

// A counter of errors that grew, as base/host_counters.h names it ("ecc_corrected", "xid 79",
// "pcie_replays", "aer_correctable BadTLP"): in the seconds before.
struct BurnEvent {
  double at_s = 0;
  std::string what;
  uint64_t more = 0;
};
// Bounded: where the list is full the last event of the same name grows.
inline constexpr size_t kMostBurnEvents = 256;
void add_event(std::vector<BurnEvent>& events, const BurnEvent& event);

// Words that were not what they should have been: the first, and how many of all rounds.
struct BurnWrong {
  std::string what;     // "bf16", "fp8", "fp32", "fp64", "memory", "core"
  std::string against;  // "earlier rounds", "the host's arithmetic", "what was written"
  uint64_t round = 0;   // from 1
  std::string place;    // "row 5, column 9", "byte 0x1000"
  uint64_t expected = 0, found = 0, count = 0;
};
// The device that stands for all cores and the memory of a host.
inline constexpr const char* kBurnHost = "host";
// One kind of product on one device.
struct BurnWork {
  std::string what;
  double TFLOPs = 0;
  uint64_t products = 0;
  std::vector<uint64_t> bands = {};  // a hash of each part of the result; of those that are alike
};
struct BurnDevice {
  std::string device;  // "0000:4b:00.0", "core 3", kBurnHost
  std::string model;
  bool gpu = false;
  std::string why_not;  // it was not burnt, or not to the end; empty: it was
  ErrorCode code{};     // of that: lost, deadline where it stopped on the way
  uint64_t rounds = 0;
  uint64_t memory_bytes = 0, memory_passes = 0;  // written and read back so many times
  std::vector<BurnWork> works = {};
  std::vector<BurnWrong> wrong = {};
  std::vector<BurnSample> samples = {};
  std::vector<BurnEvent> events = {};
};
void fields(base::Record& io, BurnDevice& device);
struct BurnReport {
  std::string host;
  double seconds = 0;  // asked
  std::vector<BurnDevice> devices;
};
// With votes of its devices over each other, and its exit code. `json`: burn_json(), or the file
// that the report was read from.
Document burn_document(const BurnReport& report, std::string json);
std::string burn_json(const BurnReport& report);
Result<BurnReport> read_burn(const std::string& json);
// "bf16 in round 3, row 5, column 9: 0x3f80a000, not 0x3f808000 (bit 13; 1 word in all)"
std::string wrong_text(const BurnWrong& wrong);
// Which bits of two words differ: "5, 13".
std::string bits_text(uint64_t different);

// --- Results of devices of one model beside each other. Pure.

struct BurnVote {
  std::string what;            // whose results differ
  size_t band = 0, bands = 0;  // the first that does, of how many
  std::vector<size_t> odd;     // devices unlike the most; empty: nobody can tell
  std::vector<size_t> of;      // all that were compared
};
// A vote for each kind of product of each model that is not alike everywhere. More than half of
// the devices have to agree for the others to be odd.
std::vector<BurnVote> vote(std::span<const BurnDevice* const> devices);
// "bf16 of 0000:4b:00.0 is not that of the 3 others, from part 5 of 32 on"
std::string vote_text(const BurnVote& vote, std::span<const BurnDevice* const> devices);

// --- How it is done.

// Words of one kind of product. A device that is asked for it has its pieces as bands: their
// hashes, or where the words are few, each itself.
struct BurnPart {
  std::string what = {};
  uint64_t from = 0, words = 0;
};
struct BurnSpec {
  double seconds = 60;
  uint64_t most_memory = 0;  // of each device, bytes; 0: what is free
  bool cores = false;        // cores also where there are GPUs, and no GPUs
  BurnPart part = {};        // of a GPU's product that is computed once, in place of load

  std::string to_json() const;
  static Result<BurnSpec> from_json(const std::string& text);
};
// A wrong bit that is asked for (COLLCTL_BURN_FAULT); device -1: none.
struct BurnFaultSpec {
  std::string what;
  int device = -1;
  uint64_t round = 2;  // 0: in each of them, and in the first product
};
Result<BurnFaultSpec> parse_burn_fault(const std::string& text, const std::string& host);

// Cores of a host with GPUs. Both empty: there are too few to burn any.
struct CoreShare {
  std::vector<int> drivers;  // that threads of GPUs run on: one for each, whole, and one more
  std::vector<int> burn;     // at most half
};
// `allowed`: cores that this process may use, of which `most` at the same time (a quota);
// `gpu_nodes`: NUMA nodes of the GPUs by the kernel's numbers, -1: not known. Pure.
CoreShare share_cores(const std::vector<int>& allowed, const base::Processors& processors,
                      const std::vector<int>& gpu_nodes, size_t most);

inline constexpr uint32_t kBurnRows = 4096, kBurnColumns = 4096;
struct BurnRun {
  BurnSpec spec;
  BurnFaultSpec fault;
  Deadline until;
  // For products on GPUs, the same for all that are compared; steps at most, and seconds of a kind
  // of product in a round.
  uint32_t rows = kBurnRows, columns = kBurnColumns, most_steps = 2048;
  double type_seconds = 0.2;
  const kernels::cuda::Launcher* launcher = nullptr;
  std::function<void(const std::string&)> progress = {};
  std::function<void()> look = {};  // called by whoever samples, about once a second
  std::vector<int> drivers = {};    // cores of GPUs' threads; empty: any
  std::vector<int> cores = {};      // that burn; empty: all
  double memory_share = 0.75;       // of the host's memory that is available
};
// Each on its own threads, which it joins; samples are taken by the caller's. Errors: unavailable,
// for GPUs that are here and cannot be used at all; of one GPU: its why_not.
Result<std::vector<BurnDevice>> burn_gpus(const BurnRun& run);
Result<std::vector<BurnDevice>> burn_cores(const BurnRun& run);
// GPUs, and beside them cores as share_cores() says; the errors are those of burn_gpus.
Result<std::vector<BurnDevice>> burn_gpus_and_cores(const BurnRun& run);

extern const RankTask kBurnTask;
Result<int> burn_command(const ParsedLine& line, Console& console);

}  // namespace collctl::cmd
