// Tokens: which are taken, from where, and how ranks of one user find each other without one.
#include "cmd/job/token.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/socket_folder.h"
#include "tests/catch.h"
#include "tests/own_loopback.h"
#include "tests/skip.h"

namespace job_token_tests {

using namespace collctl;
using namespace collctl::cmd;
namespace fs = std::filesystem;

namespace {

struct TokenFile {
  TokenFile() {
    char name[] = "/tmp/collctl-token-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    folder = name;
    path = folder + "/token";
  }
  ~TokenFile() { fs::remove_all(folder); }
  void holds(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(path) << text;
    REQUIRE(::chmod(path.c_str(), mode) == 0);
  }
  void is_refused(const char* why) const {
    const auto token = given_token(path, 0.2);
    REQUIRE_FALSE(token.ok());
    INFO(token.error().message);
    CHECK(token.error().code == ErrorCode::usage);
    CHECK(token.error().message.find(why) != std::string::npos);
  }
  std::string folder, path;
};

const std::string kGood = "sixteen-letters!";

}  // namespace

TEST_CASE("a token file is its user's alone and holds enough", "[token]") {
  const TokenFile file;
  file.holds(kGood + "\r\n");
  CHECK(*given_token(file.path) == kGood);
  file.holds(kGood.substr(1));
  file.is_refused("has 15 characters: at least 16");
  file.holds(" \n");
  file.is_refused("is empty");
  file.holds(std::string(5000, 'x'));
  file.is_refused("longer than 4096");
  for (const mode_t mode : {0604, 0640, 0620, 0602}) {
    file.holds(kGood, mode);
    file.is_refused("others may read or write it");
  }
  CHECK_FALSE(given_token(file.folder).ok());
}

TEST_CASE("another user's token file is refused", "[token][may_skip]") {
  if (::geteuid() != 0) return collctl::test::skip("only root can give files to another user");
  const TokenFile file;
  file.holds(kGood);
  REQUIRE(::chown(file.path.c_str(), 4711, 4711) == 0);
  file.is_refused("belongs to user 4711");
}

TEST_CASE("a pipe may bring the token, within its time", "[token]") {
  const TokenFile file;
  REQUIRE(::mkfifo(file.path.c_str(), 0600) == 0);
  file.is_refused("nobody has written a token");
  std::thread writer([&] {
    const base::Fd fd(::open(file.path.c_str(), O_WRONLY | O_CLOEXEC));
    for (const char c : kGood)
      if (::write(fd.get(), &c, 1) != 1) return;
  });
  const auto token = given_token(file.path, 30);
  writer.join();
  REQUIRE(token.ok());
  CHECK(*token == kGood);
}

TEST_CASE("new tokens are long enough and never the same", "[token]") {
  const auto one = new_token(), other = new_token();
  REQUIRE((one.ok() && other.ok()));
  CHECK(one->size() == 32);
  CHECK(*one != *other);
}

TEST_CASE("on loopback ranks of one user find rank 0's secret, others do not", "[token]") {
  Address at = test::own_loopback();
  at.set_port(40123);
  const auto never = [] { return false; };
  auto nobody = find_local_token(at, Deadline::after_ms(30), never);
  REQUIRE_FALSE(nobody.ok());
  CHECK(nobody.error().code == ErrorCode::lost);
  CHECK(nobody.error().hint.find("COLLCTL_TOKEN") != std::string::npos);
  std::string found;
  std::thread rank_1([&] {
    const auto token = find_local_token(at, Deadline::after_seconds(60), never);
    if (token.ok()) found = *token;
  });
  {
    const auto made = LocalToken::make(at);
    REQUIRE(made.ok());
    rank_1.join();
    CHECK(found == (*made)->text());
    const auto folder = base::known_socket_folder();
    REQUIRE(folder.ok());
    CHECK((fs::status(*folder).permissions() & fs::perms(0777)) == fs::perms(0700));
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(*folder))
      if (entry.is_regular_file()) {
        ++files;
        CHECK((entry.status().permissions() & fs::perms(0777)) == fs::perms(0600));
      }
    CHECK(files >= 1);
    Address other = at;
    other.set_port(40124);
    CHECK_FALSE(find_local_token(other, Deadline::after_ms(30), never).ok());
  }
  CHECK_FALSE(find_local_token(at, Deadline::after_ms(30), never).ok());
  CHECK_FALSE(find_local_token(at, Deadline::after_seconds(60), [] { return true; }).ok());
}

}  // namespace job_token_tests
