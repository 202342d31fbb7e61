// The report of `rails` as it travels from rank 0 to the launcher, and as --json shows it.
#include "base/format.h"
#include "base/host_facts.h"
#include "cmd/measure/abort_scope.h"
#include "cmd/text/json_fields.h"
#include "cmd/rails/rails.h"

namespace collctl::cmd {

using namespace json_fields;

namespace {

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
  for (const auto& gid : nic.gids)
    out.gids.push_back(
        {gid.index, transport::gid_type_text(gid.type), transport::gid_text(gid.gid)});
  return out;
}

void write(JsonWriter& json, const RailsNic& nic) {
  json.begin_object().field("name", nic.name).field("link", nic.link).field("rdma", nic.rdma);
  json.field("rate_Gbps", nic.rate_Gbps).field("mtu", nic.mtu).field("lid", nic.lid);
  json.field("address", nic.address).key("gids").begin_array();
  for (const RailsGid& gid : nic.gids)
    json.begin_object()
        .field("index", gid.index)
        .field("type", gid.type)
        .field("address", gid.address)
        .end_object();
  json.end_array().end_object();
}

void write(JsonWriter& json, const RailsCell& cell) {
  json.begin_object().field("end", rail_word(cell.end)).field("GBps", cell.GBps);
  json.field("first_us", cell.first_us);
  json.field("from_gid", cell.from_gid).field("to_gid", cell.to_gid);
  json.field("gid_type", cell.gid_type).field("text", cell.text).end_object();
}

RailsNic read_nic(Fields& f) {
  RailsNic nic;
  f.text("name", nic.name);
  f.text("link", nic.link);
  f.flag("rdma", nic.rdma);
  f.number("rate_Gbps", nic.rate_Gbps, 0, 1e9);
  f.whole("mtu", nic.mtu, 0, 1 << 30);
  f.whole("lid", nic.lid, 0, 65535);
  f.text("address", nic.address);
  f.list("gids", [&](const Json& element) {
    Fields inner(element);
    RailsGid gid;
    inner.whole("index", gid.index, 0, 255);
    inner.text("type", gid.type);
    inner.text("address", gid.address);
    f.take(inner);
    nic.gids.push_back(std::move(gid));
  });
  return nic;
}

RailsHost read_host(Fields& f) {
  RailsHost host;
  f.text("host", host.host);
  f.words("unused", host.unused);
  f.text("why_no_rdma", host.why_no_rdma);
  f.list("nics", [&](const Json& element) {
    Fields inner(element);
    host.nics.push_back(read_nic(inner));
    f.take(inner);
  });
  return host;
}

RailsCell read_cell(Fields& f) {
  RailsCell cell;
  std::string word;
  f.text("end", word);
  int end = 0;
  while (end < runtime::kRailEndCount && word != kEndWords[end]) ++end;
  if (end == runtime::kRailEndCount) return f.fail("end", "a known word"), cell;
  cell.end = RailEnd(end);
  f.number("GBps", cell.GBps, 0, 1e9);
  f.number("first_us", cell.first_us, 0, 1e12);
  f.whole("from_gid", cell.from_gid, -1, 255);
  f.whole("to_gid", cell.to_gid, -1, 255);
  f.text("gid_type", cell.gid_type);
  f.text("text", cell.text);
  return cell;
}

RailsPair read_pair(Fields& f, const RailsReport& report) {
  RailsPair pair;
  const int hosts = int(report.hosts.size());
  f.whole("from", pair.from, 0, hosts - 1);
  f.whole("to", pair.to, 0, hosts - 1);
  f.list("cells", [&](const Json& element) {
    Fields inner(element);
    pair.cells.push_back(read_cell(inner));
    f.take(inner);
  });
  if (!f.status()) return pair;
  if (pair.cells.size() !=
      report.hosts[size_t(pair.from)].nics.size() * report.hosts[size_t(pair.to)].nics.size())
    f.fail("cells", "one for each two NICs");
  return pair;
}

}  // namespace

const char* rail_word(RailEnd end) {
  return kEndWords[size_t(end)];
}

RailsReport report_of(const runtime::RailMatrix& matrix, uint64_t message_bytes) {
  RailsReport report;
  report.one_host = matrix.one_host;
  report.message_bytes = message_bytes;
  for (const auto& host : matrix.hosts) {
    RailsHost& out = report.hosts.emplace_back();
    out.host = host.host;
    out.unused = host.unused;
    out.why_no_rdma = host.why_no_rdma;
    for (const auto& nic : host.nics) out.nics.push_back(nic_of(nic));
  }
  for (const auto& pair : matrix.pairs) {
    RailsPair& out = report.pairs.emplace_back();
    out.from = pair.from;
    out.to = pair.to;
    for (const auto& cell : pair.cells)
      out.cells.push_back({.end = cell.end,
                           .GBps = cell.GBps,
                           .first_us = cell.first_us,
                           .from_gid = cell.from_gid,
                           .to_gid = cell.to_gid,
                           .gid_type = cell.from_gid_type,
                           .text = cell.text});
  }
  return report;
}

