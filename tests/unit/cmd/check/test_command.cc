// `check` as a command, where it measures nothing.
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "cmd/check/check.h"
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

}  // namespace check_command_tests
