// Output of ranks on its way out: tags, groups, files, readers that are slow or gone.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "cmd/job/rank_output.h"
#include "tests/catch.h"

namespace job_rank_output_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

launcher::Event line(int rank, const std::string& text, bool partial = false,
                     bool is_stderr = false) {
  launcher::Event e;
  e.kind = launcher::EventKind::line;
  e.rank = rank;
  e.line = text;
  e.partial = partial;
  e.is_stderr = is_stderr;
  return e;
}

struct Pipes {
  base::Fd out_read, out, err_read, err;
  Pipes() {
    int fds[2];
    REQUIRE(::pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
    out_read = base::Fd(fds[0]);
    out = base::Fd(fds[1]);
    REQUIRE(::pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
    err_read = base::Fd(fds[0]);
    err = base::Fd(fds[1]);
  }
  OutputPolicy policy(bool tag, bool gather) const {
    return {.tag = tag,
            .hosts = {},
            .gather = gather,
            .directory = {},
            .out_fd = out.get(),
            .err_fd = err.get()};
  }
  static std::string all(const base::Fd& fd) {
    std::string text;
    char buffer[4096];
    ssize_t n;
    while ((n = ::read(fd.get(), buffer, sizeof buffer)) > 0) text.append(buffer, size_t(n));
    return text;
  }
};

std::string shown(Pipes& p, RankOutput& output) {
  output.finish();
  REQUIRE(output.flush().ok());
  REQUIRE(output.empty());
  return Pipes::all(p.out_read);
}

}  // namespace

TEST_CASE("bytes of one rank come out as they went in") {
  Pipes p;
  auto output = RankOutput::open(p.policy(false, false), 1);
  REQUIRE(output.ok());
  for (const auto& e : {line(0, "a"), line(0, "long", true), line(0, "er"), line(0, "end", true)})
    REQUIRE(output->add(e).ok());
  CHECK(shown(p, *output) == "a\nlonger\nend");
}

TEST_CASE("lines of several ranks never mix, streams stay apart") {
  Pipes p;
  auto output = RankOutput::open(p.policy(true, false), 3);
  REQUIRE(output.ok());
  for (const auto& e : {line(0, "part", true), line(2, "whole"), line(0, "rest"),
                        line(1, "oops", false, true), line(1, "", false)})
    REQUIRE(output->add(e).ok());
  CHECK(shown(p, *output) == "[0] part\n[2] whole\n[0] rest\n[1] \n");
  CHECK(Pipes::all(p.err_read) == "[1] oops\n");
}

TEST_CASE("tags name the host where ranks are on hosts") {
  Pipes p;
  OutputPolicy policy = p.policy(true, false);
  policy.hosts = {"node01", "node01", "node02"};
  auto output = RankOutput::open(policy, 3);
  REQUIRE(output.ok());
  for (const auto& e : {line(2, "here"), line(1, "part", true)}) REQUIRE(output->add(e).ok());
  CHECK(shown(p, *output) == "[2 node02] here\n[1 node01] part");
}

TEST_CASE("equal outputs once, with who said them") {
  Pipes p;
  auto output = RankOutput::open(p.policy(false, true), 6);
  REQUIRE(output.ok());
  for (int rank : {5, 0, 1, 3}) REQUIRE(output->add(line(rank, "same")).ok());
  REQUIRE(output->add(line(2, "other", true)).ok());
  CHECK(shown(p, *output) == "[0-1,3,5] 4 ranks\nsame\n[2] 1 rank\nother\n");
}

TEST_CASE("one file per rank and stream") {
  char name[] = "/tmp/collctl-output-XXXXXX";
  REQUIRE(::mkdtemp(name) != nullptr);
  const std::string directory = std::string(name) + "/deep/er";
  {
    Pipes p;
    OutputPolicy policy = p.policy(true, false);
    policy.directory = directory;
    auto output = RankOutput::open(policy, 2);
    REQUIRE(output.ok());
    REQUIRE(output->add(line(1, "one")).ok());
    REQUIRE(output->add(line(1, "no end", true)).ok());
    REQUIRE(output->add(line(0, "bad", false, true)).ok());
    CHECK(shown(p, *output).empty());
  }
  const auto content = [&](const std::string& file) {
    std::ifstream in(directory + "/" + file);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  };
  CHECK(content("rank.1.out") == "one\nno end");
  CHECK(content("rank.0.err") == "bad\n");
  CHECK(content("rank.0.out").empty());
  for (const char* file : {"rank.0.out", "rank.0.err", "rank.1.out", "rank.1.err"})
    CHECK(::unlink((directory + "/" + file).c_str()) == 0);
  ::rmdir(directory.c_str());
  ::rmdir((std::string(name) + "/deep").c_str());
  CHECK(::rmdir(name) == 0);
}

TEST_CASE("a folder that cannot be made is an error") {
  OutputPolicy policy;
  policy.directory = "/proc/no/such";
  auto output = RankOutput::open(policy, 1);
  REQUIRE_FALSE(output.ok());
  CHECK(output.error().code == ErrorCode::unavailable);
}

TEST_CASE("a slow reader fills us up without blocking us, a gone one is an error") {
  Pipes p;
  auto output = RankOutput::open(p.policy(false, false), 1);
  REQUIRE(output.ok());
  const std::string text(100000, 'x');
  for (int i = 0; i < 12; ++i) REQUIRE(output->add(line(0, text)).ok());
  REQUIRE(output->flush().ok());
  CHECK(output->full());
  size_t got = Pipes::all(p.out_read).size();
  for (int i = 0; i < 1000 && !output->empty(); ++i) {
    REQUIRE(output->flush().ok());
    got += Pipes::all(p.out_read).size();
  }
  CHECK(got == 12 * 100001);
  p.out_read.reset();
  ::signal(SIGPIPE, SIG_IGN);
  REQUIRE(output->add(line(0, "more")).ok());
  Status gone = output->flush();
  ::signal(SIGPIPE, SIG_DFL);
  REQUIRE_FALSE(gone.ok());
  CHECK(gone.error().code == ErrorCode::lost);
}

TEST_CASE("a reader that takes all we write does not keep us writing") {
  Pipes p;
  base::Fd nothing(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  REQUIRE(nothing);
  OutputPolicy policy = p.policy(false, false);
  policy.out_fd = nothing.get();
  auto output = RankOutput::open(policy, 1);
  REQUIRE(output.ok());
  REQUIRE(output->add(line(0, std::string(3 * RankOutput::kFlushBytes - 1, 'x'))).ok());
  for (int turns = 1; turns <= 3; ++turns) {
    CHECK_FALSE(output->empty());
    REQUIRE(output->flush().ok());
  }
  CHECK(output->empty());
}

}  // namespace job_rank_output_tests