void write_rails(JsonWriter& json, const RailsReport& report) {
  json.field("one_host", report.one_host).field("message_bytes", report.message_bytes);
  json.key("hosts").begin_array();
  for (const RailsHost& host : report.hosts) {
    json.begin_object().field("host", host.host).key("nics").begin_array();
    for (const RailsNic& nic : host.nics) write(json, nic);
    json.end_array().key("unused").begin_array();
    for (const std::string& text : host.unused) json.value(text);
    json.end_array().field("why_no_rdma", host.why_no_rdma).end_object();
  }
  json.end_array().key("pairs").begin_array();
  for (const RailsPair& pair : report.pairs) {
    json.begin_object().field("from", pair.from).field("to", pair.to).key("cells").begin_array();
    for (const RailsCell& cell : pair.cells) write(json, cell);
    json.end_array().end_object();
  }
  json.end_array();
}

Result<RailsReport> read_rails(const std::string& text) {
  constexpr const char* kContext = "reading the report of rails";
  auto json = parse(text);
  if (!json) return std::move(json.error()).within(kContext);
  Fields f(*json);
  RailsReport report;
  f.flag("one_host", report.one_host);
  f.count("message_bytes", report.message_bytes);
  f.list("hosts", [&](const Json& element) {
    Fields inner(element);
    report.hosts.push_back(read_host(inner));
    f.take(inner);
  });
  f.list("pairs", [&](const Json& element) {
    Fields inner(element);
    RailsPair pair = read_pair(inner, report);
    f.take(inner);
    report.pairs.push_back(std::move(pair));
  });
  COLL_TRY_IN(f.status(), kContext);
  return report;
}

namespace {

constexpr TaskField kAlike[] = {
    {"message_bytes", "--message"}, {"seconds", "--seconds"}, {"timeout_s", "--pair-timeout"}};

Status run_rails(const TaskContext& context) {
  const auto& [task, id, rank, size, sink] = context;
  COLL_ASSIGN(const RailsSpec spec, RailsSpec::from_json(task.options));
  sink.phase(rank, "connect");
  runtime::Rails::Options options;
  options.id = id;
  options.rank = rank;
  options.size = size;
  options.net = spec.net;
  if (task.settings.start_timeout_s > 0) options.start_timeout_s = task.settings.start_timeout_s;
  options.cancel = start_cancel();
  options.checks_in = [&sink = context.sink] { sink.checks_in(); };
  if (sink.every_rank()) options.task = task_text("rails", task.options, kAlike);
  options.message_bytes = uint32_t(spec.message_bytes);
  options.seconds = spec.seconds;
  options.timeout_s = spec.timeout_s;
  options.progress = [&sink = context.sink](const std::string& text) { sink.progress(text); };
  COLL_ASSIGN(const auto rails, runtime::Rails::join(options));
  const AbortScope aborted([&](const Error&) { rails->cancel(); });
  sink.phase(rank, "measure");
  COLL_ASSIGN(const runtime::RailMatrix matrix, rails->run());
  if (rank == 0 || sink.every_rank()) {
    JsonWriter json;
    json.begin_object();
    write_rails(json, report_of(matrix, spec.message_bytes));
    json.end_object();
    COLL_TRY(sink.record(json.take()));
  }
  sink.phase(rank, "finish");
  return {};
}

}  // namespace

const RankTask kRailsTask{.name = "rails", .run = run_rails};

std::string RailsSpec::to_json() const {
  return json_fields::dump({{"message_bytes", message_bytes},
                            {"seconds", seconds},
                            {"timeout_s", timeout_s},
                            {"net", net}});
}

Result<RailsSpec> RailsSpec::from_json(const std::string& text) {
  constexpr const char* kContext = "reading the options of rails";
  auto json = json_fields::parse(text);
  if (!json) return std::move(json.error()).within(kContext);
  json_fields::Fields f(*json);
  RailsSpec spec;
  f.number("message_bytes", spec.message_bytes, 1, double(kMostRailsMessage));
  f.number("seconds", spec.seconds, 0, 3600);
  f.number("timeout_s", spec.timeout_s, 0, 3600);
  f.text("net", spec.net);
  COLL_TRY_IN(f.status(), kContext);
  return spec;
}

}  // namespace collctl::cmd
