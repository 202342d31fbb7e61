// The private folder for Unix sockets: who may enter, what is left of those that were killed.
#include "base/socket_folder.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/format.h"
#include "base/host_facts.h"
#include "tests/catch.h"
#include "tests/skip.h"

namespace socket_folder_tests {

using namespace collctl;
namespace fs = std::filesystem;

namespace {

struct Place {
  Place() {
    char name[] = "/tmp/collctl-place-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
  }
  ~Place() { fs::remove_all(path); }
  std::string folder() const {
    const char* const places[] = {path.c_str()};
    auto made = base::socket_folder(places);
    REQUIRE(made.ok());
    return *made;
  }
  std::string expected() const { return path + format("/collctl-{}", ::geteuid()); }
  std::string path;
};

mode_t mode_of(const std::string& path) {
  struct stat s {};
  REQUIRE(::lstat(path.c_str(), &s) == 0);
  REQUIRE(s.st_uid == ::geteuid());
  return s.st_mode & 07777;
}

// The pid of a process that is gone.
int gone() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  REQUIRE(::waitpid(pid, nullptr, 0) == pid);
  return pid;
}

}  // namespace

TEST_CASE("the folder for sockets is this user's alone, whatever is there already") {
  const Place place;
  CHECK(place.folder() == place.expected());
  CHECK(mode_of(place.expected()) == 0700);
  CHECK(place.folder() == place.expected());
  REQUIRE(::chmod(place.expected().c_str(), 0755) == 0);
  const std::string other = place.folder();
  CHECK(other != place.expected());
  CHECK(mode_of(other) == 0700);
  fs::remove(place.expected());
  const fs::path elsewhere = fs::path(place.path) / "elsewhere";
  fs::create_directory(elsewhere);
  REQUIRE(::chmod(elsewhere.c_str(), 0700) == 0);
  fs::create_directory_symlink(elsewhere, place.expected());
  CHECK(place.folder() != place.expected());
}

TEST_CASE("another user's folder is not one for sockets", "[may_skip]") {
  if (::geteuid() != 0) return collctl::test::skip("only root can give a folder to another user");
  const Place place;
  REQUIRE(::mkdir(place.expected().c_str(), 0700) == 0);
  REQUIRE(::chown(place.expected().c_str(), 4711, 4711) == 0);
  CHECK(place.folder() != place.expected());
  CHECK(mode_of(place.folder()) == 0700);
}

TEST_CASE("where no folder can be made the first place is named") {
  const char* const places[] = {"/proc/1/no-such", "/proc/2/no-such"};
  const auto made = base::socket_folder(places);
  REQUIRE_FALSE(made.ok());
  CHECK(made.error().code == ErrorCode::unavailable);
  CHECK(made.error().chain().find("/proc/1/no-such") != std::string::npos);
}

TEST_CASE("sockets of processes that are gone are removed, those of others are not") {
  const Place place;
  const std::string folder = place.folder();
  const std::string mine = base::socket_path(folder, 7);
  const std::string left = format("{}/{:x}-{}-7", folder, base::pid_namespace(), gone());
  const std::string foreign = format("{}/{:x}-{}-7", folder, base::pid_namespace() + 1, gone());
  for (const std::string& path : {mine, left, foreign}) std::ofstream(path) << "";
  base::tidy_socket_folder(folder.c_str());
  CHECK(fs::exists(mine));
  CHECK_FALSE(fs::exists(left));
  CHECK(fs::exists(foreign));
  fs::remove(mine);
  fs::remove(foreign);
  base::tidy_socket_folder(folder.c_str());
  CHECK_FALSE(fs::exists(folder));
}

}  // namespace socket_folder_tests
