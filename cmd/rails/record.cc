// The report of `rails` as it travels from rank 0 to the launcher, and as --json shows it.
#include <algorithm>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/record.h"
#include "cmd/cli/bind.h"
#include "cmd/measure/running.h"
#include "cmd/rails/memory_judge.h"
#include "cmd/rails/rails.h"

namespace collctl::runtime {

static const char* lost_word(RailLost lost) {
  constexpr const char* kLostWords[] = {"unknown", "there", "back", "beside"};
  static_assert(std::size(kLostWords) == kRailLostCount);
  return kLostWords[size_t(lost)];
}

void fields(Record& io, RailResult& result) {
  io.name("end", result.end, kRailEndCount, cmd::rail_word);
  io.field("GBps", result.GBps, 0, 1e9);
  io.field("first_us", result.first_us, 0, 1e12);
  if (io.has("resent", result.resent >= 0)) io.field("resent", result.resent, 0, 1e9);
  io.field("from_gid", result.from_gid, -1, 255);
  io.field("to_gid", result.to_gid, -1, 255);
  io.field("gid_type", result.gid_type, kMostRailText);
  io.field("text", result.text, kMostRailText);
  if (io.has("lost", result.lost != RailLost::unknown))
    io.name("lost", result.lost, kRailLostCount, lost_word);
}

void fields(Record& io, RailPair& pair) {
  io.field("from", pair.from, 0);
  io.field("to", pair.to, 0);
  io.field("cells", pair.cells, kMostRailNics * kMostRailNics);
}

}  // namespace collctl::runtime

