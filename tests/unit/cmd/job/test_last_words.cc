#include "cmd/job/rank_output.h"

#include <unistd.h>

#include <fstream>

#include "base/auth.h"
#include "base/log.h"
#include "tests/catch.h"
#include "tests/own_loopback.h"

namespace job_last_words_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

launcher::Event line_of(int rank, const std::string& text) {
  launcher::Event event;
  event.rank = rank;
  event.is_stderr = true;
  event.line = text;
  return event;
}

// The lines of a rank's log about strangers, as it writes them.
std::vector<std::string> knocks(int count) {
  char name[] = "/tmp/collctl-words-XXXXXX";
  const base::Fd file(::mkstemp(name));
  REQUIRE(file);
  REQUIRE(base::log_configure({.file = name}, 0).ok());
  const auto listener = base::AuthListener::listen(test::own_loopback(), *base::random_secret());
  REQUIRE(listener.ok());
  for (int i = 0; i < count; ++i) {
    const auto fd = base::connect_tcp((*listener)->address(), Deadline::after_seconds(30), true);
    REQUIRE(fd.ok());
    const std::string noise(100, 'n');
    REQUIRE(
        base::write_exact(fd->get(), noise.data(), noise.size(), Deadline::after_seconds(30)).ok());
    const Deadline limit = Deadline::after_seconds(30);
    while ((*listener)->dropped() < uint64_t(i + 1) && !limit.passed()) (*listener)->handle();
  }
  REQUIRE(base::log_configure({.file = "/dev/stderr"}, 0).ok());
  std::vector<std::string> lines;
  std::ifstream log(name);
  for (std::string line; std::getline(log, line);) lines.push_back(line);
  ::unlink(name);
  return lines;
}

}  // namespace

TEST_CASE("a rank's last words are its own, however many strangers knock") {
  LastWords words;
  words.add(line_of(1, "fatal: the disk is full"));
  const auto noise = knocks(8);
  CHECK(noise.size() == 8);
  for (const std::string& line : noise) words.add(line_of(1, line));
  CHECK(words.of(1) == "its last lines on standard error:\n  fatal: the disk is full");
  CHECK(words.of(0).empty());
}

}  // namespace job_last_words_tests
