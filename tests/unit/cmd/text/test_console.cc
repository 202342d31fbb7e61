// Words of others reach the terminal as text only.
#include "cmd/text/console.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/clock.h"
#include "base/fd.h"
#include "cmd/job/talk.h"
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

namespace {

int64_t now_here = 0;

// Seconds since the console was made.
void at(double seconds) {
  now_here = int64_t(seconds * 1e9);
}

struct OwnClock {
  int64_t (*const before)() = base::other_clock;
  OwnClock() {
    at(0);
    base::other_clock = [] { return now_here; };
  }
  ~OwnClock() { base::other_clock = before; }
};

}  // namespace

TEST_CASE("without a terminal what goes on is told after ten seconds of silence, and each ten") {
  const OwnClock clock;
  Screen out, err;
  Console console(out.fd.get(), err.fd.get());
  Progress progress(console, true);
  const auto talk = console_talk(console, false);
  progress.phase(0, "init");
  at(9.9);
  progress.phase(1, "ready");
  talk.still();
  CHECK(err.text().empty());
  at(10);
  talk.still();
  std::string told = "collctl: now: starting: 1 init 1 ready\n";
  CHECK(err.text() == told);
  at(12);
  progress.text("512 KiB, 3 of 20");
  at(19.9);
  talk.still();
  CHECK(err.text() == told);
  at(20);
  talk.still();
  told += "collctl: now: 512 KiB, 3 of 20\n";
  CHECK(err.text() == told);
  // It is silent as long as nothing comes out on the other stream either.
  at(25);
  console.out("a row\n");
  at(34.9);
  progress.text("1 MiB, 4 of 20");
  CHECK(err.text() == told);
  at(35);
  talk.transient("2 MiB, 5 of 20");
  told += "collctl: now: 2 MiB, 5 of 20\n";
  CHECK(err.text() == told);
  // Nothing goes on.
  progress.clear();
  at(1000);
  talk.still();
  CHECK(err.text() == told);
  CHECK(out.text() == "a row\n");
}

TEST_CASE("who wants quiet is told nothing of what goes on") {
  const OwnClock clock;
  Screen out, err;
  Console console(out.fd.get(), err.fd.get());
  const auto talk = console_talk(console, true);
  CHECK_FALSE(talk.transient);
  CHECK_FALSE(talk.still);
  Progress progress(console, false);
  at(60);
  progress.phase(0, "init");
  progress.text("512 KiB, 3 of 20");
  console.still();
  CHECK(err.text().empty());
}

TEST_CASE("on a terminal the line of what goes on is the last one, ten times a second") {
  const OwnClock clock;
  const base::Fd seen(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  REQUIRE(seen);
  REQUIRE(::grantpt(seen.get()) == 0);
  REQUIRE(::unlockpt(seen.get()) == 0);
  const base::Fd terminal(::open(::ptsname(seen.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(terminal);
  const auto shown = [&] {
    char text[512];
    const ssize_t n = ::read(seen.get(), text, sizeof text);
    return std::string(text, size_t(std::max<ssize_t>(0, n)));
  };
  Screen out;
  Console console(out.fd.get(), terminal.get());
  at(1);
  console.transient("one");
  CHECK(shown() == "\r\033[Kone");
  at(1.05);
  console.transient("two");
  CHECK(shown().empty());
  at(1.1);
  console.still();
  CHECK(shown() == "\r\033[Ktwo");
  console.out("a row\n");
  CHECK(shown() == "\r\033[K");
  at(100);
  console.still();
  CHECK(shown() == "\r\033[Ktwo");
  console.transient("");
  CHECK(shown() == "\r\033[K");
  at(101);
  console.still();
  CHECK(shown().empty());
}

}  // namespace text_console_tests
