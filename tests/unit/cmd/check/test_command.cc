// `check` as a command, where it measures nothing.
#include <sys/mman.h>
#include <unistd.h>

#include <sstream>

#include "base/fd.h"
#include "base/format.h"
#include "cmd/check/check.h"
#include "cmd/check/node.h"
#include "tests/unit/cmd/cli/option_lines.h"

namespace check_command_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

// The output of `check` with these words, which ends so.
std::string said(const std::string& words, ErrorCode code = ErrorCode{}) {
  const base::Fd out(::memfd_create("out", MFD_CLOEXEC));
  REQUIRE(out);
  Console console(out.get(), out.get());
  const auto ended = check_command(good("check " + words), console);
  REQUIRE(ended.ok());
  CHECK(*ended == int(code));
  std::string text(8192, '\0');
  text.resize(size_t(std::max<ssize_t>(0, ::pread(out.get(), text.data(), text.size(), 0))));
  return text;
}

// Names of the suites that --list lists, those with a time first, and then its last line.
std::string listed(const std::string& words) {
  std::istringstream lines(said("--list " + words));
  std::string line, run, not_run, sum;
  while (std::getline(lines, line)) {
    sum = line;
    std::istringstream row(line);
    std::string name, cost;
    row >> name >> cost;
    if (line.starts_with("  ") && line[2] != ' ') (cost == "-" ? not_run : run) += name + " ";
  }
  return format("{}| {}| {}", run, not_run, sum);
}

TEST_CASE("what does not fit the budget is left out, with what is left of it", "[check]") {
  const std::string text = said("--level standard --budget 5 --only node", ErrorCode::incomplete);
  CHECK(text.find("node: not run: it is likely to take 35 s, and 5 s of the budget are left\n") !=
        std::string::npos);
}

TEST_CASE("--list has what --only and --skip leave, and sums what would run", "[check]") {
  const std::string of = "--level quick ";
  CHECK(listed(of + "--only node") == "node | | about 5 s");
  CHECK(listed(of + "--only node,pairs -H a,b") == "node pairs | | about 8 s");
  CHECK(listed(of + "--only pairs") == "| pairs | about 0 s");  // it needs two hosts
  CHECK(listed(of + "--only gpus") == "gpus | | about 10 s");   // of a higher level
  // GPU memory over the network has the sizes that were asked for, and at the full level a large
  // one.
  CHECK(listed("--only gpu-net -H a,b") == "gpu-net | | about 22 s");
  CHECK(listed("--only gpu-net -H a,b -b 8 -e 64") == "gpu-net | | about 62 s");
  CHECK(listed("--level full --only gpu-net -H a,b") == "gpu-net | | about 152 s");
  CHECK(listed("--level full --only gpu-net -H a,b -e 64") == "gpu-net | | about 272 s");
  CHECK(listed(of + "--skip doctor,inventory,gpus,pairs,gpu-net,cluster,traffic,nccl,burn") ==
        "node counters | | about 7 s");
  CHECK(listed(of + "--skip node,gpus,pairs,gpu-net,cluster,traffic,nccl,burn") ==
        "doctor inventory | counters | about 3 s");  // nothing has loaded the host
}

TEST_CASE("the full level burns, in each round of a soak as well", "[check]") {
  const auto burns = [](const std::string& words) {
    const std::string text = listed(words);
    return text.substr(0, text.find('|')).find("burn ") != std::string::npos;
  };
  CHECK(burns("--level full"));
  CHECK(burns("--level full --soak 1h"));
  CHECK(listed("--level full --soak 1h --only burn") == "burn | | about 140 s");
  CHECK_FALSE(burns("--level full --soak 1h --skip burn"));
  CHECK_FALSE(burns("--level standard --soak 1h"));
  CHECK(burns("--level standard --soak 1h --burn 2"));
}

TEST_CASE("steps of a check's sizes come to the largest that was asked for", "[check]") {
  const auto ended = [](uint64_t least, uint64_t most) {
    SizeRange sizes{.min_bytes = least, .max_bytes = most, .step_factor = 32};
    end_at_most(sizes);
    return *size_series(sizes);
  };
  CHECK(ended(8, 64 << 10) == std::vector<uint64_t>{64, 2048, 64 << 10});
  CHECK(ended(8, uint64_t{1} << 30).back() == uint64_t{1} << 30);
  CHECK(ended(4, 4) == std::vector<uint64_t>{4});
  CHECK(ended(1 << 20, 4 << 20) == std::vector<uint64_t>{4 << 20});
}

}  // namespace check_command_tests
