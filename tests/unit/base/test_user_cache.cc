#include "base/user_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/env.h"
#include "tests/catch.h"
#include "tests/skip.h"

namespace user_cache_tests {

using namespace collctl;
namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() {
    char name[] = "/tmp/collctl-cache-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

int mode_of(const fs::path& path) {
  struct stat found {};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  return int(found.st_mode & 07777);
}

}  // namespace

TEST_CASE("the user's cache is where the variables say, and private") {
  const Folder folder;
  const std::string root = folder.path / "cache";
  {
    const base::ScopedVariable home("HOME", folder.path), none("XDG_CACHE_HOME", "");
    CHECK(base::cache_path("x") == folder.path.string() + "/.cache/collctl/x");
    const base::ScopedVariable relative("XDG_CACHE_HOME", "cache");
    CHECK(base::cache_path("x") == folder.path.string() + "/.cache/collctl/x");
  }
  {
    const base::ScopedVariable home("HOME", ""), none("XDG_CACHE_HOME", "");
    CHECK(base::cache_path("x").empty());
    CHECK_FALSE(base::write_cached("x", "y"));
    const auto read = base::read_cached("x", 10);
    REQUIRE(read.ok());
    CHECK_FALSE(read->has_value());
  }
  const base::ScopedVariable set("XDG_CACHE_HOME", root);
  CHECK(base::cache_path("x") == root + "/collctl/x");
  REQUIRE(base::read_cached("x", 10).ok());
  CHECK_FALSE(fs::exists(root));  // reading makes nothing
  REQUIRE(base::write_cached("x", "twelve bytes"));
  CHECK(mode_of(root) == 0700);
  CHECK(mode_of(root + "/collctl") == 0700);
  CHECK(mode_of(root + "/collctl/x") == 0600);
  CHECK(*base::read_cached("x", 12) == "twelve bytes");
  const auto longer = base::read_cached("x", 11);
  REQUIRE_FALSE(longer.ok());
  CHECK(longer.error().message.find("longer than 11 bytes") != std::string::npos);
  REQUIRE(base::write_cached("x", "anew"));
  CHECK(*base::read_cached("x", 12) == "anew");
  REQUIRE(base::try_cached("x", 4096));
  CHECK(*base::read_cached("x", 12) == "anew");
  CHECK(std::distance(fs::directory_iterator(root + "/collctl"), {}) == 1);
}

TEST_CASE("what others may have written in the cache is not taken") {
  const Folder folder;
  const base::ScopedVariable set("XDG_CACHE_HOME", folder.path);
  REQUIRE(base::write_cached("x", "text"));
  const std::string own = folder.path / "collctl", file = own + "/x";
  REQUIRE(::chmod(file.c_str(), 0666) == 0);
  CHECK(base::read_cached("x", 10).error().message.find("others may write it") !=
        std::string::npos);
  fs::remove(file);
  fs::create_symlink("/dev/zero", file);
  CHECK_FALSE(base::read_cached("x", 10).ok());
  fs::remove(file);
  REQUIRE(::chmod(own.c_str(), 0777) == 0);
  CHECK_FALSE(base::write_cached("x", "text"));
  CHECK_FALSE(base::try_cached("x", 10));
  CHECK(fs::is_empty(own));
  fs::remove(own);
  std::ofstream(own) << "a file";
  CHECK(base::write_cached("x", "text").error().message.find("not a folder") != std::string::npos);
  if (::geteuid() != 0) test::skip("another user's file needs root");
  fs::remove(own);
  REQUIRE(base::write_cached("x", "text"));
  REQUIRE(::chown(file.c_str(), 12345, 12345) == 0);
  CHECK(base::read_cached("x", 10).error().message.find("it belongs to user 12345") !=
        std::string::npos);
}

}  // namespace user_cache_tests
