// The JSON forms of bench records (cmd/measure/bench.h): what travels between the launcher's
// process and the ranks.
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "cmd/measure/fields.h"

namespace collctl::cmd {

namespace {

constexpr int kMostGraph = 1'000'000;

// A record as it travels: its kind, then its fields.
template <class T>
std::string record_text(const char* kind, const T& record) {
  JsonWriter out(JsonWriter::Numbers::exact);
  out.begin_object().field("record", kind);
  write_fields(out, record);
  return out.end_object().take();
}

}  // namespace

static void fields(Record& io, LinkLine& link) {
  io.field("channel", link.channel, 0, 1 << 20);
  io.field("from", link.from, 0, kMostRankNumber);
  io.field("to", link.to, 0, kMostRankNumber);
  io.field("via", link.via);
  io.unless_empty("why", link.why);
  io.unless_empty("from_nic", link.from_nic);
  io.unless_empty("to_nic", link.to_nic);
  if (io.has("relay", link.relay >= 0)) io.field("relay", link.relay, 0, kMostRankNumber);
}

static void fields(Record& io, HostLine& host) {
  io.field("host", host.host);
  io.field("ranks", host.ranks);
  io.field("devices", host.devices);
  io.field("pids", host.pids);
  io.unless_empty("own_name", host.own_name);
  io.unless_empty("machine", host.machine);
  io.unless_empty("cores", host.cores);
  if (io.has("bound", !host.cores.empty())) io.field("bound", host.bound);
  if (io.has("wakeup_us", host.wakeup_us > 0)) io.field("wakeup_us", host.wakeup_us, 0, 1e9);
  if (!io.has("gpus", !host.gpus.empty())) return;
  io.list("gpus", host.gpus, [&](GpuLine& gpu) {
    const auto i = size_t(&gpu - host.gpus.data());
    if (i >= std::min(host.ranks.size(), host.devices.size()))
      return io.fail("gpus", "one for each rank");
    io.object("gpus", [&] {
      int rank = host.ranks[i], device = host.devices[i];  // for who reads it alone
      io.field("rank", rank);
      io.field("dev", device);
      io.field("name", gpu.name);
      io.field("busid", gpu.bus_id);
      io.field("held_bytes", gpu.held_bytes);
      io.unless_empty("note", gpu.note);
    });
  });
}

static void fields(Record& io, GroupLine& group) {
  io.field("ranks", group.ranks);
  io.field("hosts", group.hosts);
}

static void fields(Record& io, WindowsLine& windows) {
  io.field("bytes", windows.bytes);
  io.objects("teams", windows.teams, [&](std::vector<int>& team) { io.field("ranks", team); });
  io.unless_empty("note", windows.note);
}

static void fields(Record& io, TunerLine& tuner) {
  io.field("name", tuner.name);
  io.field("version", tuner.version, 0, 1000);
  io.field("library", tuner.library);
}

void header_fields(Record& io, BenchHeader& header) {
  io.field("ranks", header.ranks, 0, kMostRankNumber);
  io.field("device", header.device);
  io.unless_empty("device_reason", header.device_reason);
  io.field("hosts", header.hosts);
  io.field("links", header.links);
  io.field("init_s", header.init_seconds, 0, 1e9);
  if (io.has("launch_s", header.launch_seconds > 0))
    io.field("launch_s", header.launch_seconds, 0, 1e9);
  io.unless_empty("tuner_plugin", header.tuner);
  io.unless_empty("windows", header.windows);
  io.unless_empty("split", header.split);
  io.unless_empty("groups", header.groups);
  if (io.has("cuda_graph", header.cuda_graph != 0))
    io.field("cuda_graph", header.cuda_graph, 0, kMostGraph);
  if (io.has("agg_iters", header.grouped != 1))
    io.field("agg_iters", header.grouped, 1, kMostGraph);
  if (io.has("average", header.time_of != TimeOf::slowest))
    io.number("average", header.time_of, int(TimeOf::slowest) + 1);
  io.unless_empty("beside", header.versus);
  io.unless_empty("note", header.note);
}

static void fields(Record& io, BenchHeader& header) {
  io.field("version", header.version);
  op_field(io, "op", header.collective);
  io.field("soak", header.soak);
  header_fields(io, header);
}

static void fields(Record& io, VersusTiming& other) {
  io.field("name", other.name);
  io.field("variant", other.variant);
  io.field("time_us", other.time_us);
  io.field("wrong", other.wrong, -1);
  io.field("wrong_rank", other.wrong_rank, -1, kMostRankNumber);
}

static void fields(Record& io, Timing& t) {
  io.field("measured", t.measured);
  io.field("time_us", t.time_us);
  io.field("p50_us", t.p50_us);
  io.field("p99_us", t.p99_us);
  io.field("min_us", t.min_us);
  io.field("max_us", t.max_us);
  io.field("unsteady", t.unsteady);
  io.field("algbw_GBps", t.algbw_GBps);
  io.field("busbw_GBps", t.busbw_GBps);
  io.field("wrong", t.wrong, -1);
  io.field("slowest_rank", t.slowest_rank, -1, kMostRankNumber);
  io.field("fastest_us", t.fastest_us);
  io.field("mean_us", t.mean_us);
  io.field("slowest_us", t.slowest_us);
  io.field("versus", t.versus);
}

void fields(Record& io, RowExpected& expected) {
  constexpr double kMostUs = 1e15, kMostGBps = 1e12;
  io.field("time_us", expected.time_us, 0, kMostUs);
  io.field("busbw_GBps", expected.busbw_GBps, 0, kMostGBps);
  io.field("limited_by", expected.limited_by);
  io.field("source", expected.source);
  io.unless_empty("unknown", expected.unknown);
}

void fields(Record& io, RowTuned& tuned) {
  io.field("followed", tuned.followed);
  io.field("wish", tuned.wish);
  io.object("own", [&] {
    io.field("algorithm", tuned.algorithm);
    io.field("protocol", tuned.protocol);
    io.field("channels", tuned.channels, 0, 1 << 20);
    io.field("time_us", tuned.time_us, 0, 1e15);
  });
}

void group_fields(Record& io, BenchRow& row) {
  if (!io.has("group", row.group >= 0)) return;
  io.field("group", row.group, 0, kMostRankNumber);
  io.field("group_ranks", row.group_ranks, 1, kMostRankNumber);
  io.field("slowest_group", row.slowest_group);
}

static void fields(Record& io, BenchRow& row) {
  io.field("bytes", row.bytes);
  io.field("count", row.count);
  io.name("dtype", row.type, kernels::kDataTypeCount, kernels::name_of);
  io.name("redop", row.op, kernels::kRedOpCount, kernels::name_of);
  io.field("has_op", row.has_op);
  io.field("root", row.root, -1, kMostRankNumber);
  io.field("algorithm", row.algorithm);
  io.field("protocol", row.protocol);
  io.field("channels", row.channels, 0, 1 << 20);
  io.field("straight", row.direct);
  io.field("out_of_place", row.out_of_place);
  io.field("in_place", row.in_place);
  io.unless_empty("expected", row.expected);
  io.unless_empty("tuner", row.tuned);
  group_fields(io, row);
  if (io.has("ranks", row.ranks > 0)) io.field("ranks", row.ranks, 1, kMostRankNumber);
  if (io.has("warmup", row.warmup > 0)) io.field("warmup", row.warmup);
  io.field("number", row.number);
}

void fields(Record& io, StartCost& cost) {
  io.field("seconds", cost.seconds, 0, 1e9);
  io.field("taken_bytes", cost.taken_bytes);
  io.field("buffer_bytes", cost.buffer_bytes);
}

void fields(Record& io, LeftOut& out) {
  io.field("variant", out.variant);
  io.field("reason", out.reason);
}

void fields(Record& io, BusyHost& host) {
  io.field("host", host.host);
  io.field("why", host.why);
  if (io.has("own_limit", host.own_limit)) io.field("own_limit", host.own_limit);
}

void fields(Record& io, ThrottledGpu& gpu) {
  io.field("host", gpu.host);
  io.field("rank", gpu.rank, 0, kMostRankNumber);
  io.field("dev", gpu.device, 0, 1 << 20);
  io.field("busid", gpu.bus_id);
  io.field("why", gpu.why);
}

static void fields(Record& io, PeerWaits& peer) {
  io.field("peer", peer.peer, 0, kMostRankNumber);
  io.field("recv_wait_us", peer.recv_us, 0);
  io.field("send_wait_us", peer.send_us, 0);
  io.field("carrying_us", peer.carrying_us, 0);
  io.field("waits", peer.waits);
}

void fields(Record& io, RankWaits& rank) {
  io.field("rank", rank.rank, 0, kMostRankNumber);
  io.field("host", rank.host);
  io.field("elapsed_us", rank.elapsed_us, 0);
  io.field("waited_us", rank.waited_us, 0);
  io.field("away_us", rank.away_us, 0);
  io.field("peers", rank.peers);
}

static void fields(Record& io, BenchClosing& closing) {
  io.field("busy", closing.busy);
  io.field("throttled", closing.throttled);
  io.field("left_out", closing.left_out);
  io.unless_empty("waits", closing.waits);
  io.field("other", closing.other);
  io.field("other_variant", closing.other_variant);
  io.field("costs", closing.costs);
  io.field("own_cost", closing.own_cost);
  io.field("other_cost", closing.other_cost);
  io.unless_empty("nccl", closing.nccl);
}

static void fields(Record& io, DataFault::Hop& hop) {
  io.field("from", hop.from, 0, kMostRankNumber);
  io.field("to", hop.to, 0, kMostRankNumber);
}

void fields(Record& io, DataFault& fault) {
  io.field("kind", fault.kind);
  io.field("message", fault.message);
  io.field("rank", fault.rank, -1, kMostRankNumber);
  io.field("peer", fault.peer, -1, kMostRankNumber);
  io.field("channel", fault.channel, -1, 1 << 20);
  io.field("chunk", fault.chunk);
  io.field("step", fault.step);
  io.field("first_element", fault.first_element);
  io.field("first_byte", fault.first_byte);
  io.field("last_byte", fault.last_byte);
  io.field("bad_elements", fault.bad_elements);
  if (io.has("hops", !fault.hops.empty())) io.field("hops", fault.hops);
}

static void fields(Record& io, TraceEvent::Wait& wait) {
  io.field("peer", wait.peer, 0, kMostRankNumber);
  io.field("recv_us", wait.recv_us, 0);
  io.field("send_us", wait.send_us, 0);
}

static void fields(Record& io, TraceEvent& event) {
  io.field("rank", event.rank, 0, kMostRankNumber);
  io.field("in_place", event.in_place);
  io.field("iteration", event.iteration);
  io.field("start_us", event.start_us);
  io.field("elapsed_us", event.elapsed_us, 0);
  io.field("waits", event.waits);
}

static void fields(Record& io, BenchTrace& trace) {
  io.field("events", trace.events);
  io.field("left_out", trace.left_out);
}

// By the variant's order.
static constexpr const char* kKinds[] = {"header", "row", "closing", "fault", "trace"};
static_assert(std::size(kKinds) == std::variant_size_v<BenchRecord>);

std::string encode_record(const BenchRecord& record) {
  return std::visit([&](const auto& r) { return record_text(kKinds[record.index()], r); }, record);
}

template <size_t I = 0>
static Result<BenchRecord> read_kind(Record& io, const std::string& kind) {
  if constexpr (I == std::size(kKinds)) {
    io.fail("record", "header, row, closing, fault or trace");
    return std::move(io.status().error());
  } else {
    if (kind != kKinds[I]) return read_kind<I + 1>(io, kind);
    std::variant_alternative_t<I, BenchRecord> record;
    fields(io, record);
    COLL_TRY(io.status());
    return BenchRecord(std::move(record));
  }
}

Result<BenchRecord> decode_record(const std::string& text) {
  constexpr const char* kContext = "reading a bench record";
  auto read = Record::read(text);
  if (!read) return std::move(read.error()).within(kContext);
  std::string kind;
  read->field("record", kind);
  auto record = read_kind(*read, kind);
  if (!record) return std::move(record.error()).within(kContext);
  return record;
}

Status BenchSink::record(const std::string& json) {
  COLL_ASSIGN(BenchRecord record, decode_record(json));
  on(std::move(record));
  return {};
}

Result<BenchHeader> read_header(const std::string& text) {
  return record_of<BenchHeader>(text, "reading a bench record");
}

}  // namespace collctl::cmd
