#include "base/own_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "tests/catch.h"
#include "tests/skip.h"

namespace own_file_tests {

using namespace collctl;
namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() {
    char name[] = "/tmp/collctl-own-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void is_refused(const std::string& path, const char* why) {
  for (const bool append : {false, true}) {
    const auto fd = base::open_own_file(path, append);
    REQUIRE_FALSE(fd.ok());
    CHECK(fd.error().code == ErrorCode::unavailable);
    CHECK(fd.error().message.find(why) != std::string::npos);
    CHECK(fd.error().message.find(path) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("files are written anew or behind, never through somebody's link") {
  const Folder folder;
  const std::string file = folder.path / "file", victim = folder.path / "victim";
  std::ofstream(victim) << "precious";
  for (const bool append : {false, true, false}) {
    auto fd = base::open_own_file(file, append);
    REQUIRE(fd.ok());
    REQUIRE(::write(fd->get(), "abc", 3) == 3);
  }
  CHECK(text_of(file) == "abc");
  const std::string link = folder.path / "link", hard = folder.path / "hard";
  fs::create_symlink(victim, link);
  is_refused(link, "symbolic link");
  fs::create_symlink(folder.path / "new", folder.path / "dangling");
  is_refused(folder.path / "dangling", "symbolic link");
  CHECK_FALSE(fs::exists(folder.path / "new"));
  fs::create_hard_link(victim, hard);
  is_refused(hard, "2 names");
  CHECK(text_of(victim) == "precious");
  CHECK(base::open_own_file("/dev/stderr", true).ok());
  CHECK(base::open_own_file("/dev/null", false).ok());
  // The log's file is opened so.
  const Status log = base::log_configure({.file = link}, 0);
  REQUIRE_FALSE(log.ok());
  CHECK(log.error().chain().find("symbolic link") != std::string::npos);
}

TEST_CASE("another user's file is left alone", "[may_skip]") {
  if (::geteuid() != 0) return collctl::test::skip("only root can give files to another user");
  const Folder folder;
  const std::string file = folder.path / "file";
  std::ofstream(file) << "theirs";
  REQUIRE(::chown(file.c_str(), 4711, 4711) == 0);
  is_refused(file, "belongs to user 4711");
  CHECK(text_of(file) == "theirs");
}

}  // namespace own_file_tests
