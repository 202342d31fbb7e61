// `check` as a command, where it measures nothing.
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "cmd/check/check.h"
#include "cmd/check/node.h"
#include "tests/unit/cmd/cli/option_lines.h"

namespace check_command_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

TEST_CASE("what does not fit the budget is left out, with what is left of it", "[check]") {
  const base::Fd out(::memfd_create("out", MFD_CLOEXEC));
  REQUIRE(out);
  Console console(out.get(), out.get());
  const auto code = check_command(good("check --level standard --budget 5 --only node"), console);
  REQUIRE(code.ok());
  CHECK(*code == int(ErrorCode::incomplete));
  std::string text(4096, '\0');
  text.resize(size_t(std::max<ssize_t>(0, ::pread(out.get(), text.data(), text.size(), 0))));
  CHECK(text.find("node: not run: it is likely to take 35 s, and 5 s of the budget are left\n") !=
        std::string::npos);
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
