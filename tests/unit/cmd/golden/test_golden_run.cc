// Measurements of fixed records in every format that a run prints or writes, beside tests/golden.
#include "base/format.h"
#include "tests/golden.h"
#include "tests/unit/cmd/report/report_rows.h"

namespace golden_run_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

struct Fed {
  BenchSpec spec = {};
  std::function<void(Reporter&)> feed;
  JobOutcome outcome = {};
  OutputOptions output = {};  // limits, verbosity
};

struct Printed {
  int code = -1;
  std::string out, err;
  std::map<std::string, std::string> files;  // by ending
};

Printed print(const Fed& run, OutputOptions output, const std::vector<std::string>& endings = {}) {
  const Folder folder;
  const std::map<std::string, Format> formats{{"json", Format::json},
                                              {"jsonl", Format::jsonl},
                                              {"csv", Format::csv},
                                              {"html", Format::html},
                                              {"svg", Format::svg}};
  for (const std::string& ending : endings)
    if (ending == "trace")
      output.trace = folder.file(ending);
    else
      output.files.push_back({folder.file(ending), formats.at(ending)});
  Printed printed;
  {
    const Fd out(::open(folder.file("out").c_str(), O_CREAT | O_WRONLY, 0600));
    const Fd err(::open(folder.file("err").c_str(), O_CREAT | O_WRONLY, 0600));
    Console console(out.get(), err.get());
    Reporter reporter(console, output, run.spec, true);
    run.feed(reporter);
    printed.code = reporter.finish(run.outcome);
  }
  printed.out = content(folder.file("out"));
  printed.err = content(folder.file("err"));
  for (const std::string& ending : endings) printed.files[ending] = content(folder.file(ending));
  return printed;
}

// `endings`: further formats than the table, which is always held with the exit code.
void hold(Goldens& goldens, const std::string& name, const Fed& run,
          const std::vector<std::string>& endings) {
  const auto with = [&](Format format) {
    OutputOptions output = run.output;
    output.format = format;
    return output;
  };
  const Printed text = print(run, with(Format::text));
  goldens.hold(name + ".txt",
               format("{}--- standard error\n{}--- exit code {}\n", text.out, text.err, text.code));
  std::vector<std::string> files;
  for (const std::string& ending : endings) {
    if (ending == "wide") {
      OutputOptions output = with(Format::text);
      output.wide = true;
      output.verbosity = 1;
      output.plot = true;
      goldens.hold(name + ".wide.txt", print(run, output).out);
    } else if (ending == "nccl-tests") {
      goldens.hold(name + ".nccl-tests.txt", print(run, with(Format::nccl_tests)).out);
    } else {
      files.push_back(ending);
    }
  }
  const Printed written = print(run, with(Format::text), files);
  for (const auto& [ending, file] : written.files)
    goldens.hold(name + (ending == "trace" ? ".trace.json" : "." + ending), file);
  // Standard output has what the file has.
  if (written.files.contains("json"))
    CHECK(print(run, with(Format::json)).out == written.files.at("json"));
  if (written.files.contains("jsonl"))
    CHECK(print(run, with(Format::jsonl)).out == written.files.at("jsonl"));
}

Timing with_ranks(Timing t) {
  t.fastest_us = t.time_us * 0.75;
  t.mean_us = t.time_us * 0.875;
  t.slowest_us = t.time_us;
  return t;
}

BenchRow expected_row(uint64_t bytes, double time_us, double busbw) {
  BenchRow r = row(bytes, time_us, busbw);
  r.warmup = 5;
  r.out_of_place = with_ranks(r.out_of_place);
  r.in_place = with_ranks(r.in_place);
  r.expected = RowExpected{.time_us = time_us * 0.8,
                           .busbw_GBps = busbw / 0.8,
                           .limited_by = "NET/0 (400 Gb/s)",
                           .source = "model"};
  return r;
}

HostLine host_line(int id, std::vector<int> ranks) {
  HostLine line;
  line.host = {HostId{id}, format("node{:02}", id + 1)};
  for (const int rank : ranks) line.pids.push_back(4000 + rank);
  line.ranks = std::move(ranks);
  return line;
}

BenchHeader two_hosts() {
  BenchHeader header = header_of(4);
  header.hosts = {host_line(0, {0, 1}), host_line(1, {2, 3})};
  header.links = {
      {0, 0, 1, "SHM"}, {0, 1, 2, "NET/Socket"}, {0, 2, 3, "SHM"}, {0, 3, 0, "NET/Socket"}};
  return header;
}

