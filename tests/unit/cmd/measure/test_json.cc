// Bench records through JSON and back; text that is not what it should be.
#include <optional>

#include "cmd/measure/bench.h"
#include "tests/catch.h"

namespace measure_json_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

struct Recorder : BenchSink {
  std::optional<BenchHeader> got_header;
  std::optional<BenchRow> got_row;
  std::optional<DataFault> got_fault;
  std::optional<BenchClosing> got_closing;
  std::optional<BenchTrace> got_trace;
  int calls = 0;
  void on(BenchRecord record) override {
    ++calls;
    if (auto* header = std::get_if<BenchHeader>(&record)) got_header = *header;
    if (auto* row = std::get_if<BenchRow>(&record)) got_row = *row;
    if (auto* fault = std::get_if<DataFault>(&record)) got_fault = *fault;
    if (auto* closing = std::get_if<BenchClosing>(&record)) got_closing = *closing;
    if (auto* trace = std::get_if<BenchTrace>(&record)) got_trace = *trace;
  }
  void progress(const std::string&) override {}
  void phase(int, const std::string&) override {}
};

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("bench json: a specification survives", "[bench]") {
  BenchSpec spec;
  spec.collective = kernels::Collective::reduce_scatter;
  spec.min_bytes = uint64_t(1) << 60;
  spec.max_bytes = ~uint64_t(0);
  spec.step_bytes = 77;
  spec.types = {kernels::DataType::float8e5m2, kernels::DataType::int64};
  spec.ops = {kernels::RedOp::avg};
  spec.roots = {-1};
  spec.in_place = InPlace::in_place;
  spec.algorithms = {"ring", "tree-split"};
  spec.channels = 3;
  spec.transport = "net";
  spec.check = false;
  spec.sync_each = true;
  const auto back = record_of<BenchSpec>(json_of(spec));
  REQUIRE(back.ok());
  CHECK(json_of(*back) == json_of(spec));
  CHECK(back->max_bytes == ~uint64_t(0));
  CHECK(back->types == spec.types);
  CHECK(back->in_place == InPlace::in_place);
}

TEST_CASE("bench json: records reach the sink", "[bench]") {
  Recorder sink;
  BenchHeader header;
  header.version = "0.1";
  header.collective = kernels::Collective::all_to_all;
  header.ranks = 2;
  header.hosts = {{{HostId{3}, "a\xff host"}, {0, 1}, {0, 1}, {10, 11}}};
  header.links = {{0, 0, 1, "SHM"}, {0, 1, 0, "NET/Socket/0"}};
  header.note = "2 ranks share 1 core";
  header.device_reason = "--device cpu";
  header.windows = {.bytes = uint64_t(1) << 40, .teams = {{0}, {1}}, .note = "two hosts"};
  REQUIRE(sink.record(encode_record(header)).ok());
  REQUIRE(sink.got_header);
  CHECK(sink.got_header->hosts[0].pids == std::vector<int>{10, 11});
  CHECK(sink.got_header->links[1].via == "NET/Socket/0");
  CHECK(sink.got_header->collective == header.collective);
  CHECK(sink.got_header->device_reason == "--device cpu");
  CHECK(encode_record(*sink.got_header) == encode_record(header));
  REQUIRE(sink.got_header->windows);
  CHECK(sink.got_header->windows->teams == std::vector<std::vector<int>>{{0}, {1}});
  BenchRow row;
  row.bytes = 1 << 20;
  row.count = 1 << 18;
  row.type = kernels::DataType::float32;
  row.op = kernels::RedOp::max;
  row.root = 3;
  row.algorithm = "ring";
  row.direct = true;
  row.ranks = 3;
  row.number = 17;
  row.out_of_place.measured = true;
  row.out_of_place.time_us = 12.25;
  row.out_of_place.wrong = 5;
  REQUIRE(sink.record(encode_record(row)).ok());
  REQUIRE(sink.got_row);
  CHECK(encode_record(*sink.got_row) == encode_record(row));
  CHECK(sink.got_row->direct);
  CHECK(sink.got_row->ranks == 3);
  CHECK(sink.got_row->number == 17);
  CHECK(sink.got_row->in_place.wrong == -1);
  DataFault fault;
  fault.rank = 2;
  fault.first_byte = 4096;
  fault.kind = "missing";
  fault.message = "lacks \"1\"";
  REQUIRE(sink.record(encode_record(fault)).ok());
  REQUIRE(sink.got_fault);
  CHECK(encode_record(*sink.got_fault) == encode_record(fault));
  const BenchClosing closing{
      .busy = {{{HostId{5}, "a"}, "others"}},
      .throttled = {{{HostId{5}, "a"}, "0000:10:00.0", 3, 1, "heat (hardware)"}},
      .left_out = {{"symmetric", "no window"}},
      .waits = {},
      .other = "nccl 2.28.9",
      .other_variant = "default",
      .costs = true,
      .own_cost = {0.5, 1, 2},
      .other_cost = {1.5, 3, uint64_t(1) << 40}};
  REQUIRE(sink.record(encode_record(closing)).ok());
  REQUIRE(sink.got_closing);
  CHECK(encode_record(*sink.got_closing) == encode_record(closing));
  CHECK(sink.got_closing->throttled.at(0).device == 1);
  CHECK(sink.got_closing->busy.at(0).why == "others");
  CHECK(sink.got_closing->busy.at(0).host.id == HostId{5});
  CHECK(sink.got_closing->other_cost.buffer_bytes == uint64_t(1) << 40);
  CHECK(sink.calls == 4);
  const auto again = read_header(encode_record(header));
  REQUIRE(again);
  CHECK(encode_record(*again) == encode_record(header));
  CHECK_FALSE(read_header(encode_record(row)));
}

