// known_hosts: parsing, matching, verdicts, appending; private key files.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "launcher/ssh/key_file.h"
#include "launcher/ssh/known_hosts.h"
#include "tests/catch.h"

namespace ssh_ssh_known_hosts_tests {

using namespace collctl;
using Kind = launcher::HostKeyVerdict::Kind;

namespace {

// A key of 32 equal bytes.
std::string blob(const std::string& type, uint8_t fill) {
  Bytes bytes = {0, 0, 0, uint8_t(type.size())};
  bytes.insert(bytes.end(), type.begin(), type.end());
  bytes.insert(bytes.end(), {0, 0, 0, 32});
  bytes.insert(bytes.end(), 32, fill);
  return launcher::base64(bytes);
}
const std::string kEd = "ssh-ed25519", kEcdsa = "ecdsa-sha2-nistp256";

struct Folder {
  char path[32] = "/tmp/collctl-test-XXXXXX";
  Folder() { REQUIRE(::mkdtemp(path) != nullptr); }
  ~Folder() {
    const std::string command = std::string("rm -rf ") + path;
    CHECK(std::system(command.c_str()) == 0);
  }
  std::string file(const std::string& name) const { return std::string(path) + "/" + name; }
};

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("known_hosts: names, patterns, ports, negation, case") {
  using launcher::names_host;
  CHECK(names_host("node01", "node01"));
  CHECK(names_host("a,node01,b", "node01"));
  CHECK(names_host("NODE01", "node01"));
  CHECK(names_host("node*", "node01"));
  CHECK(names_host("node0?", "node01"));
  CHECK(!names_host("node0?", "node012"));
  CHECK(!names_host("node*,!node01", "node01"));
  CHECK(names_host("node*,!node01", "node02"));
  CHECK(!names_host("", "node01"));
  CHECK(!names_host("node01", "[node01]:2222"));
  CHECK(names_host("[node01]:2222", launcher::known_host_name("node01", 2222)));
  CHECK(launcher::known_host_name("node01", 22) == "node01");
  // Many stars must not take for ever.
  CHECK(!names_host(std::string(200, '*') + "x", std::string(5000, 'a')));
}

TEST_CASE("known_hosts: hashed names") {
  // ssh-keygen -H made these for "node01" and "[node01]:2222".
  CHECK(!launcher::names_host("|1|AAAA|BBBB", "node01"));
  CHECK(!launcher::names_host("|1|", "node01"));
  CHECK(!launcher::names_host("|1||", "node01"));
  const Folder folder;
  const std::string file = folder.file("known");
  std::ofstream(file) << "node01 " << kEd << " " << blob(kEd, 1) << "\n[node01]:2222 " << kEd << " "
                      << blob(kEd, 2) << "\n";
  if (std::system(("ssh-keygen -q -H -f " + file + " >/dev/null 2>&1").c_str()) != 0) return;
  const auto keys = launcher::read_known_hosts({file});
  REQUIRE(keys.ok());
  REQUIRE(keys->size() == 2);
  CHECK((*keys)[0].hosts.rfind("|1|", 0) == 0);
  CHECK(launcher::judge_host_key(*keys, "node01", kEd, blob(kEd, 1)).kind == Kind::match);
  CHECK(launcher::judge_host_key(*keys, "[node01]:2222", kEd, blob(kEd, 2)).kind == Kind::match);
  CHECK(launcher::judge_host_key(*keys, "[node01]:2222", kEd, blob(kEd, 1)).kind == Kind::changed);
  CHECK(launcher::judge_host_key(*keys, "node02", kEd, blob(kEd, 1)).kind == Kind::unknown);
}

TEST_CASE("known_hosts: verdicts") {
  const auto keys = launcher::parse_known_hosts(
      "# comment\n\nnode01 " + kEd + " " + blob(kEd, 1) + " a comment\n@revoked * " + kEd + " " +
          blob(kEd, 9) + "\nnode02 " + kEcdsa + " " + blob(kEcdsa, 2) + "\n@cert-authority * " +
          kEd + " " + blob(kEd, 5) + "\nnode01 " + kEd + " " + blob(kEd, 3) + "\n",
      "f");
  REQUIRE(keys.size() == 5);
  CHECK(keys[0].where == "f:3");
  const auto judge = [&](const char* name, uint8_t fill) {
    return launcher::judge_host_key(keys, name, kEd, blob(kEd, fill));
  };
  CHECK(judge("node01", 1).kind == Kind::match);
  CHECK(judge("node01", 3).kind == Kind::match);  // either of two
  CHECK(judge("node01", 2).kind == Kind::changed);
  CHECK(judge("node01", 2).entry->where == "f:3");
  CHECK(judge("node01", 9).kind == Kind::revoked);
  CHECK(judge("new", 9).kind == Kind::revoked);
  CHECK(judge("new", 1).kind == Kind::unknown);
  CHECK(judge("new", 5).kind == Kind::unknown);  // an authority's own key is no host key
  CHECK(launcher::authority_of(keys, "new")->where == "f:6");
  CHECK(launcher::authority_of(launcher::parse_known_hosts(
                                   "@cert-authority *.a " + kEd + " " + blob(kEd, 5) + "\n", "f"),
                               "node01.b") == nullptr);
  CHECK(judge("node02", 2).kind == Kind::other_type);
  CHECK(launcher::known_types(keys, "node01") == std::vector<std::string>{kEd});
  CHECK(launcher::known_types(keys, "node02") == std::vector<std::string>{kEcdsa});
}

TEST_CASE("known_hosts: malformed lines are skipped") {
  const char* const lines[] = {"node01",
                               "node01 ssh-ed25519",
                               "node01 ssh-ed25519 AAAA",
                               "node01 ssh-ed25519 not*base64",
                               "node01 ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIA==",
                               "@unknown node01 ssh-ed25519 AAAA",
                               "@revoked",
                               "node01 1024 35 1234567890"};
  for (const char* line : lines) CHECK(launcher::parse_known_hosts(line, "f").empty());
  std::mt19937 random(3);
  const std::string good = "node01 " + kEd + " " + blob(kEd, 1) + "\n";
  int kept = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = good + good;
    for (unsigned i = 1 + random() % 4; i > 0; --i)
      text[random() % text.size()] = char(random() % 256);
    for (const auto& key : launcher::parse_known_hosts(text, "f")) {
      ++kept;
      launcher::names_host(key.hosts, "node01");
      CHECK(launcher::from_base64(key.blob).has_value());
    }
  }
  CHECK(kept > 1000);
}

TEST_CASE("known_hosts: base64 and fingerprints") {
  CHECK(launcher::base64({}) == "");
  CHECK(!launcher::from_base64("").has_value());
  CHECK(!launcher::from_base64("abc").has_value());
  CHECK(!launcher::from_base64("a===").has_value());
  CHECK(!launcher::from_base64("ab=c").has_value());
  for (size_t size = 1; size < 50; ++size) {
    Bytes bytes;
    for (size_t i = 0; i < size; ++i) bytes.push_back(uint8_t(i * 37));
    const auto back = launcher::from_base64(launcher::base64(bytes));
    REQUIRE(back.has_value());
    CHECK(*back == bytes);
  }
  // printf abc | openssl dgst -sha256 -binary | base64
  const Bytes abc = {'a', 'b', 'c'};
  CHECK(launcher::fingerprint(abc) == "SHA256:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0");
}

TEST_CASE("known_hosts: appending makes the folder, keeps lines whole, and several may do it") {
  const Folder folder;
  const std::string file = folder.file("ssh/known_hosts");
  REQUIRE(launcher::append_known_host(file, "node00", kEd, blob(kEd, 0)).ok());
  struct stat s {};
  REQUIRE(::stat(file.c_str(), &s) == 0);
  CHECK((s.st_mode & 07777) == 0600);
  REQUIRE(launcher::append_known_host(file, "node00", kEd, blob(kEd, 0)).ok());
  CHECK(text_of(file).find('\n') == text_of(file).size() - 1);  // not twice
  std::ofstream(file, std::ios::app) << "last line without an end";
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const std::string name = "t" + std::to_string(t) + "-" + std::to_string(i);
        // The lock is not fair: on a slow machine one may wait longer than the product does.
        const Deadline deadline = Deadline::after_seconds(60);
        while (!launcher::append_known_host(file, name, kEd, blob(kEd, 7)))
          if (deadline.passed()) std::abort();
      }
    });
  for (auto& thread : threads) thread.join();
  const auto keys = launcher::read_known_hosts({file, folder.file("missing")});
  REQUIRE(keys.ok());
  std::set<std::string> names;
  for (const auto& key : *keys) names.insert(key.hosts);
  CHECK(names.size() == 41);
  CHECK(text_of(file).find("an end\nt") != std::string::npos);
  CHECK(!launcher::append_known_host("/proc/none/known_hosts", "x", kEd, blob(kEd, 0)).ok());
  CHECK(launcher::fingerprint_of_line(file + ":1") ==
        launcher::host_key_name(kEd, blob(kEd, 0)).fingerprint);
  CHECK(launcher::fingerprint_of_line(file + ":2").empty());
}