// GPU ranks on two hosts, with all that only they have.
BenchHeader gpu_header() {
  BenchHeader header = two_hosts();
  header.device = "cuda";
  header.device_reason = "both hosts have 2 GPUs";
  for (HostLine& host : header.hosts) {
    host.devices = {0, 1};
    host.own_name = host.host.name + ".cluster";
    host.machine = "2 x AMD EPYC 9654";
    host.cores = {"0-31", "32-63"};
    host.bound = true;
    host.wakeup_us = 52;
    host.gpus = {{"NVIDIA H100", "0000:10:00.0", 300u << 20, ""},
                 {"NVIDIA H100", "0000:20:00.0", 300u << 20, "hot: 1200 of 1980 MHz"}};
  }
  header.links = {{.channel = 0, .from = 0, .to = 1, .via = "P2P/NVLink"},
                  {.channel = 0,
                   .from = 1,
                   .to = 2,
                   .via = "NET/IB/0",
                   .why = "GDRDMA",
                   .from_nic = "mlx5_0:1",
                   .to_nic = "mlx5_0:1",
                   .relay = 0},
                  {.channel = 0, .from = 2, .to = 3, .via = "P2P/NVLink"},
                  {.channel = 0,
                   .from = 3,
                   .to = 0,
                   .via = "NET/IB/0",
                   .why = "GDRDMA",
                   .from_nic = "mlx5_0:1",
                   .to_nic = "mlx5_0:1",
                   .relay = 2}};
  header.note = "GPUs of 2 hosts";
  header.versus = "nccl 2.28.9: default, ring";
  header.tuner = TunerLine{"fake", "libnccl-tuner-fake.so", 5};
  return header;
}

}  // namespace