TEST_CASE("bench json: no figure is left out on the way", "[bench]") {
  Recorder sink;
  BenchRow row;
  row.in_place = {.measured = true,
                  .time_us = 1.5,
                  .fastest_us = 2.5,
                  .mean_us = 3.5,
                  .slowest_us = 4.5,
                  .p50_us = 5.5,
                  .p99_us = 6.5,
                  .min_us = 7.5,
                  .max_us = 8.5,
                  .unsteady = true,
                  .algbw_GBps = 9.5,
                  .busbw_GBps = 10.5,
                  .wrong = 11,
                  .slowest_rank = 12};
  REQUIRE(sink.record(encode_record(row)).ok());
  const Timing& t = sink.got_row.value().in_place;
  CHECK(t.measured);
  CHECK(std::vector{t.time_us, t.fastest_us, t.mean_us, t.slowest_us, t.p50_us, t.p99_us, t.min_us,
                    t.max_us, t.algbw_GBps, t.busbw_GBps} ==
        std::vector{1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5});
  CHECK(t.unsteady);
  CHECK(t.wrong == 11);
  CHECK(t.slowest_rank == 12);
  DataFault fault{.rank = 1,
                  .first_element = 2,
                  .first_byte = 3,
                  .last_byte = 4,
                  .bad_elements = 5,
                  .channel = 6,
                  .chunk = 7,
                  .step = 8,
                  .peer = 9,
                  .hops = {{10, 11}},
                  .kind = "missing",
                  .message = "m"};
  REQUIRE(sink.record(encode_record(fault)).ok());
  const DataFault& f = sink.got_fault.value();
  CHECK(std::vector<uint64_t>{uint64_t(f.rank), f.first_element, f.first_byte, f.last_byte,
                              f.bad_elements, uint64_t(f.channel), f.chunk, f.step,
                              uint64_t(f.peer)} ==
        std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(f.hops == std::vector<DataFault::Hop>{{10, 11}});
  CHECK(f.kind == "missing");
  BenchTrace trace;
  trace.events = {{.rank = 1,
                   .in_place = true,
                   .iteration = 2,
                   .start_us = 3.5,
                   .elapsed_us = 4.5,
                   .waits = {{.peer = 5, .recv_us = 6.5, .send_us = 7.5}}}};
  trace.left_out = 8;
  REQUIRE(sink.record(encode_record(trace)).ok());
  const TraceEvent& e = sink.got_trace.value().events.at(0);
  CHECK(std::vector<double>{double(e.rank), double(e.iteration), e.start_us, e.elapsed_us,
                            double(e.waits.at(0).peer), e.waits[0].recv_us, e.waits[0].send_us,
                            double(sink.got_trace->left_out)} ==
        std::vector<double>{1, 2, 3.5, 4.5, 5, 6.5, 7.5, 8});
  CHECK(e.in_place);
}

TEST_CASE("bench json: malformed text is an error that names the field", "[bench]") {
  Recorder sink;
  const std::string good = json_of(BenchSpec());
  REQUIRE(record_of<BenchSpec>(good).ok());
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("3"), good + "x",
        good.substr(0, good.size() / 2), std::string(100000, '['), std::string("{\"a\":\xff}"),
        "{\"a\":" + std::string(50, '[') + std::string(50, ']') + "}"}) {
    CHECK_FALSE(record_of<BenchSpec>(text).ok());
    CHECK_FALSE(sink.record(text).ok());
  }
  auto message = [&](const std::string& text) {
    const auto spec = record_of<BenchSpec>(text);
    return spec ? std::string("accepted") : spec.error().chain();
  };
  CHECK(message(with(good, "\"allreduce\"", "\"allreduced\"")).find("'collective'") !=
        std::string::npos);
  CHECK(message(with(good, "\"iters\":20", "\"iters\":0")).find("'iters'") != std::string::npos);
  CHECK(message(with(good, "\"iters\":20", "\"iters\":1e99")).find("'iters'") != std::string::npos);
  CHECK(message(with(good, "\"min_bytes\":8", "\"min_bytes\":-8")).find("'min_bytes'") !=
        std::string::npos);
  CHECK(message(with(good, "\"root\":[0]", "\"root\":[99999999999]")).find("'root'") !=
        std::string::npos);
  CHECK(message(with(good, "\"dtype\":[\"float32\"]", "\"dtype\":[7]")).find("'dtype'") !=
        std::string::npos);
  CHECK(message(with(good, "\"check\":true", "\"chick\":true")).find("'check'") !=
        std::string::npos);
  const std::string row = encode_record(BenchRow());
  CHECK_FALSE(sink.record(with(row, "\"wrong\":-1", "\"wrong\":\"x\"")).ok());
  CHECK_FALSE(sink.record(with(row, "\"row\"", "\"raw\"")).ok());
  CHECK_FALSE(sink.record("{}").ok());
  CHECK(sink.calls == 0);
}

}  // namespace measure_json_tests