namespace collctl::cmd {

namespace {

constexpr size_t kMostCurveSizes = 64;

constexpr const char* kEndWords[] = {"ok",        "unlike", "gid",    "no-route",
                                     "no-answer", "mtu",    "failed", "wrong-data"};
static_assert(std::size(kEndWords) == runtime::kRailEndCount);

RailsNic nic_of(const runtime::RailNic& nic) {
  RailsNic out{.name = nic.name,
               .link = !nic.rdma()                                        ? "Ethernet"
                       : nic.link_layer == base::drivers::kLinkInfiniBand ? "InfiniBand"
                                                                          : "RoCE",
               .rdma = nic.rdma(),
               .rate_Gbps = double(nic.rate_mbps) / 1e3,
               .mtu = nic.mtu,
               .lid = nic.lid};
  if (!nic.rdma()) out.address = nic.address.host_text();
  out.network = nic.network;
  for (const auto& gid : nic.gids)
    out.gids.push_back(
        {gid.index, transport::gid_type_text(gid.type), transport::gid_text(gid.gid)});
  return out;
}

}  // namespace

const char* rail_word(RailEnd end) {
  return kEndWords[size_t(end)];
}

static void fields(Record& io, RailsGid& gid) {
  io.field("index", gid.index, 0, 255);
  io.field("type", gid.type);
  io.field("address", gid.address);
}

static void fields(Record& io, RailsNic& nic) {
  io.field("name", nic.name);
  io.field("link", nic.link);
  io.field("rdma", nic.rdma);
  io.field("rate_Gbps", nic.rate_Gbps, 0, 1e9);
  io.field("mtu", nic.mtu, 0, 1 << 30);
  io.field("lid", nic.lid, 0, 65535);
  io.field("address", nic.address);
  io.unless_empty("network", nic.network);
  io.field("gids", nic.gids);
}

static void fields(Record& io, RailsHost& host) {
  io.field("host", host.host);
  io.field("nics", host.nics);
  io.field("unused", host.unused);
  io.field("why_no_rdma", host.why_no_rdma);
  io.unless_empty("busy", host.busy);
  if (!io.has("gpu_memory", host.gpus != runtime::RailGpus{})) return;
  io.field("gpu_memory", host.gpus);
  for (const runtime::RailGpu& gpu : host.gpus.list)
    if (io.status() && gpu.nics.size() != host.nics.size()) io.fail("gpu_memory", "all NICs");
}

static void memory_fields(Record& io, RailsReport& report) {
  if (!io.has("memory", report.memory != runtime::MemoryChoice::host)) return;
  io.name("memory", report.memory, runtime::kMemoryChoices, runtime::memory_choice_word);
  io.field("sizes", report.sizes, kMostCurveSizes);
  io.field("memory_paths", report.trials);
  for (const runtime::MemoryTrial& trial : report.trials)
    if (io.status() && !is_of_hosts(trial, report.hosts))
      io.fail("memory_paths", "GPUs and NICs of the hosts");
}

static void pairs_field(Record& io, const char* name, std::vector<RailPair>& pairs,
                        const RailsReport& report) {
  io.field(name, pairs);
  for (const RailPair& pair : pairs)
    if (io.status() && !is_of_hosts(pair, report.hosts))
      io.fail(name, "two NICs of the hosts each");
}

static void fields(Record& io, RailsReport& report) {
  io.field("one_host", report.one_host);
  io.field("message_bytes", report.message_bytes);
  io.field("hosts", report.hosts);
  pairs_field(io, "pairs", report.pairs, report);
  memory_fields(io, report);
  if (!io.has("before", !report.before.empty())) return;
  pairs_field(io, "before", report.before, report);
  for (const RailPair& old : report.before)
    if (io.status() && std::ranges::none_of(report.pairs, [&](const auto& now) {
          return now.from == old.from && now.to == old.to;
        }))
      io.fail("before", "pairs that were measured again");
}

RailsReport report_of(const runtime::RailMatrix& matrix, const RailsSpec& spec) {
  RailsReport report;
  report.one_host = matrix.one_host;
  report.message_bytes = spec.message_bytes;
  for (const auto& host : matrix.hosts) {
    RailsHost& out = report.hosts.emplace_back();
    out.host = host.host;
    out.unused = host.unused;
    out.why_no_rdma = host.why_no_rdma;
    out.busy = host.busy;
    out.gpus = host.gpus;
    for (const auto& nic : host.nics) out.nics.push_back(nic_of(nic));
  }
  report.pairs = matrix.pairs;
  report.before = matrix.before;
  report.trials = matrix.trials;
  const auto gpus_here = [](const RailsHost& host) { return host.gpus != runtime::RailGpus{}; };
  const bool asked = spec.memory != runtime::MemoryChoice::automatic;
  if (!asked && std::ranges::none_of(report.hosts, gpus_here)) return report;
  report.memory = spec.memory;
  report.sizes = spec.sizes();
  return report;
}

void write_rails(JsonWriter& json, const RailsReport& report) {
  write_fields(json, report);
}

Result<RailsReport> read_rails(const std::string& text) {
  return record_of<RailsReport>(text, "reading the report of rails");
}

namespace {

constexpr double kAgainSeconds = 0.1;  // a path that is measured again: 0.02 s flips

Status run_rails(const TaskContext& context) {
  const auto& [task, id, rank, size, sink, continued, relay] = context;
  COLL_ASSIGN(const RailsSpec spec,
              record_of<RailsSpec>(task.options, "reading the options of rails"));
  sink.phase(rank, "connect");
  runtime::Rails::Options options;
  options.id = id;
  options.rank = rank;
  options.size = size;
  options.net = spec.net;
  if (task.settings.start_timeout_s > 0) options.start_timeout_s = task.settings.start_timeout_s;
  options.start_left_s = task.settings.start_left_s;
  options.op_timeout_s = task.settings.op_timeout_s;
  options.cancel = start_cancel();
  options.checks_in = [&sink = context.sink] { sink.checks_in(); };
  if (sink.every_rank())
    options.task = task_text("rails", task.options, {}) + alike_lines<RailsSpec>(task.options);
  options.message_bytes = uint32_t(spec.message_bytes);
  options.seconds = spec.seconds;
  options.timeout_s = spec.timeout_s;
  options.sparse_from = spec.sparse_from;
  options.relay = relay;
  options.again_seconds = std::max(spec.seconds, kAgainSeconds);
  options.again = [&spec](const runtime::RailMatrix& matrix, int round) {
    return hosts_in_doubt(report_of(matrix, spec), spec.below, round);
  };
  options.memory = spec.memory;
  options.every_nic = spec.every_nic;
  options.sizes = {.steps = spec.sizes(), .largest = kMostCurveBytes, .large_s = spec.large_s};
  options.memory_again = [&spec](const runtime::RailMatrix& matrix) {
    return gpus_in_doubt(report_of(matrix, spec), spec.below);
  };
  options.progress = [&sink = context.sink](const std::string& text) { sink.progress(text); };
  COLL_ASSIGN(const auto rails, runtime::Rails::join(options));
  const AbortScope aborted([&](const Error& why) { rails->abort(why); });
  sink.phase(rank, "measure");
  COLL_ASSIGN(const runtime::RailMatrix matrix, rails->run());
  if (rank == 0 || sink.every_rank()) {
    COLL_TRY(sink.record(json_of(report_of(matrix, spec))));
  }
  sink.phase(rank, "finish");
  return {};
}

}  // namespace

const RankTask kRailsTask{
    .name = "rails", .run = run_rails, .command = rails_row, .add_options = add_rails_options};

void fields(Record& io, RailsSpec& spec) {
  option_fields(io, spec);
  io.field("net", spec.net);
  io.field("sparse_from", spec.sparse_from, 0);
  io.field("below", spec.below, 0, 1);
  io.field("large_s", spec.large_s, 0, 3600);
  if (spec.message_bytes > kMostRailsMessage) io.fail("message", "at most 64M");
  if (std::max(spec.min_bytes, spec.max_bytes) > kMostCurveBytes)
    io.fail("max_bytes", "at most 1G");
}

std::vector<uint64_t> RailsSpec::sizes() const {
  std::vector<uint64_t> list;
  if (max_bytes == 0) return list;
  for (uint64_t size = std::max<uint64_t>(min_bytes, 1); size < max_bytes;
       size *= runtime::kCurveStep)
    list.push_back(size);
  list.push_back(max_bytes);
  return list;
}

}  // namespace collctl::cmd
