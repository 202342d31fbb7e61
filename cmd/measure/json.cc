// The JSON forms of bench records (cmd/measure/bench.h): what travels between the launcher's process and
// the ranks. Reading trusts nothing: a wrong kind, an unknown name or a number out of range is an
// error that names the field.
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "cmd/measure/fields.h"

namespace collctl::cmd {

namespace {

using namespace json_fields;
using Json = nlohmann::json;
using kernels::DataType;

Json to_json(const Timing& t) {
  Json versus = Json::array();
  for (const VersusTiming& v : t.versus)
    versus.push_back({{"name", v.name}, {"variant", v.variant}, {"time_us", v.time_us}});
  return {{"measured", t.measured},     {"time_us", t.time_us},
          {"p50_us", t.p50_us},         {"p99_us", t.p99_us},
          {"min_us", t.min_us},         {"max_us", t.max_us},
          {"algbw_GBps", t.algbw_GBps}, {"busbw_GBps", t.busbw_GBps},
          {"wrong", t.wrong},           {"slowest_rank", t.slowest_rank},
          {"versus", std::move(versus)}};
}

void read(Fields& f, Timing& t) {
  f.flag("measured", t.measured);
  f.real("time_us", t.time_us);
  f.real("p50_us", t.p50_us);
  f.real("p99_us", t.p99_us);
  f.real("min_us", t.min_us);
  f.real("max_us", t.max_us);
  f.real("algbw_GBps", t.algbw_GBps);
  f.real("busbw_GBps", t.busbw_GBps);
  f.number("wrong", t.wrong, -1, 9e18);
  f.whole("slowest_rank", t.slowest_rank, -1, 1 << 30);
  f.list("versus", [&](const Json& element) {
    Fields inner(element);
    VersusTiming other;
    inner.text("name", other.name);
    inner.text("variant", other.variant);
    inner.real("time_us", other.time_us);
    f.take(inner);
    t.versus.push_back(std::move(other));
  });
}

void read(Fields& f, BenchRow& row) {
  f.count("bytes", row.bytes);
  f.count("count", row.count);
  f.name("dtype", row.type, kernels::kDataTypeCount);
  f.name("redop", row.op, kernels::kRedOpCount);
  f.flag("has_op", row.has_op);
  f.whole("root", row.root, -1, 1 << 30);
  f.text("algorithm", row.algorithm);
  f.text("protocol", row.protocol);
  f.whole("channels", row.channels, 0, 1 << 20);
  f.flag("straight", row.direct);
  f.object("out_of_place", [&](Fields& inner) { read(inner, row.out_of_place); });
  f.object("in_place", [&](Fields& inner) { read(inner, row.in_place); });
}

void read(Fields& f, BenchHeader& header) {
  f.text("version", header.version);
  f.text("device", header.device);
  f.text("device_reason", header.device_reason);
  f.name("op", header.collective, kernels::kCollectiveCount);
  f.whole("ranks", header.ranks, 0, 1 << 20);
  f.list("hosts", [&](const Json& element) {
    Fields inner(element);
    HostLine line;
    inner.text("host", line.host);
    inner.numbers("ranks", line.ranks);
    inner.numbers("devices", line.devices);
    inner.numbers("pids", line.pids);
    read_list(inner, "gpus", line.gpus, read_gpu);
    f.take(inner);
    header.hosts.push_back(std::move(line));
  });
  read_list(f, "links", header.links, read_link);
  f.real("init_seconds", header.init_seconds);
  f.text("note", header.note);
  f.whole("cuda_graph", header.cuda_graph, 0, 1'000'000);
  f.flag("soak", header.soak);
  f.text("versus", header.versus);
  f.list("windows", [&](const Json& element) {  // one or none
    Fields inner(element);
    read_windows(inner, element, header.windows.emplace());
    f.take(inner);
  });
}

Json to_json(const StartCost& cost) {
  return {{"seconds", cost.seconds},
          {"taken_bytes", cost.taken_bytes},
          {"buffer_bytes", cost.buffer_bytes}};
}

void read(Fields& f, StartCost& cost) {
  f.number("seconds", cost.seconds, 0, 1e9);
  f.count("taken_bytes", cost.taken_bytes);
  f.count("buffer_bytes", cost.buffer_bytes);
}

void read(Fields& f, BenchClosing& closing) {
  read_list(f, "throttled", closing.throttled, read_throttled);
  read_list(f, "left_out", closing.left_out, read_left_out);
  read_list(f, "busy", closing.busy, read_busy);
  f.text("other", closing.other);
  f.text("other_variant", closing.other_variant);
  f.flag("costs", closing.costs);
  f.object("own_cost", [&](Fields& inner) { read(inner, closing.own_cost); });
  f.object("other_cost", [&](Fields& inner) { read(inner, closing.other_cost); });
}

void read(Fields& f, DataFault& fault) {
  f.whole("rank", fault.rank, -1, 1 << 30);
  f.count("first_element", fault.first_element);
  f.count("first_byte", fault.first_byte);
  f.count("last_byte", fault.last_byte);
  f.count("bad_elements", fault.bad_elements);
  f.whole("channel", fault.channel, -1, 1 << 20);
  f.count("chunk", fault.chunk);
  f.count("step", fault.step);
  f.whole("peer", fault.peer, -1, 1 << 30);
  f.text("kind", fault.kind);
  f.text("message", fault.message);
}

}  // namespace

std::string encode_record(const BenchHeader& header) {
  Json hosts = Json::array(), links = Json::array();
  for (const HostLine& line : header.hosts) {
    Json gpus = Json::array();
    for (const GpuLine& gpu : line.gpus)
      gpus.push_back({{"name", gpu.name},
                      {"busid", gpu.bus_id},
                      {"held_bytes", gpu.held_bytes},
                      {"note", gpu.note}});
    hosts.push_back({{"host", line.host},
                     {"ranks", line.ranks},
                     {"devices", line.devices},
                     {"pids", line.pids},
                     {"gpus", std::move(gpus)}});
  }
  for (const LinkLine& line : header.links)
    links.push_back({{"channel", line.channel},
                     {"from", line.from},
                     {"to", line.to},
                     {"via", line.via},
                     {"why", line.why}});
  Json windows = Json::array();
  if (header.windows) {
    Json teams = Json::array();
    for (const auto& team : header.windows->teams) teams.push_back({{"ranks", team}});
    windows.push_back({{"bytes", header.windows->bytes},
                       {"teams", std::move(teams)},
                       {"note", header.windows->note}});
  }
  return dump({{"record", "header"},
               {"version", header.version},
               {"device", header.device},
               {"device_reason", header.device_reason},
               {"op", kernels::name_of(header.collective)},
               {"ranks", header.ranks},
               {"hosts", std::move(hosts)},
               {"links", std::move(links)},
               {"init_seconds", header.init_seconds},
               {"note", header.note},
               {"cuda_graph", header.cuda_graph},
               {"soak", header.soak},
               {"versus", header.versus},
               {"windows", std::move(windows)}});
}

std::string encode_record(const BenchRow& row) {
  return dump({{"record", "row"},
               {"bytes", row.bytes},
               {"count", row.count},
               {"dtype", kernels::name_of(row.type)},
               {"redop", kernels::name_of(row.op)},
               {"has_op", row.has_op},
               {"root", row.root},
               {"algorithm", row.algorithm},
               {"protocol", row.protocol},
               {"channels", row.channels},
               {"straight", row.direct},
               {"out_of_place", to_json(row.out_of_place)},
               {"in_place", to_json(row.in_place)}});
}

std::string encode_record(const BenchClosing& closing) {
  Json throttled = Json::array(), left_out = Json::array(), busy = Json::array();
  for (const BusyHost& host : closing.busy)
    busy.push_back({{"host", host.host}, {"why", host.why}});
  for (const ThrottledGpu& gpu : closing.throttled)
    throttled.push_back({{"host", gpu.host},
                         {"busid", gpu.bus_id},
                         {"rank", gpu.rank},
                         {"dev", gpu.device},
                         {"why", gpu.why}});
  for (const LeftOut& out : closing.left_out)
    left_out.push_back({{"variant", out.variant}, {"reason", out.reason}});
  return dump({{"record", "closing"},
               {"busy", std::move(busy)},
               {"throttled", std::move(throttled)},
               {"left_out", std::move(left_out)},
               {"other", closing.other},
               {"other_variant", closing.other_variant},
               {"costs", closing.costs},
               {"own_cost", to_json(closing.own_cost)},
               {"other_cost", to_json(closing.other_cost)}});
}

std::string encode_record(const DataFault& fault) {
  return dump({{"record", "fault"},
               {"rank", fault.rank},
               {"first_element", fault.first_element},
               {"first_byte", fault.first_byte},
               {"last_byte", fault.last_byte},
               {"bad_elements", fault.bad_elements},
               {"channel", fault.channel},
               {"chunk", fault.chunk},
               {"step", fault.step},
               {"peer", fault.peer},
               {"kind", fault.kind},
               {"message", fault.message}});
}

Status deliver_record(const std::string& text, BenchSink& sink) {
  constexpr const char* kContext = "reading a bench record";
  auto json = parse(text);
  if (!json) return std::move(json.error()).within(kContext);
  Fields f(*json);
  std::string kind;
  f.text("record", kind);
  if (kind == "header") {
    BenchHeader header;
    read(f, header);
    COLL_TRY_IN(f.status(), kContext);
    sink.header(header);
  } else if (kind == "row") {
    BenchRow row;
    read(f, row);
    COLL_TRY_IN(f.status(), kContext);
    sink.row(row);
  } else if (kind == "closing") {
    BenchClosing closing;
    read(f, closing);
    COLL_TRY_IN(f.status(), kContext);
    sink.closing(closing);
  } else if (kind == "fault") {
    DataFault fault;
    read(f, fault);
    COLL_TRY_IN(f.status(), kContext);
    sink.fault(fault);
  } else {
    f.fail("record", "header, row, closing or fault");
    COLL_TRY_IN(f.status(), kContext);
  }
  return {};
}

Status BenchSink::record(const std::string& json) {
  return deliver_record(json, *this);
}

Result<BenchHeader> read_header(const std::string& text) {
  constexpr const char* kContext = "reading a bench record";
  auto json = parse(text);
  if (!json) return std::move(json.error()).within(kContext);
  Fields f(*json);
  BenchHeader header;
  read(f, header);
  COLL_TRY_IN(f.status(), kContext);
  return header;
}

}  // namespace collctl::cmd
