#include "cmd/memory_test/memory_test.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/env.h"
#include "base/format.h"
#include "base/host_devices.h"
#include "base/host_facts.h"
#include "base/host_limits.h"
#include "base/host_memory.h"
#include "base/host_state.h"
#include "base/processors.h"
#include "base/record.h"
#include "cmd/measure/fields.h"
#include "cmd/report/one_rank.h"
#include "cmd/report/options.h"
#include "cmd/text/provenance.h"
#include "transport/device/device.h"

namespace collctl::cmd {

namespace {

using transport::Device;
using transport::DeviceMemory;
using transport::DevicePointer;
using transport::DeviceStream;
using transport::PinnedMemory;

constexpr double kMeasuredSeconds = 0.25;      // each thing that is measured
constexpr double kCopyTimeout = 30;            // for a GPU that does not go on
constexpr uint64_t kHostBytes = 64u << 20;     // of each thread: beyond what caches hold
constexpr uint64_t kDeviceBytes = 256u << 20;  // of a GPU, twice
constexpr uint64_t kLinkBytes = 64u << 20;     // between a GPU and the host
constexpr size_t kMostMemoryRows = 4096;
constexpr int kMostMemoryThreads = 64;

// One thread's share: its own memory, touched by itself first, so that it lies beside it.
struct HostCopy {
  std::unique_ptr<uint8_t[]> from, to;
  uint64_t bytes = 0, copies = 0;
  bool wrong = false;
  void prepare(int number) {
    from = std::make_unique_for_overwrite<uint8_t[]>(bytes);
    to = std::make_unique_for_overwrite<uint8_t[]>(bytes);
    for (uint64_t i = 0; i < bytes; ++i) from[i] = uint8_t(i * 31 + i / 4096 + uint64_t(number));
    std::memset(to.get(), 0, bytes);
  }
  void run(base::Deadline until) {
    do {
      std::memcpy(to.get(), from.get(), bytes);
      ++copies;
    } while (!until.passed());
    wrong = std::memcmp(to.get(), from.get(), bytes) != 0;
  }
};

Result<MemoryRow> measure_host() {
  const int threads = std::clamp(base::usable_cores(), 1, kMostMemoryThreads);
  std::vector<HostCopy> shares{size_t(threads)};
  const uint64_t memory = base::physical_memory();
  const uint64_t most = memory / 16 / uint64_t(2 * threads);
  for (HostCopy& share : shares)
    share.bytes = memory == 0 ? kHostBytes : std::clamp<uint64_t>(most, 1 << 20, kHostBytes);
  const auto all = [&](auto work) {
    std::vector<std::thread> list;
    for (int t = 0; t < threads; ++t) list.emplace_back([&, t] { work(shares[size_t(t)], t); });
    for (std::thread& thread : list) thread.join();  // each ends by its own deadline
  };
  all([](HostCopy& share, int number) { share.prepare(number); });
  const base::HostLoad before = base::host_load();
  const int64_t began = now_ns();
  const auto until = base::Deadline::after_seconds(kMeasuredSeconds);
  all([&](HostCopy& share, int) { share.run(until); });
  const double seconds = double(now_ns() - began) / 1e9;
  MemoryRow row{.device = "host", .what = "copy"};
  if (size_t(threads) >= base::host_processors().online.size()) {
    const base::MemoryChannels known = base::memory_channels();
    row.channels = known.channels;
    row.MTps = known.MTps;
  }
  row.busy = busy_reason(before, threads);
  for (const HostCopy& share : shares) {
    row.GBps += 2 * double(share.bytes * share.copies) / seconds / 1e9;
    row.wrong = row.wrong || share.wrong;
  }
  return row;
}

// Copies again and again, as many as fill the time, and a first one that does not count.
Result<double> copy_rate(const DeviceStream& stream, void* to, const void* from, uint64_t bytes) {
  const auto some = [&](int count) -> Result<double> {
    const int64_t began = now_ns();
    for (int i = 0; i < count; ++i) COLL_TRY(stream.copy(to, from, bytes));
    COLL_TRY(stream.synchronize(base::Deadline::after_seconds(kCopyTimeout)));
    return double(now_ns() - began) / 1e9;
  };
  COLL_TRY(some(1));
  COLL_ASSIGN(const double once, some(2));
  const int count = int(std::clamp(kMeasuredSeconds / (once / 2), 2.0, 2000.0));
  COLL_ASSIGN(const double seconds, some(count));
  return double(bytes) * count / seconds / 1e9;
}

Status measure_gpu(int ordinal, const std::map<std::string, std::string>& users,
                   MemoryReport& report) {
  COLL_ASSIGN(const DevicePointer device, Device::open(ordinal));
  COLL_ASSIGN(const DeviceStream stream, DeviceStream::make(device));
  COLL_ASSIGN(const DeviceMemory first, DeviceMemory::make(device, kDeviceBytes, false));
  COLL_ASSIGN(const DeviceMemory second, DeviceMemory::make(device, kDeviceBytes, false));
  COLL_ASSIGN(const PinnedMemory out, PinnedMemory::make(device, kLinkBytes));
  COLL_ASSIGN(const PinnedMemory back, PinnedMemory::make(device, kLinkBytes));
  for (uint64_t i = 0; i < kLinkBytes; ++i)
    out.data()[i] = uint8_t(i * 37 + i / 4096 + uint64_t(ordinal));
  const auto add = [&](const char* what, double GBps) {
    MemoryRow& row = report.rows.emplace_back();
    row.device = device->facts().bus_id;
    row.model = device->facts().name;
    row.what = what;
    row.GBps = GBps;
    if (row.what != "copy") {
      const base::PciLink link = base::pci_link(row.device);
      row.pcie_GTps = link.GTps;
      row.pcie_lanes = link.lanes;
      const base::PciLink best = base::best_pci_link(row.device);
      row.pcie_GTps_most = best.GTps;
      row.pcie_lanes_most = best.lanes;
    }
    if (const auto user = users.find(row.device); user != users.end()) row.busy = user->second;
  };
  COLL_ASSIGN(const double to, copy_rate(stream, first.data(), out.data(), kLinkBytes));
  add("to device", to);
  COLL_ASSIGN(const double inside, copy_rate(stream, second.data(), first.data(), kDeviceBytes));
  add("copy", 2 * inside);
  COLL_ASSIGN(const double from, copy_rate(stream, back.data(), second.data(), kLinkBytes));
  add("from device", from);
  // All three ways lay between the two.
  report.rows.back().wrong = std::memcmp(out.data(), back.data(), kLinkBytes) != 0;
  return {};
}

Status run_memory(const TaskContext& context) {
  return run_one_rank(context, []() -> Result<std::string> {
    COLL_ASSIGN(const MemoryReport report, measure_memory());
    return memory_json(report);
  });
}

void add_memory_options(std::vector<Option>& t, uint32_t own) {
  add_file_option(t, own, FileKinds{}, kWholeFiles);
}

Command memory_row(uint32_t own) {
  return {.name = "memory-test",
          .kind = CommandKind::task,
          .arguments = "[-H HOST] [--json]",
          .scopes = kTask | own,
          .summary = "copies in a host's memory and its GPUs'",
          .description =
              "One rank copies in memory with all cores of the host, then with each GPU "
              "in its memory, to it and from it, and compares what arrived.",
          .examples = {{"collctl memory-test --json", "this host"}},
          .hidden = true,
          .run = memory_command};
}

}  // namespace

static void fields(Record& io, MemoryRow& row) {
  io.field("device", row.device, 256);
  if (io.has("model", !row.model.empty())) io.field("model", row.model, 256);
  io.field("what", row.what, 64);
  io.field("GBps", row.GBps, 0, 1e9);
  io.field("wrong", row.wrong);
  if (io.has("pcie_GTps", row.pcie_GTps > 0)) io.field("pcie_GTps", row.pcie_GTps, 0, 1e3);
  if (io.has("pcie_lanes", row.pcie_lanes > 0)) io.field("pcie_lanes", row.pcie_lanes, 0, 32);
  if (io.has("pcie_GTps_most", row.pcie_GTps_most > 0))
    io.field("pcie_GTps_most", row.pcie_GTps_most, 0, 1e3);
  if (io.has("pcie_lanes_most", row.pcie_lanes_most > 0))
    io.field("pcie_lanes_most", row.pcie_lanes_most, 0, 32);
  if (io.has("channels", row.channels > 0)) io.field("channels", row.channels, 0, 1 << 16);
  if (io.has("MTps", row.MTps > 0)) io.field("MTps", row.MTps, 0, 1e5);
  io.unless_empty("busy", row.busy);
}

static void fields(Record& io, MemoryReport& report) {
  std::string schema = "collctl.memory-test/1";
  io.field("schema", schema);
  if (schema != "collctl.memory-test/1") io.fail("schema", "collctl.memory-test/1");
  Provenance made = provenance();
  fields(io, made);
  io.field("host", report.host, 256);
  io.field("rows", report.rows, kMostMemoryRows);
}

Document memory_document(const MemoryReport& report, std::string json) {
  Document document = document_with(std::move(json), "rows");
  document.title = "collctl memory-test: " + report.host;
  document.has_verdict = false;
  Table table{titled({"<device", "<copy", "GB/s", "<data"})};
  for (const MemoryRow& row : report.rows)
    table.add({row.device, row.what, format("{:.4g}", row.GBps), row.wrong ? "WRONG" : "right"});
  document.parts.push_back({std::move(table)});
  if (std::ranges::any_of(report.rows, &MemoryRow::wrong))
    document.judged.exit_code = int(ErrorCode::bad_data);
  return document;
}

std::string memory_json(const MemoryReport& report) {
  return json_of(report);
}

Result<MemoryReport> read_memory(const std::string& json) {
  return record_of<MemoryReport>(json);
}

Result<MemoryReport> measure_memory() {
  MemoryReport report{.host = base::host_name()};
  COLL_ASSIGN(const MemoryRow host, measure_host());
  report.rows.push_back(host);
  if (base::nvidia_gpus_here().empty()) return report;
  const auto users = base::gpu_users();  // before this process is one
  COLL_ASSIGN(const int gpus, Device::count());
  for (int ordinal = 0; ordinal < gpus; ++ordinal)
    COLL_TRY_IN(measure_gpu(ordinal, users, report), format("GPU {}", ordinal));
  return report;
}

const RankTask kMemoryTask{.name = "memory-test",
                           .run = run_memory,
                           .command = memory_row,
                           .add_options = add_memory_options};

Result<int> memory_command(const ParsedLine& given, Console& console) {
  return one_rank_command(given, console, kMemoryTask, "{}",
                          [](const std::string& record) -> Result<Document> {
                            COLL_ASSIGN(const MemoryReport report, read_memory(record));
                            return memory_document(report, memory_json(report));
                          });
}

}  // namespace collctl::cmd