TEST_CASE("key files: kind, encryption, permissions") {
  using State = launcher::KeyFile::State;
  const Folder folder;
  CHECK(launcher::inspect_key(folder.file("none")).state == State::missing);
  const std::string plain = folder.file("plain"), locked = folder.file("locked");
  std::ofstream(folder.file("text")) << "hello";
  ::chmod(folder.file("text").c_str(), 0600);
  CHECK(launcher::inspect_key(folder.file("text")).state == State::unknown_format);
  CHECK(launcher::inspect_key(folder.path).state == State::unreadable);
  if (std::system(("ssh-keygen -q -t ed25519 -N '' -f " + plain).c_str()) != 0) return;
  REQUIRE(std::system(("ssh-keygen -q -t rsa -b 2048 -N secret -f " + locked).c_str()) == 0);
  auto key = launcher::inspect_key(plain);
  CHECK(key.state == State::good);
  CHECK(key.type == kEd);
  CHECK(!key.encrypted);
  CHECK(!key.public_blob.empty());
  key = launcher::inspect_key(locked);
  CHECK(key.state == State::good);
  CHECK(key.is_rsa);
  CHECK(key.encrypted);
  REQUIRE(std::system(("ssh-keygen -q -p -m PEM -P secret -N secret -f " + locked + " >/dev/null")
                          .c_str()) == 0);
  key = launcher::inspect_key(locked);
  CHECK(key.is_rsa);
  CHECK(key.encrypted);
  ::chmod(plain.c_str(), 0644);
  CHECK(launcher::inspect_key(plain).state == State::exposed);
  // Cut and changed keys.
  const std::string text = text_of(plain);
  std::mt19937 random(5);
  for (int round = 0; round < 5000; ++round) {
    std::string bad = text.substr(0, random() % (text.size() + 1));
    for (unsigned i = random() % 3; i > 0 && !bad.empty(); --i)
      bad[random() % bad.size()] = char(random() % 256);
    launcher::inspect_key_text(bad, bad);
  }
  CHECK(launcher::inspect_key_text(text.substr(0, text.size() / 2), "").state ==
        State::unknown_format);
}

}  // namespace ssh_ssh_known_hosts_tests
