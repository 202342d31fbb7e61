#include "cmd/report/read.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "cmd/measure/fields.h"

namespace collctl::cmd {
namespace {

using namespace json_fields;
using kernels::DataType;

void read_host(const Json& json, Fields& outer, BenchHeader& header) {
  Fields f(json);
  HostLine host;
  f.text("host", host.host);
  f.numbers("ranks", host.ranks);
  f.numbers("devices", host.devices);
  f.numbers("pids", host.pids);
  if_there(json, "gpus", [&] {
    read_list(f, "gpus", host.gpus, read_gpu);
    if (host.gpus.size() > std::min(host.ranks.size(), host.devices.size()))
      f.fail("gpus", "one for each rank");
  });
  outer.take(f);
  header.hosts.push_back(std::move(host));
}

void read_header(const Json& json, Fields& f, BenchReport& report) {
  BenchHeader header;
  std::string op;
  f.text("version", header.version);
  f.text("op", op);
  if (op == "soak") {
    report.spec.soak = header.soak = true;
    f.count("seed", report.spec.soak_seed);
    f.whole("operations", report.spec.soak_operations, 0, 1'000'000'000);
  } else {
    f.name("op", report.spec.collective, kernels::kCollectiveCount);
  }
  header.collective = report.spec.collective;
  f.whole("ranks", header.ranks, 0, 1 << 20);
  f.text("device", header.device);
  if_there(json, "device_reason", [&] { f.text("device_reason", header.device_reason); });
  f.list("hosts", [&](const Json& host) { read_host(host, f, header); });
  read_list(f, "links", header.links, read_link);
  f.number("init_s", header.init_seconds, 0, 1e9);
  if_there(json, "windows", [&] {
    report.spec.window = true;
    f.object("windows", [&](Fields& inner) {
      read_windows(inner, json["windows"], header.windows.emplace());
    });
  });
  if_there(json, "cuda_graph", [&] { f.whole("cuda_graph", header.cuda_graph, 0, 1'000'000); });
  if_there(json, "beside", [&] { f.text("beside", header.versus); });
  if_there(json, "note", [&] { f.text("note", header.note); });
  report.header = std::move(header);
}

void read_timing(const Json& json, const char* name, Fields& outer, BenchReport& report,
                 Timing& t) {
  if_there(json, name, [&] {
    outer.object(name, [&](Fields& f) {
      t.measured = true;
      f.number("time_us", t.time_us, 0, 1e15);
      f.number("algbw_GBps", t.algbw_GBps, 0, 1e12);
      f.number("busbw_GBps", t.busbw_GBps, 0, 1e12);
      f.whole("slowest_rank", t.slowest_rank, -1, 1 << 20);
      if_there(json[name], "wrong", [&] { f.number("wrong", t.wrong, 0, 9e18); });
      if_there(json[name], "p50_us", [&] {
        report.spec.sync_each = true;
        f.number("p50_us", t.p50_us, 0, 1e15);
        f.number("p99_us", t.p99_us, 0, 1e15);
        f.number("min_us", t.min_us, 0, 1e15);
        f.number("max_us", t.max_us, 0, 1e15);
      });
    });
  });
}

void read_versus(const Json& json, const char* name, Fields& outer, Timing& t) {
  if_there(json, name, [&] {
    outer.object(name, [&](Fields& f) {
      std::string library;
      f.text("name", library);
      f.list("variants", [&](const Json& element) {
        Fields inner(element);
        VersusTiming other{library, "", 0};
        inner.text("name", other.variant);
        inner.number("time_us", other.time_us, 0, 1e15);
        f.take(inner);
        t.versus.push_back(std::move(other));
      });
    });
  });
}

void read_row(const Json& json, Fields& outer, BenchReport& report) {
  Fields f(json);
  BenchRow row;
  std::string op;
  f.count("bytes", row.bytes);
  f.count("count", row.count);
  f.name("dtype", row.type, kernels::kDataTypeCount);
  f.text("redop", op);
  row.has_op = op != "none";
  if (row.has_op) f.name("redop", row.op, kernels::kRedOpCount);
  f.whole("root", row.root, -1, 1 << 20);
  f.text("algorithm", row.algorithm);
  f.text("protocol", row.protocol);
  f.whole("channels", row.channels, 0, 1 << 20);
  if_there(json, "straight", [&] { f.flag("straight", row.direct); });
  read_timing(json, "out_of_place", f, report, row.out_of_place);
  read_timing(json, "in_place", f, report, row.in_place);
  const bool first = row.out_of_place.measured;
  read_versus(json, "vs", f, first ? row.out_of_place : row.in_place);
  if (first) read_versus(json, "vs_in_place", f, row.in_place);
  outer.take(f);
  report.rows.push_back(std::move(row));
}

// What the table's columns depend on.
void conclude_spec(BenchReport& report) {
  BenchSpec& spec = report.spec;
  spec.max_bytes = 0;
  spec.ops.clear();
  spec.roots.clear();
  const auto add = [](auto& list, const auto& value) {
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  };
  bool out = false, in = false, versus = false;
  for (const BenchRow& row : report.rows) {
    spec.max_bytes = std::max(spec.max_bytes, row.bytes);
    out = out || row.out_of_place.measured;
    in = in || row.in_place.measured;
    versus = versus || !row.out_of_place.versus.empty() || !row.in_place.versus.empty();
    add(spec.types, row.type);
    add(spec.ops, row.op);
    add(spec.roots, row.root);
  }
  spec.in_place = out && in ? InPlace::both : in ? InPlace::in_place : InPlace::out_of_place;
  if (versus || (report.header && !report.header->versus.empty())) spec.versus = {"default"};
}

void read_cost(Fields& f, const Json& json, StartCost& cost) {
  if_there(json, "buffer_bytes", [&] { f.count("buffer_bytes", cost.buffer_bytes); });
  if_there(json, "taken_bytes", [&] { f.count("taken_bytes", cost.taken_bytes); });
}

void read_closing(const Json& json, Fields& f, BenchReport& report) {
  BenchClosing closing;
  if_there(json, "start", [&] {
    closing.costs = true;
    f.object("start", [&](Fields& inner) {
      inner.number("collctl_s", closing.own_cost.seconds, 0, 1e9);
      inner.number("vs_s", closing.other_cost.seconds, 0, 1e9);
    });
    f.object("memory", [&](Fields& inner) {
      inner.object("collctl", [&](Fields& own) {
        read_cost(own, json["memory"]["collctl"], closing.own_cost);
      });
      inner.object("vs", [&](Fields& vs) {
        vs.text("variant", closing.other_variant);
        read_cost(vs, json["memory"]["vs"], closing.other_cost);
      });
    });
  });
  if_there(json, "vs_not_measured",
           [&] { read_list(f, "vs_not_measured", closing.left_out, read_left_out); });
  if_there(json, "busy_hosts", [&] { read_list(f, "busy_hosts", closing.busy, read_busy); });
  if_there(json, "throttled",
           [&] { read_list(f, "throttled", closing.throttled, read_throttled); });
  // "nccl 2.28.9: default, ring" is how it was set up.
  if (report.header)
    closing.other = report.header->versus.substr(0, report.header->versus.find(':'));
  report.closing = std::move(closing);
}

void read_verdict(Fields& f, Verdict& verdict) {
  f.object("verdict", [&](Fields& inner) {
    inner.flag("ok", verdict.ok);
    inner.list("reasons", [&](const Json& element) {
      Fields fields(element);
      Reason reason;
      fields.text("code", reason.code);
      fields.text("message", reason.message);
      inner.take(fields);
      verdict.reasons.push_back(std::move(reason));
    });
  });
  if (verdict.ok) return;
  Verdict
      judged;  // from the reasons; one that is not of the table (a later version's) is a failure
  for (const Reason& reason : verdict.reasons) {
    const ReasonRow* const row = find_reason(reason.code);
    judged.worsen(row != nullptr ? row->code : ErrorCode::failed);
  }
  verdict.code = judged.code;
}

void read_measured(const Json& json, Fields& f, BenchReport& report) {
  read_header(json, f, report);
  report.spec.types.clear();
  f.list("results", [&](const Json& row) { read_row(row, f, report); });
  conclude_spec(report);
  read_closing(json, f, report);
}

Status read_error(const Json& json, SavedReport& saved) {
  Fields f(json);
  Error error{ErrorCode::failed, ""};
  f.whole("code", saved.exit_code, 1, 255);
  f.text("message", error.message);
  f.text("hint", error.hint);
  f.words("context", error.contexts);
  saved.verdict.ok = false;
  saved.job_error = std::move(error);
  COLL_TRY(f.status());
  if (!json.contains("measured"))
    return Error(ErrorCode::usage, "it is about a run that broke off before anything was measured")
        .within(saved.job_error->chain());
  Fields measured(json["measured"]);
  read_measured(json["measured"], measured, saved.report);
  return measured.status();
}

}  // namespace

Result<SavedReport> read_report(const std::string& text) {
  COLL_ASSIGN(const Json json, parse(text));
  SavedReport saved;
  Fields f(json);
  std::string schema;
  f.text("schema", schema);
  COLL_TRY(f.status());
  if (schema == "collctl.error/1") {
    COLL_TRY(read_error(json, saved));
    return saved;
  }
  if (schema != "collctl.bench/1")
    return Error(ErrorCode::usage, format("schema '{}'; expected collctl.bench/1", schema));
  read_measured(json, f, saved.report);
  read_verdict(f, saved.verdict);
  COLL_TRY(f.status());
  saved.exit_code = final_code(0, saved.verdict);
  return saved;
}

}  // namespace collctl::cmd
