// The script that brings the agent to run, under this machine's sh; and what its words mean.
#include <sys/stat.h>

#include <filesystem>

#include "launcher/remote/binary.h"
#include "launcher/remote/stage.h"
#include "tests/unit/launcher/local/processes.h"

using namespace collctl;
using namespace collctl::launcher;
using launcher::test::gather;
using launcher::test::Seen;

namespace fs = std::filesystem;

namespace {

// A stand-in for the binary: a script that proves itself and says how it was called.
constexpr const char* kAgent =
    "#!/bin/sh\n"
    "[ \"$2\" != --verify ] || { [ \"$3\" = 0123456789abcdef ] || { echo other; exit 4; }; exit 0; "
    "}\n"
    "echo runs as \"$*\", umask $(umask)\n";

struct Home {
  Home() {
    char name[] = "/tmp/collctl-stage-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
  }
  ~Home() { fs::remove_all(path); }
  fs::path path;
};

struct Outcome {
  std::string out, err;
  int code = -1;
};

// Runs the command as a login shell would, `input` on standard input.
Outcome run(const Home& home, const StageOptions& options, const std::string& input) {
  RankProcess p;
  p.argv = {"sh", "-c", agent_command(options)};
  p.environment = {"HOME=" + home.path.string(), "PATH=/usr/local/bin:/usr/bin:/bin"};
  p.control = false;
  p.null_stdin = false;
  auto job = LocalJob::start({p});
  REQUIRE(job.ok());
  REQUIRE((*job)
              ->write_stdin(0, {reinterpret_cast<const uint8_t*>(input.data()), input.size()},
                            Deadline::after_seconds(10))
              .ok());
  (*job)->close_stdin(0);
  Seen seen;
  const Deadline deadline = Deadline::after_seconds(30);
  while ((*job)->running_count() > 0 && !deadline.passed()) gather(**job, seen, deadline);
  return {seen.out[0], seen.err[0], seen.exits[0].exit_code};
}

std::string packed(const std::string& text) {
  Home home;
  const fs::path file = home.path / "f";
  FILE* f = ::fopen(file.c_str(), "wb");
  REQUIRE(f != nullptr);
  ::fwrite(text.data(), 1, text.size(), f);
  ::fclose(f);
  const auto bytes = gzip_file(file);
  REQUIRE(bytes.ok());
  return std::to_string(bytes->size()) + "\n" + std::string(bytes->begin(), bytes->end());
}

const StageOptions kOptions{
    .version = "1.2.3", .hash = "0123456789abcdef0123", .path = {}, .staging = Staging::automatic};

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the command stays clear of what shells treat in their own ways") {
  const std::string command = agent_command(kOptions);
  CHECK(command.find_first_of("\\!\n") == std::string::npos);
  CHECK(std::count(command.begin(), command.end(), '\'') % 2 == 0);
}

TEST_CASE("a binary is sent once, then found") {
  const Home home;
  const Outcome first = run(home, kOptions, packed(kAgent));
  CHECK(first.code == 0);
  CHECK(has(first.out, "@collctl-agent need gzip"));
  CHECK(has(first.out, "@collctl-agent staged"));
  CHECK(has(first.out, "runs as __agent"));
  const std::string masked = first.out.substr(first.out.find("umask"));
  const fs::path placed = home.path / ".cache/collctl/1.2.3-0123456789abcdef/collctl";
  REQUIRE(fs::exists(placed));
  CHECK((fs::status(placed).permissions() & fs::perms(0777)) == fs::perms(0700));
  CHECK(std::distance(fs::directory_iterator(placed.parent_path()), {}) == 1);
  const Outcome second = run(home, kOptions, "");
  CHECK(second.code == 0);
  CHECK_FALSE(has(second.out, "need"));
  CHECK(has(second.out, "runs as __agent"));
  CHECK(has(second.out, masked.c_str()));  // staging is not to be seen in the files of the ranks
  StageOptions always = kOptions;
  always.staging = Staging::always;
  CHECK(has(run(home, always, packed(kAgent)).out, "staged"));
}

TEST_CASE("what arrives cut, spoilt or as something else is refused and removed") {
  const Home home;
  const std::string whole = packed(kAgent);
  const std::string wrong = packed("#!/bin/sh\necho other; exit 4\n");
  for (const std::string& input : {whole.substr(0, whole.size() - 9), std::string("9\nnot gzip!"),
                                   wrong, std::string("oops\n"), std::string()}) {
    const Outcome outcome = run(home, kOptions, input);
    INFO(outcome.out << outcome.err);
    CHECK(outcome.code == 4);
    CHECK_FALSE(has(outcome.out, "runs as"));
    const fs::path folder = home.path / ".cache/collctl/1.2.3-0123456789abcdef";
    CHECK(fs::is_empty(folder));
  }
  StageOptions never = kOptions;
  never.staging = Staging::never;
  CHECK(has(run(home, never, "").out, "@collctl-agent missing "));
}

TEST_CASE("a path of one's own, with the home folder's sign") {
  const Home home;
  StageOptions options = kOptions;
  options.path = "~/tools/c";
  CHECK(has(run(home, options, packed(kAgent)).out, "runs as __agent"));
  CHECK(fs::exists(home.path / "tools/c"));
  options.path = (home.path / "tools").string() + "/c/under-a-file";
  const Outcome outcome = run(home, options, packed(kAgent));
  CHECK(outcome.code == 4);
  CHECK(has(outcome.out, "@collctl-agent fail mkdir"));
}

TEST_CASE("the words of the script become errors with remedies") {
  CHECK(
      has(stage_error("fail write gzip: stdout: No space left on device").hint, "free some space"));
  CHECK(has(stage_error("fail run /x x86_64 sh: 1: /x/y: Permission denied").hint, "noexec"));
  CHECK(
      has(stage_error("fail run /x aarch64 sh: cannot execute binary file: Exec format error").hint,
          "architecture"));
  CHECK(
      has(stage_error("fail run /x x86_64 /y: version `GLIBC_2.34' not found").hint, "C library"));
  CHECK(has(stage_error("missing /opt/collctl").message, "/opt/collctl"));
  CHECK(stage_error("").code == ErrorCode::launch);
  CHECK(has(start_error(1, "", "This account is currently not available. ").message, "account"));
  CHECK(has(start_error(127, "", "").hint, "shell"));
}
