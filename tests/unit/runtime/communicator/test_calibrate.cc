// The calibration of a job's hosts: measured once, kept, read, and the same on all ranks.
#include "runtime/communicator/calibrate.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/env.h"
#include "base/host_facts.h"
#include "base/user_cache.h"
#include "tests/unit/runtime/ranks.h"

namespace communicator_calibrate_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;
namespace fs = std::filesystem;

namespace {

struct Cache {
  Cache() {
    char name[] = "/tmp/collctl-calibrate-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
    variable.emplace("XDG_CACHE_HOME", path);
  }
  ~Cache() { fs::remove_all(path); }
  KeptCalibration kept() const { return kept_calibration(base::host_processors()); }
  std::string text() const {
    std::ifstream file(kept().path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string path;
  std::optional<base::ScopedVariable> variable;
};

// The expectation of a job's ranks for an operation: alike.
std::string expected_by_ranks(bool recalibrate, double& us) {
  CommOptions options;
  options.calibrate = true;
  options.recalibrate = recalibrate;
  std::vector<double> expected(3);
  const std::string wrong = with_ranks(3, options, [&](Communicator& c, Complaints& complaints) {
    std::vector<float> data(5000);
    const Operation op{.collective = Collective::all_reduce,
                       .input = data.data(),
                       .output = data.data(),
                       .count = data.size()};
    const auto plan = c.plan_for({&op, 1});
    if (!plan) return complaints.add(c.rank(), plan.error());
    expected[size_t(c.rank())] = plan->ops[0].expected_us;
    Stream stream(c);
    const std::string bad = run_case(c, stream, {Collective::all_reduce, 5000, 0, false});
    if (!bad.empty()) complaints.add(bad);
  });
  us = expected[0];
  for (const double each : expected) CHECK(each == us);
  return wrong;
}

bool two_cores() {
  const auto& online = base::host_processors().online;
  const auto mine = base::affinity_cores();
  return std::any_of(mine.begin(), mine.end(), [&](int id) {
    const auto *a = base::host_processors().find(mine[0]), *b = base::host_processors().find(id);
    return a != nullptr && b != nullptr && a->core != b->core && !online.empty();
  });
}

}  // namespace

TEST_CASE("the first job measures its machine, the next ones read it", "[communicator]") {
  const Cache cache;
  double first = 0, second = 0;
  CHECK_FALSE(cache.kept().found.measured());
  CHECK(expected_by_ranks(false, first) == "");
  const std::string text = cache.text();
  if (two_cores()) {
    // (Other work on both cores may keep the two threads apart for all of the time.)
    if (!text.empty()) CHECK(cache.kept().found.measured());
  } else {
    CHECK(text.empty());
  }
  CHECK(cache.kept().problem.empty());
  if (text.empty()) return;
  CHECK(expected_by_ranks(false, second) == "");
  CHECK(cache.text() == text);
  CHECK(first == second);
}

TEST_CASE("what is kept is what all ranks count with", "[communicator]") {
  const Cache cache;
  double fast = 0, slow = 0;
  Calibration c{.line_us = {0.1F, 0.1F, 0.1F}, .window_gbps = {8, 8, 8, 8}};
  REQUIRE(keep_calibration(c, base::host_processors()));
  CHECK(expected_by_ranks(false, fast) == "");
  CHECK(cache.kept().found == c);
  for (float& gbps : c.window_gbps) gbps = 1;
  REQUIRE(keep_calibration(c, base::host_processors()));
  CHECK(expected_by_ranks(false, slow) == "");
  CHECK(slow > fast);
  // Without it constants count.
  const base::ScopedVariable off("COLLCTL_CALIBRATE", "0");
  double constant = 0;
  CHECK(expected_by_ranks(true, constant) == "");
  CHECK(constant < slow);
  CHECK(cache.kept().found == c);
}

TEST_CASE("what is no calibration is replaced, and where none can be kept none is made",
          "[communicator]") {
  const Cache cache;
  REQUIRE(base::write_cached(fs::path(cache.kept().path).filename(), "what is this?\n"));
  CHECK(cache.kept().problem.find("it is no calibration of this machine") != std::string::npos);
  double us = 0;
  CHECK(expected_by_ranks(false, us) == "");
  CHECK((cache.kept().problem.empty() || cache.text() == "what is this?\n"));
  // No folder can be made below a file.
  const base::ScopedVariable nowhere("XDG_CACHE_HOME", cache.kept().path);
  double constant = 0, again = 0;
  CHECK(expected_by_ranks(false, constant) == "");
  CHECK(expected_by_ranks(false, again) == "");
  CHECK(constant == again);
  CHECK(cache.kept().problem.empty());
}

TEST_CASE("two cores are measured in time, a single one is not", "[communicator]") {
  const auto cores = base::affinity_cores();
  const int64_t start = now_ns();
  const Calibration found = calibrate(base::host_processors(), cores);
  // Threads that are to end may wait for a core.
  CHECK(now_ns() - start < 20 * kCalibrationNs);
  if (found.measured())
    for (const float gbps : found.window_gbps) CHECK(gbps > 0);
  CHECK_FALSE(calibrate(base::host_processors(), {cores.data(), 1}).measured());
  CHECK_FALSE(calibrate(base::host_processors(), {}).measured());
}

}  // namespace communicator_calibrate_tests
