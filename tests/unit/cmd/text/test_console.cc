// What others say reaches the terminal as text only.
#include "cmd/text/console.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/catch.h"

namespace text_console_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

struct Screen {
  base::Fd fd{::memfd_create("screen", MFD_CLOEXEC)};
  std::string text() const {
    std::string all(4096, '\0');
    const ssize_t n = ::pread(fd.get(), all.data(), all.size(), 0);
    REQUIRE(n >= 0);
    all.resize(size_t(n));
    return all;
  }
};

const std::string kEvil =
    "node01\x1b]52;c;cHduZWQ=\a\x1b[1A\xc2\x9b"
    "2K";

}  // namespace

TEST_CASE("escape sequences of others are shown, not obeyed, with and without colours") {
  const bool colours = GENERATE(false, true);
  Screen out, err;
  Console console(out.fd.get(), err.fd.get());
  console.set_colours(colours ? Colours::always : Colours::never);
  Error error(ErrorCode::launch, "ssh said: " + kEvil, "look at " + kEvil);
  error.within("host " + kEvil);
  console.print_error(error);
  console.note(kEvil);
  console.err(kEvil + "\n");
  console.out("host " + kEvil + " " + console.out_colour("1;31", kEvil) + "\n");
  for (const std::string& text : {out.text(), err.text()}) {
    INFO(text);
    CHECK(text.find("\x1b]") == std::string::npos);
    CHECK(text.find("\x1b[1A") == std::string::npos);
    CHECK(text.find('\a') == std::string::npos);
    CHECK(text.find('\x9b') == std::string::npos);
    CHECK(text.find("node01\\x1b]52;c;cHduZWQ=\\x07\\x1b[1A\\u009b2K") != std::string::npos);
    CHECK((text.find('\x1b') != std::string::npos) == colours);
  }
}

}  // namespace text_console_tests
