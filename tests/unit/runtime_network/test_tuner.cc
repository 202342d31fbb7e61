// Jobs with tuner plugins (tests/fake_plugins/tuner.h): each version, what it may choose, what it
// may not, what fails.
#include <dlfcn.h>

#include "base/env.h"
#include "runtime/tuner/versions/table.h"
#include "tests/fake_plugins/tuner.h"
#include "tests/places.h"
#include "tests/unit/runtime/gpu_ranks.h"
#include "tests/unit/runtime/ranks.h"

namespace tuner_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;
using kernels::AlgorithmId;
using kernels::Protocol;
using Variable = base::ScopedVariable;

namespace {

constexpr int kRanks = 4;

std::string tuner_path(const std::string& name) {
  return format("{}/libnccl-tuner-{}.so", test::fake_plugins(), name);
}
const std::string kWithNetwork = test::fake_plugins() + "/libnccl-net-tuned12.so";

fake_tuner::Counts counts_of(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return {};
  const auto counts =
      reinterpret_cast<fake_tuner::CountsFunction>(::dlsym(library, fake_tuner::kCountsName));
  const fake_tuner::Counts now = counts();
  ::dlclose(library);
  return now;
}

std::vector<std::string> each_version() {
  std::vector<std::string> names;
  for (const TunerVersion& version : tuner_versions())
    names.push_back(format("fake{}", version.number));
  return names;
}

Operation sum_of(uint64_t count) {
  return {.collective = Collective::all_reduce, .count = count};
}

// Runs one all-reduce of `count` elements and gives the plan of rank 0.
struct Outcome {
  std::string failed;
  PlannedOp planned;
};
Outcome run_one(uint64_t count, const CommOptions& options = {}) {
  Outcome outcome;
  const Root root = make_root();
  const auto ranks = all_ranks(kRanks);
  auto made = Communicator::init_many(root.id, ranks, kRanks, options);
  if (!made) return {made.error().chain(), {}};
  Complaints complaints;
  on_all(kRanks, [&](int r) {
    Communicator& c = *(*made)[size_t(r)];
    Stream stream(c);
    const std::string wrong = run_case(c, stream, {.count = count});
    if (!wrong.empty()) complaints.add(wrong);
    std::vector<float> in(count), out(count);
    Operation op = sum_of(count);
    op.input = in.data();
    op.output = out.data();
    if (auto plan = c.plan_for({&op, 1}); plan && r == 0) outcome.planned = plan->ops[0];
    if (c.async_error()) complaints.add(r, c.finalize(Deadline::after_seconds(60)));
  });
  outcome.failed = complaints.text();
  return outcome;
}

// The error of a job whose named tuner does this.
std::string failure_of(const char* name, const char* value, const CommOptions& options = {}) {
  const Variable library("COLLCTL_TUNER_PLUGIN", tuner_path("fake5"));
  const Variable what(name, value);
  return run_one(1000, options).failed;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

CommOptions with_algo(const char* algo) {
  CommOptions options;
  options.algo = algo;
  return options;
}

}  // namespace

TEST_CASE("a tuner of each version has its way, and data is right") {
  CHECK(each_version() == std::vector<std::string>{"fake6", "fake5", "fake4", "fake3"});
  for (const std::string& name : each_version()) {
    INFO(name);
    const Variable library("COLLCTL_TUNER_PLUGIN", tuner_path(name));
    const Variable pick("FAKE_TUNER_PICK", "0:0");  // Tree/LL
    const fake_tuner::Counts before = counts_of(tuner_path(name));
    CHECK(with_ranks(kRanks, {}, [](Communicator& c, Complaints& complaints) {
            CHECK_FALSE(c.tuner().calls == nullptr);
            Stream stream(c);
            for (const uint64_t count : {1u, 1000u, 300000u})
              for (const Collective collective :
                   {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                    Collective::broadcast, Collective::reduce, Collective::all_to_all}) {
                // Only an all-reduce goes by a tree; the others' picks could not be had.
                if (collective != Collective::all_reduce && collective != Collective::all_to_all)
                  continue;
                const std::string wrong =
                    run_case(c, stream, {.collective = collective, .count = count});
                if (!wrong.empty()) complaints.add(wrong);
              }
          }) == "");
    const fake_tuner::Counts after = counts_of(tuner_path(name));
    CHECK(after.sessions == before.sessions);
    CHECK(after.calls >= before.calls + 3 * kRanks);
    const Outcome one = run_one(1000);
    CHECK(one.failed == "");
    CHECK(kernels::name_of(one.planned.protocol) == std::string("ll"));
    CHECK(tuner_algorithm(one.planned.algorithm) == 0);
    REQUIRE(one.planned.tuned);
    CHECK(one.planned.tuned->followed);
    CHECK(one.planned.tuned->wish == "Tree/LL");
    CHECK(one.planned.tuned->bytes == 4000);
    CHECK(one.planned.tuned->own.algorithm == AlgorithmId::one_shot);
    CHECK(has(one.planned.why, "tuner: Tree/LL; ours: one-shot/simple, "));
  }
}

TEST_CASE("what is started without waiting is compared in its turn") {
  const Variable library("COLLCTL_TUNER_PLUGIN", tuner_path("fake5"));
  const Variable pick("FAKE_TUNER_PICK", "1:0");
  CHECK(with_ranks(kRanks, {}, [](Communicator& c, Complaints& complaints) {
          constexpr uint64_t kCount = 300;
          Stream one(c), other(c);
          std::vector<std::vector<float>> in(12), out(12);
          for (size_t i = 0; i < in.size(); ++i) {
            const uint64_t count = kCount + i % 5;  // shapes come again while others are new
            in[i].assign(count, float(c.rank() + int(i)));
            out[i].assign(count, 0);
            Operation op = sum_of(count);
            op.input = in[i].data();
            op.output = out[i].data();
            complaints.add(c.rank(), c.start(op, i % 2 == 0 ? one : other));
          }
          complaints.add(c.rank(), one.synchronize());
          complaints.add(c.rank(), other.synchronize());
          for (size_t i = 0; i < out.size(); ++i)
            for (const float value : out[i])
              if (value != float(0 + 1 + 2 + 3 + 4 * int(i)))
                return complaints.add(format("operation {} has {}", i, value));
        }) == "");
}

TEST_CASE("a tuner chooses for every collective that it is asked about") {
  const Variable library("COLLCTL_TUNER_PLUGIN", tuner_path("fake5"));
  const Variable pick("FAKE_TUNER_PICK", "1:2");  // Ring/Simple
  CHECK(with_ranks(kRanks, {}, [](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          for (const Collective collective :
               {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                Collective::broadcast, Collective::reduce}) {
            const std::string wrong =
                run_case(c, stream, {.collective = collective, .count = 5000});
            if (!wrong.empty()) complaints.add(wrong);
            std::vector<float> room(5000 * kRanks * 2);
            const Operation op{.collective = collective,
                               .input = room.data(),
                               .output = room.data() + 5000 * kRanks,
                               .count = 5000};
            const auto plan = c.plan_for({&op, 1});
            if (!plan || plan->ops[0].algorithm != AlgorithmId::ring ||
                plan->ops[0].protocol != Protocol::simple)
              complaints.add(format("{} is not by ring/simple", kernels::name_of(collective)));
          }
        }) == "");
}

TEST_CASE("a tuner that changes nothing leaves the choice to us") {
  const Outcome without = run_one(1000);
  const Variable library("COLLCTL_TUNER_PLUGIN", tuner_path("fake4"));
  const Outcome with = run_one(1000);
  CHECK(with.failed == "");
  CHECK(with.planned.algorithm == without.planned.algorithm);
  REQUIRE(with.planned.tuned);
  CHECK_FALSE(with.planned.tuned->followed);
  CHECK(with.planned.tuned->wish == "");
  CHECK_FALSE(without.planned.tuned);
  // Nor one that makes something slower than our best, or our best of the table faster than it.
  const Variable slow("FAKE_TUNER_TIME", "1:2:1000000");
  const Outcome slower = run_one(1000);
  CHECK(slower.failed == "");
  CHECK(slower.planned.algorithm == AlgorithmId::one_shot);
  CHECK(has(slower.planned.why, "ours, the tuner made nothing faster than it"));
}

TEST_CASE("the one entry of several that a tuner leaves is its choice") {
  const Variable library("COLLCTL_TUNER_PLUGIN", tuner_path("fake6"));
  const Variable only("FAKE_TUNER_ONLY", "1:0");
  const Outcome one = run_one(1000);
  CHECK(one.failed == "");
  CHECK(one.planned.algorithm == AlgorithmId::ring);
  CHECK(one.planned.protocol == Protocol::ll);
}

TEST_CASE("a tuner's channels are used as far as there are such, and --channels goes before them") {
  const Variable library("COLLCTL_TUNER_PLUGIN", tuner_path("fake5"));
  const Variable pick("FAKE_TUNER_PICK", "1:2");
  const Variable most("COLLCTL_MIN_NCHANNELS", "4");
  {
    const Variable three("FAKE_TUNER_CHANNELS", "3");
    const Outcome one = run_one(100000);
    CHECK(one.failed == "");
    CHECK(one.planned.channels == 3);
    CHECK(one.planned.tuned->wish == "Ring/Simple, 3 channels");
    CommOptions two;
    two.channels = 2;
    const Outcome asked = run_one(100000, two);
    CHECK(asked.planned.channels == 2);
    CHECK(has(asked.planned.why, "3 channels; 2 were asked for by name; ours"));
  }
  const Variable many("FAKE_TUNER_CHANNELS", "64");
  const Outcome one = run_one(100000);
  CHECK(one.failed == "");
  CHECK(one.planned.channels == 4);
  CHECK(has(one.planned.why, "64 channels; there are 4; ours"));
}

TEST_CASE("what a named tuner wants and cannot have is an error that says so") {
  const auto pick = [](const char* entry) { return failure_of("FAKE_TUNER_PICK", entry); };
  CHECK(has(pick("4:2"), "tuner plugin 'Scales' ("));
  CHECK(has(pick("4:2"),
            "allreduce of 4000 bytes: it wants NVLS/Simple: there is no reduction by "
            "NVLink multicast here"));
  CHECK(has(pick("6:2"), "it wants PAT/Simple: there is no PAT here"));
  CHECK(has(pick("2:2"), "it wants CollNetDirect/Simple: in-network reduction goes by chains"));
  CHECK(has(pick("3:2"), "it wants CollNetChain/Simple: it was -1 in the table"));
  CHECK(has(pick("0:1"), "it wants Tree/LL128: it was -1 in the table"));
  CHECK(has(failure_of("FAKE_TUNER_PICK", "0:2", with_algo("ring")),
            "it wants Tree/Simple: algorithm 'ring' and protocol 'all' were asked for"));
  CHECK(has(failure_of("FAKE_TUNER_CHANNELS", "65"), "it wants 65 channels, and 1 to 64 can be"));
  CHECK(has(failure_of("FAKE_TUNER_CHANNELS", "-1"), "it wants -1 channels"));
  CHECK(has(failure_of("FAKE_TUNER_NONSENSE", "nan"), "the time of Ring/LL is no number"));
  CHECK(has(failure_of("FAKE_TUNER_NONSENSE", "nothing", with_algo("ring")),
            "it leaves nothing to choose from"));
  // With no algorithm asked for, our own are left.
  CHECK(failure_of("FAKE_TUNER_NONSENSE", "nothing") == "");
}

TEST_CASE("a tuner that came with the network's plugin and cannot have its way leaves it to us") {
  const Variable library("COLLCTL_NET_PLUGIN", kWithNetwork);
  {
    const Variable pick("FAKE_TUNER_PICK", "1:2");
    const Outcome one = run_one(1000);
    CHECK(one.failed == "");
    CHECK(one.planned.algorithm == AlgorithmId::ring);
  }
  for (const auto& [name, value] :
       {std::pair("FAKE_TUNER_PICK", "4:2"), std::pair("FAKE_TUNER_CHANNELS", "1000"),
        std::pair("FAKE_TUNER_FAIL", "getCollInfo")}) {
    INFO(name << "=" << value);
    const Variable what(name, value);
    const Outcome one = run_one(1000);
    CHECK(one.failed == "");
    CHECK(one.planned.algorithm == AlgorithmId::one_shot);
    REQUIRE(one.planned.tuned);
    CHECK_FALSE(one.planned.tuned->followed);
    CHECK(has(one.planned.why, "ours, because of the tuner: "));
  }
  const Variable none("NCCL_TUNER_PLUGIN", "None");
  const Outcome one = run_one(1000);
  CHECK(one.failed == "");
  CHECK_FALSE(one.planned.tuned);
}

TEST_CASE("a tuner's calls that fail are told with its word") {
  CHECK(has(failure_of("FAKE_TUNER_FAIL", "init"),
            "init failed: system error (2); it said: init was to fail"));
  CHECK(has(failure_of("FAKE_TUNER_FAIL", "getCollInfo"),
            "allreduce of 4000 bytes: getCollInfo failed: system error (2); it said: getCollInfo "
            "was to fail"));
  CHECK(failure_of("FAKE_TUNER_FAIL", "finalize") == "");
  CHECK(failure_of("FAKE_TUNER_NONSENSE", "constants") == "");
}

TEST_CASE("what is no tuner plugin is told") {
  const auto opened = [](const std::string& name) {
    const Variable library("COLLCTL_TUNER_PLUGIN", name);
    const auto found = find_tuner_plugin("");
    return found ? found->text() : found.error().chain() + " (" + found.error().hint + ")";
  };
  CHECK(opened("none") == "no tuner plugin");
  CHECK(has(opened("nowhere"), "COLLCTL_TUNER_PLUGIN=nowhere: libnccl-tuner-nowhere.so: "));
  CHECK(has(opened("libnccl-tuner-nowhere.so"), ": libnccl-tuner-nowhere.so: cannot open"));
  CHECK(has(opened(tuner_path("nowhere")), "COLLCTL_TUNER_PLUGIN=none goes without it"));
  CHECK(has(opened(tuner_path("old")),
            "implements version 2 of the tuner interface; 3 to 6 are supported"));
  CHECK(has(opened(tuner_path("holed")), "ncclTunerPlugin_v5 has no getCollInfo"));
  CHECK(has(opened(kWithNetwork), "tuner plugin 'Scales'"));
  CHECK(has(opened(test::fake_plugins() + "/libnccl-net-fake12.so"),
            "is not a tuner plugin: it has no ncclTunerPlugin_v6, nor one of versions 3 to 6"));
  // A network's plugin need not have one.
  const auto beside = find_tuner_plugin(test::fake_plugins() + "/libnccl-net-fake12.so");
  REQUIRE(beside);
  CHECK(beside->calls == nullptr);
}

TEST_CASE("tuners that answer differently end the job on all ranks, by name") {
  const Variable library("COLLCTL_TUNER_PLUGIN", tuner_path("fake3"));
  const Variable pick("FAKE_TUNER_DIFFERS", "1:0");
  Communicators job = start_job(kRanks, {});
  std::vector<std::string> said(kRanks);
  on_all(kRanks, [&](int r) {
    Communicator& c = *job[size_t(r)];
    Stream stream(c);
    std::vector<float> in(1000), out(1000);
    Operation op = sum_of(1000);
    op.input = in.data();
    op.output = out.data();
    const Status ran = c.start(op, stream, Communicator::Launch::blocking);
    said[size_t(r)] = ran ? "" : ran.error().chain();
  });
  for (const std::string& text : said) {
    INFO(text);
    CHECK(has(text, "answers differently on the ranks: allreduce of 4000 bytes: "));
    CHECK(has(text, "ring/ll, 1 channels (tuner: Ring/LL) on rank "));
    CHECK(has(text, "one-shot/simple, 1 channels (tuner: no wish) on rank "));
  }
}

TEST_CASE("a tuner has its way on GPU ranks, and its answers are compared", "[gpu]") {
  const Variable library("COLLCTL_TUNER_PLUGIN", tuner_path("fake6"));
  GpuJob job;
  job.ranks = 4;
  {
    set_up_gpus(4);
    const Variable pick("FAKE_TUNER_PICK", "0:2");
    const Variable two("FAKE_TUNER_CHANNELS", "2");
    CHECK(with_gpu_ranks(job, [](Communicator& c, Complaints& complaints) {
            Stream stream(c);
            for (const uint64_t count : {100u, 100000u}) {
              const std::string wrong = run_case(c, stream, {.count = count});
              if (!wrong.empty()) complaints.add(wrong);
              std::vector<float> in(count), out(count);
              Operation op = sum_of(count);
              op.input = in.data();
              op.output = out.data();
              const auto plan = c.plan_for({&op, 1});
              if (!plan) return complaints.add(plan.error().chain());
              const PlannedOp& planned = plan->ops[0];
              if (tuner_algorithm(planned.algorithm) != 0 || planned.protocol != Protocol::simple ||
                  planned.channels != 2 || !planned.tuned || !planned.tuned->followed)
                complaints.add(planned.why);
            }
          }) == "");
  }
  set_up_gpus(4);
  const Variable pick("FAKE_TUNER_DIFFERS", "1:0");
  std::vector<std::string> said(4);
  {
    const Communicators ranks = start_gpu_job(job);
    on_all(4, [&](int r) {
      Communicator& c = *ranks[size_t(r)];
      Stream stream(c);
      std::string& text = said[size_t(r)];
      text = run_case(c, stream, {.count = 1000}, Communicator::Launch::async);
    });
  }
  for (const std::string& text : said) {
    INFO(text);
    CHECK(has(text, "answers differently on the ranks: allreduce of 4000 bytes: "));
  }
}

TEST_CASE("the algorithms of ours and NCCL's that stand for each other") {
  for (int a = 0; a < kernels::kAlgorithmCount; ++a) {
    const std::string name = kernels::name_of(AlgorithmId(a));
    const std::optional<int> number = tuner_algorithm(AlgorithmId(a));
    INFO(name);
    CHECK(number.has_value() ==
          (name == "tree" || name == "tree-split" || name == "ring" || name == "collnet"));
    if (number) CHECK(tuner_algorithm_missing(*number) == nullptr);
  }
  const char* const names[] = {"Tree",     "Ring", "CollNetDirect", "CollNetChain", "NVLS",
                               "NVLSTree", "PAT"};
  for (int number = 0; number < TunerTable::kAlgorithms; ++number)
    CHECK(tuner_algorithm_name(number) == std::string(names[number]));
  CHECK(tuner_protocol(Protocol::ll) == 0);
  CHECK(tuner_protocol(Protocol::ll128) == 1);
  CHECK(tuner_protocol(Protocol::simple) == 2);
}

}  // namespace tuner_tests