TEST_CASE("what a run prints and writes is as it was", "[golden]") {
  ::setenv("COLUMNS", "100", 1);
  Goldens goldens("run");
  const std::vector<std::string> records{"json", "jsonl", "csv"};

  Fed gpus{.feed = [](Reporter& to) {
    to.on(gpu_header());
    for (BenchRow each : {expected_row(1 << 20, 40, 39.3), expected_row(1 << 21, 60, 52.4)}) {
      each.tuned = RowTuned{true, "Ring/LL, 2 channels", "tree", "ll128", 4, 44};
      each.out_of_place.versus = {{"nccl 2.28.9", "ring", each.out_of_place.time_us * 1.25},
                                  {"nccl 2.28.9", "default", each.out_of_place.time_us * 1.5}};
      each.in_place.versus = {{"nccl 2.28.9", "default", each.in_place.time_us * 0.5}};
      to.on(each);
    }
    to.on(
        BenchClosing{.busy = {{{HostId{1}, "node02"}, "other processes took 3 of 64 cores"}},
                     .throttled = {{{HostId{1}, "node02"}, "0000:20:00.0", 3, 1, "heat, 1200 MHz"}},
                     .left_out = {{"symmetric", "no window"}},
                     .waits = {},
                     .other = "nccl 2.28.9",
                     .other_variant = "default",
                     .costs = true,
                     .own_cost = {0.5, 1 << 20, 2 << 20},
                     .other_cost = {1.5, 3 << 20, 4 << 20}});
  }};
  gpus.spec.versus = {"default", "ring"};
  gpus.spec.max_bytes_given = true;
  hold(goldens, "allreduce", gpus, {"wide", "json", "jsonl", "csv", "html", "svg", "nccl-tests"});

  Fed messages{.feed = [](Reporter& to) {
    BenchHeader header = header_of(2);
    header.collective = SendPattern::next;
    to.on(header);
    for (BenchRow each : {row(1024, 12, 0.0831), row(2048, 6.6, 0.31)}) {
      each.has_op = false;
      each.in_place = {};
      to.on(each);
    }
  }};
  messages.spec.collective = SendPattern::next;
  messages.spec.in_place = InPlace::out_of_place;
  messages.spec.expects = false;
  messages.output.limits.min_busbw = limit(1, 2048);
  messages.output.limits.max_latency = limit(10, 1024);
  std::vector<std::string> with_nccl = records;
  with_nccl.push_back("nccl-tests");
  hold(goldens, "sendrecv", messages, with_nccl);

  Fed split{.feed = [](Reporter& to) {
    BenchHeader header = two_hosts();
    header.split = "host";
    header.groups = {{{0, 1}, {"node01"}}, {{2, 3}, {"node02"}}};
    to.on(header);
    for (uint64_t number = 0; number < 2; ++number)
      for (const int group : {0, 1}) {
        BenchRow each = expected_row(1024u << number, 10 + group, 0.2);
        each.number = number;
        each.group = group;
        each.group_ranks = 2;
        each.slowest_group = group == 1;
        to.on(each);
      }
  }};
  split.spec.split = *parse_split("host");
  hold(goldens, "split", split, records);

  Fed shrunk{.feed = [](Reporter& to) {
    to.on(two_hosts());
    to.on(expected_row(1024, 10, 0.2));
    to.shrunk({.lost = {{.ranks = {2, 3},
                         .host = {HostId{1}, "node02"},
                         .why = "the connection to node02 broke",
                         .remedy = "is the host up?"}},
               .ranks_left = 2});
    BenchRow left = expected_row(2048, 12, 0.3);
    left.number = 1;
    left.ranks = 2;
    to.on(left);
  }};
  hold(goldens, "shrunk", shrunk, records);

  Fed traced{.feed = [](Reporter& to) {
    to.on(two_hosts());
    to.on(expected_row(1024, 10, 0.2));
    to.on(BenchTrace{
        .events = {{.rank = 0,
                    .in_place = false,
                    .iteration = 0,
                    .start_us = 1,
                    .elapsed_us = 9.5,
                    .waits = {{1, 2.5, 0}, {3, 0, 0.5}}},
                   {.rank = 1, .in_place = true, .iteration = 1, .start_us = 20, .elapsed_us = 10}},
        .left_out = 3});
    RankWaits late{.rank = 3,
                   .host = {HostId{1}, "node02"},
                   .elapsed_us = 1000,
                   .waited_us = 10,
                   .away_us = 400,
                   .peers = {{0, 10, 0, 5, 2}}};
    std::vector<RankWaits> waits;
    for (const int rank : {0, 1, 2})
      waits.push_back({.rank = rank,
                       .host = {HostId{rank / 2}, rank < 2 ? "node01" : "node02"},
                       .elapsed_us = 1000,
                       .waited_us = 900,
                       .away_us = 0,
                       .peers = {{3, 900, 0, 0, 40}}});
    waits.push_back(late);
    BenchClosing closing;
    closing.waits = waits;
    to.on(closing);
  }};
  traced.spec.stragglers = traced.spec.trace = true;
  hold(goldens, "traced", traced, {"json", "jsonl", "csv", "trace"});

  Fed lost{.feed = [](Reporter& to) {
    to.on(two_hosts());
    to.on(expected_row(1024, 10, 0.2));
  }};
  lost.outcome.error = Error(ErrorCode::lost, "rank 3 (pid 4003) was ended by SIGKILL",
                             "killed by hand, or by the "
                             "kernel for lack of memory")
                           .within("allreduce of 2 KiB");
  lost.outcome.error->rank = 3;
  lost.outcome.error->on({HostId{1}, "node02"});
  lost.outcome.exit_code = 5;
  hold(goldens, "lost", lost, {"json", "jsonl", "csv", "html", "nccl-tests"});

  Fed wrong{.feed = [](Reporter& to) {
    to.on(two_hosts());
    BenchRow bad = expected_row(1024, 10, 0.2);
    bad.out_of_place.wrong = 2;
    to.on(bad);
    to.on(DataFault{.rank = 1,
                    .first_element = 7,
                    .first_byte = 28,
                    .last_byte = 35,
                    .bad_elements = 2,
                    .channel = 0,
                    .chunk = 1,
                    .step = 2,
                    .peer = 3,
                    .hops = {{3, 0}, {0, 1}},
                    .kind = "missing",
                    .message = "element 7: the contribution of rank 3 is missing"});
  }};
  wrong.outcome.hosts = {
      {.host = {HostId{2}, "node03"},
       .phase = "connect",
       .client = "",
       .times = {},
       .error = Error(ErrorCode::launch, "connection refused", "is sshd running?"),
       .ranks = {}}};
  with_nccl.push_back("html");
  hold(goldens, "wrong", wrong, with_nccl);

  Fed soak{.feed = [](Reporter& to) {
    BenchHeader header = header_of(4);
    header.soak = true;
    to.on(header);
    to.on(BenchClosing{});
  }};
  soak.spec.soak = true;
  soak.spec.soak_seed = 7;
  soak.spec.soak_operations = 100;
  hold(goldens, "soak", soak, records);

  Fed windows{.feed = [](Reporter& to) {
    BenchHeader header = header_of(4);
    header.windows = WindowsLine{1 << 20, {{0, 1}, {2, 3}}, "rank 2 does not map those of rank 0"};
    to.on(header);
    BenchRow each = row(1024, 10, 0.2);
    each.direct = true;
    for (Timing* t : {&each.out_of_place, &each.in_place}) {
      t->p50_us = t->time_us * 0.9;
      t->p99_us = t->time_us * 3;
      t->min_us = t->time_us * 0.5;
      t->max_us = t->time_us * 4;
      t->unsteady = true;
    }
    to.on(each);
  }};
  windows.spec.window = windows.spec.sync_each = true;
  windows.spec.expects = false;
  hold(goldens, "windows", windows, records);
}

}  // namespace golden_run_tests
