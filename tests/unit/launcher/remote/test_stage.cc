// The script that brings the agent to run, under this machine's sh; and what its words mean.
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/format.h"
#include "base/host_facts.h"
#include "launcher/remote/binary.h"
#include "launcher/remote/stage.h"
#include "tests/skip.h"
#include "tests/unit/launcher/local/processes.h"

namespace remote_stage_tests {

using namespace collctl;
using namespace collctl::launcher;
using launcher::testing::gather;
using launcher::testing::Seen;

namespace fs = std::filesystem;

namespace {

// A stand-in for the binary: a script that proves itself and prints how it was called.
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

// Runs the command as a login shell would, `input` on standard input, which then ends or, of a
// launcher that is cut off, stays open.
Outcome run(const Home& home, const StageOptions& options, const std::string& input,
            bool cut_off = false, const std::string& tools = "/usr/local/bin") {
  RankProcess p;
  p.argv = {"sh", "-c", agent_command(options)};
  p.environment = {"HOME=" + home.path.string(), "PATH=" + tools + ":/usr/bin:/bin"};
  p.control = false;
  p.null_stdin = false;
  auto job = LocalJob::start({p});
  REQUIRE(job.ok());
  REQUIRE((*job)
              ->write_stdin(0, {reinterpret_cast<const uint8_t*>(input.data()), input.size()},
                            Deadline::after_seconds(10))
              .ok());
  if (!cut_off) (*job)->close_stdin(0);
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
  return staged_size(bytes->size()) + std::string(bytes->begin(), bytes->end());
}

const StageOptions kOptions{.version = "1.2.3",
                            .hash = "0123456789abcdef0123",
                            .machine = base::machine_name(),
                            .path = {},
                            .staging = Staging::automatic};

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

constexpr uid_t kStranger = 4711;

// An executable script that is not the binary sent, and prints it when it runs.
fs::path plant(const fs::path& at, mode_t mode = 0755) {
  fs::create_directories(at.parent_path());
  std::ofstream(at) << "#!/bin/sh\n[ \"$2\" != --verify ] || exit 4\necho planted runs\n";
  REQUIRE(::chmod(at.c_str(), mode) == 0);
  return at;
}

StageOptions at_path(const fs::path& path, Staging staging = Staging::automatic) {
  StageOptions options = kOptions;
  options.path = path;
  options.staging = staging;
  return options;
}

// It is refused with this reason, and neither run nor replaced.
void is_refused(const Home& home, const StageOptions& options, const char* reason) {
  const Outcome outcome = run(home, options, packed(kAgent));
  INFO(outcome.out << outcome.err);
  CHECK(outcome.code == 4);
  CHECK(has(outcome.out, "@collctl-agent fail unsafe"));
  CHECK(has(outcome.out, reason));
  CHECK_FALSE(has(outcome.out, "runs"));
}

void is_refused_there(const Home& home, const fs::path& file) {
  for (const Staging staging : {Staging::automatic, Staging::always, Staging::never})
    is_refused(home, at_path(file, staging), "others may write to");
  is_refused(home, at_path(home.path / "open/sub/new"), "others may write to");
}

}  // namespace

TEST_CASE("what others could change is neither run nor written") {
  const Home home;
  const fs::path file = plant(home.path / "open/collctl");
  REQUIRE(::chmod((home.path / "open").c_str(), 0777) == 0);
  is_refused_there(home, file);
  REQUIRE(::chmod((home.path / "open").c_str(), 0755) == 0);
  plant(file, 0757);
  is_refused(home, at_path(file, Staging::never), "others may write to");
  CHECK(has(run(home, at_path(file), packed(kAgent)).out, "runs as __agent"));
}

// The signal of a launcher's death reaches the script when the folder has just been made.
TEST_CASE("a launcher that dies meanwhile leaves no folder behind") {
  for (const char* signal : {"PIPE", "HUP", "TERM"}) {
    CAPTURE(signal);
    const Home home;
    const fs::path tools = home.path / "tools";
    fs::create_directories(tools);
    std::ofstream(tools / "mktemp")
        << "#!/bin/sh\n/usr/bin/mktemp \"$@\" && kill -" << signal << " $PPID\n";
    REQUIRE(::chmod((tools / "mktemp").c_str(), 0755) == 0);
    const Outcome outcome = run(home, kOptions, packed(kAgent), false, tools);
    CHECK(outcome.code == 4);
    for (const auto& entry : fs::recursive_directory_iterator(home.path / ".cache"))
      CHECK(entry.path().filename().string().rfind(".collctl.", 0) != 0);
  }
}

TEST_CASE("what another group could change is neither run nor written", "[may_skip]") {
  const Home home;
  const fs::path file = plant(home.path / "open/collctl");
  if (::chown((home.path / "open").c_str(), uid_t(-1), kStranger) != 0)
    return collctl::test::skip("only root can give a folder to another group");
  REQUIRE(::chmod((home.path / "open").c_str(), 0775) == 0);
  is_refused_there(home, file);
}

TEST_CASE("another user's file is neither run nor replaced", "[may_skip]") {
  if (::geteuid() != 0) return collctl::test::skip("only root can give files to another user");
  const Home home;
  const fs::path open = home.path / "open";
  const fs::path file = plant(open / "collctl");
  REQUIRE(::chmod(open.c_str(), 01777) == 0);
  REQUIRE(::chown(file.c_str(), kStranger, kStranger) == 0);
  for (const Staging staging : {Staging::automatic, Staging::always, Staging::never})
    is_refused(home, at_path(file, staging), "belongs to user 4711");
  // Neither through a link of one's own, nor in a folder of theirs.
  fs::create_symlink(file, home.path / "link");
  is_refused(home, at_path(home.path / "link", Staging::never), "belongs to user 4711");
  const fs::path theirs = plant(open / "theirs/collctl");
  REQUIRE(::chown((open / "theirs").c_str(), kStranger, kStranger) == 0);
  is_refused(home, at_path(theirs), "belongs to user 4711");
  // One's own file in the same sticky folder is fine.
  CHECK(has(run(home, at_path(open / "own"), packed(kAgent)).out, "runs as __agent"));
  CHECK(has(run(home, at_path(open / "own"), "").out, "runs as __agent"));
}

TEST_CASE("a path of one's own is used where its content is right, or where asked to") {
  const Home home;
  const fs::path file = plant(home.path / "tools/collctl");
  fs::create_symlink(file, home.path / "link");
  CHECK(has(run(home, at_path(file, Staging::never), "").out, "planted runs"));
  CHECK(has(run(home, at_path(home.path / "link", Staging::never), "").out, "planted runs"));
  // The launcher's build does not run on this host: the one that was installed for it does.
  const Outcome other = run(home, at_path(file), packed("#!/bin/sh\nexit 4\n"));
  CHECK(has(other.out, "planted runs"));
  CHECK(std::distance(fs::directory_iterator(file.parent_path()), {}) == 1);
  const Outcome anew = run(home, at_path(file), packed(kAgent));
  CHECK(has(anew.out, "@collctl-agent staged"));
  CHECK(has(anew.out, "runs as __agent"));
  const Outcome again = run(home, at_path(file), "");
  CHECK_FALSE(has(again.out, "need"));
  CHECK(has(again.out, "runs as __agent"));
}

TEST_CASE("staging writes through no link and no name that could be guessed") {
  const Home home;
  const fs::path victim = home.path / "victim", folder = home.path / "folder";
  std::ofstream(victim) << "precious";
  fs::create_directories(folder);
  REQUIRE(::chmod(folder.c_str(), 01777) == 0);
  utsname name{};
  REQUIRE(::uname(&name) == 0);
  for (int pid = ::getpid(); pid < ::getpid() + 2000; ++pid)
    fs::create_symlink(victim, folder / format(".collctl.{}.{}", name.nodename, pid));
  fs::create_symlink(victim, folder / "link");
  CHECK(has(run(home, at_path(folder / "collctl"), packed(kAgent)).out, "runs as __agent"));
  is_refused(home, at_path(folder / "link", Staging::always), "is not a regular file");
  is_refused(home, at_path(folder, Staging::always), "is not a regular file");
  std::string text;
  std::getline(std::ifstream(victim), text);
  CHECK(text == "precious");
  CHECK((fs::status(victim).permissions() & fs::perms::owner_exec) == fs::perms::none);
}

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

TEST_CASE("a host of another architecture gets the binary for it") {
  const Home home;
  StageOptions foreign = kOptions;
  foreign.hash = "ffff";
  foreign.machine = "another";
  const std::string answer = staged_hash(kOptions.hash);
  const Outcome first = run(home, foreign, answer + packed(kAgent));
  INFO(first.out << first.err);
  CHECK(has(first.out, ("@collctl-agent machine " + base::machine_name() + "\n").c_str()));
  CHECK(has(first.out, "runs as __agent"));
  CHECK(fs::exists(home.path / ".cache/collctl/1.2.3-0123456789abcdef/collctl"));
  const Outcome second = run(home, foreign, answer);
  CHECK_FALSE(has(second.out, "need"));
  CHECK(has(second.out, "runs as __agent"));
  // Without one, what its user has installed there; else the reason.
  const Outcome without = run(home, foreign, staged_hash(""));
  CHECK(without.code == 4);
  CHECK(has(without.out, ("@collctl-agent fail machine " + base::machine_name()).c_str()));
  StageOptions installed = at_path(plant(home.path / "tools/collctl"));
  installed.machine = "another";
  CHECK(has(run(home, installed, staged_hash("")).out, "planted runs"));
  installed.staging = Staging::never;
  CHECK(has(run(home, installed, "").out, "planted runs"));
}

TEST_CASE("names of architectures can stand in names of files") {
  for (const char* name : {"aarch64", "x86_64", "ppc64le"}) CHECK(is_machine_name(name));
  for (const std::string& name : {std::string(), std::string("a/../b"), std::string(33, 'a')})
    CHECK_FALSE(is_machine_name(name));
}

TEST_CASE("what arrives cut, spoilt or as something else is refused and removed") {
  const Home home;
  const std::string whole = packed(kAgent);
  const std::string wrong = packed("#!/bin/sh\necho other; exit 4\n");
  for (const std::string& input : {whole.substr(0, whole.size() - 9), staged_size(9) + "not gzip!",
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

TEST_CASE("a launcher that is cut off leaves nothing waiting, and no file") {
  StageOptions hurried = kOptions;
  hurried.patience_s = 1;
  const std::string whole = packed(kAgent);
  for (const std::string& input : {std::string(), whole.substr(0, 5), whole.substr(0, 40)}) {
    const Home home;
    const int64_t began = now_ns();
    const Outcome outcome = run(home, hurried, input, true);
    INFO(input.size() << " bytes: " << outcome.out << outcome.err);
    CHECK(outcome.code == 4);
    CHECK(base::seconds_since(began) < 15);
    CHECK(fs::is_empty(home.path / ".cache/collctl/1.2.3-0123456789abcdef"));
  }
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
  CHECK(has(stage_error("fail machine aarch64").message, "architecture, aarch64"));
  CHECK(has(stage_error("fail machine aarch64").hint, "--binary-for aarch64=PATH"));
  CHECK(has(stage_error("fail unsafe /x belongs to user 7").hint, "--remote-path"));
  CHECK(has(stage_error("missing /opt/collctl").message, "/opt/collctl"));
  CHECK(stage_error("").code == ErrorCode::launch);
  CHECK(has(start_error(1, "", "This account is currently not available. ").message, "account"));
  CHECK(has(start_error(127, "", "").hint, "shell"));
  // The message names who died, not only the number.
  CHECK(start_error(137, "", "").message ==
        "the agent was killed by signal 9 (SIGKILL) before it had started");
  CHECK(start_error(255, "", "").message ==
        "the agent was killed by a signal before it had started");
  CHECK(exit_text(143) == "was killed by signal 15 (SIGTERM)");
  CHECK(exit_text(4) == "ended with exit code 4");
}

}  // namespace remote_stage_tests
