// The SSH configuration: the reader of `ssh -G`, jump hosts.
#include <pwd.h>
#include <unistd.h>

#include <random>

#include "base/env.h"
#include "launcher/ssh/config.h"
#include "tests/catch.h"
#include "tests/skip.h"

namespace ssh_ssh_config_tests {

using namespace collctl;
using launcher::ConfigPlace;
using launcher::ResolvedHost;

namespace {

ConfigPlace place(const std::string& name) {
  return {name, "me", "/home/me", "/run/agent"};
}

ResolvedHost resolved(const std::string& text) {
  return launcher::parse_resolved(text, place("node01"));
}

}  // namespace

TEST_CASE("ssh config: nothing said gives the defaults") {
  const ResolvedHost host = resolved("");
  CHECK(host.host == "node01");
  CHECK(host.port == 22);
  CHECK(host.user == "me");
  CHECK(host.identity_agent == "/run/agent");
  CHECK(host.jumps.empty());
  CHECK(host.identity_files.front() == "/home/me/.ssh/id_rsa");
  CHECK(host.user_known_hosts.front() == "/home/me/.ssh/known_hosts");
  CHECK(host.global_known_hosts.front() == "/etc/ssh/ssh_known_hosts");
}

TEST_CASE("ssh config: home and user are the password database's, whatever the environment says",
          "[may_skip]") {
  const passwd* const me = ::getpwuid(::geteuid());
  if (me == nullptr) collctl::test::skip("this user has no entry in the password database");
  const collctl::base::ScopedVariable home("HOME", "/elsewhere"), user("USER", "somebody");
  const auto place = launcher::config_place("node01");
  CHECK(place.home == me->pw_dir);
  CHECK(place.local_user == me->pw_name);
  CHECK(place.name == "node01");
}

TEST_CASE("ssh -G: none switches off, tokens are expanded, of other values the first counts") {
  const ResolvedHost host = resolved(
      "user first\nuser second\nport nine\nidentityagent none\nidentitiesonly yes\n"
      "identityfile ~/.ssh/one\nidentityfile %d/.ssh/two words\nidentityfile /keys/%r-%%\n"
      "userknownhostsfile none\nproxyjump none\nproxycommand none\ncertificatefile none\n"
      "hostkeyalias alias\n");
  CHECK(host.user == "first");
  CHECK(host.port == 22);
  CHECK(host.identity_agent.empty());
  CHECK(host.identities_only);
  CHECK(host.identity_files ==
        std::vector<std::string>{"/home/me/.ssh/one", "/home/me/.ssh/two words", "/keys/first-%"});
  CHECK(host.user_known_hosts.empty());
  CHECK(host.jumps.empty());
  CHECK(host.proxy_command.empty());
  CHECK_FALSE(host.certificates);
  CHECK(host.host_key_alias == "alias");
  CHECK(resolved("proxycommand nc %h %p\ncertificatefile ~/c\n").proxy_command == "nc %h %p");
  CHECK(resolved("certificatefile ~/c\n").certificates);
  CHECK(resolved("identityagent ~/agent\n").identity_agent == "/home/me/agent");
}

TEST_CASE("ssh -G: its output is read") {
  const ResolvedHost host = launcher::parse_resolved(
      "host far\nuser root\nhostname 10.0.0.7\nport 2222\nidentitiesonly no\n"
      "identityfile ~/.ssh/id_a\nidentityfile /k/id_b\nproxyjump j1,j2\n"
      "userknownhostsfile /h/known_hosts /h/known_hosts2\nglobalknownhostsfile /etc/g\n"
      "identityagent SSH_AUTH_SOCK\nstricthostkeychecking ask\n",
      place("far"));
  CHECK(host.host == "10.0.0.7");
  CHECK(host.user == "root");
  CHECK(host.port == 2222);
  CHECK(host.identity_files == std::vector<std::string>{"/home/me/.ssh/id_a", "/k/id_b"});
  CHECK(host.jumps == std::vector<std::string>{"j1", "j2"});
  CHECK(host.user_known_hosts == std::vector<std::string>{"/h/known_hosts", "/h/known_hosts2"});
  CHECK(host.identity_agent == "/run/agent");
}

TEST_CASE("jump hosts") {
  const auto good = [](const char* text, const char* user, const char* host, int port) {
    const auto jump = launcher::parse_jump(text);
    REQUIRE(jump.has_value());
    CHECK(jump->user == user);
    CHECK(jump->host == host);
    CHECK(jump->port == port);
  };
  good("gw", "", "gw", 0);
  good("me@gw:2222", "me", "gw", 2222);
  good("me@[fe80::1]:22", "me", "fe80::1", 22);
  good("[fe80::1]", "", "fe80::1", 0);
  good("fe80::1", "", "fe80::1", 0);
  good("ssh://a@b:1", "a", "b", 1);
  for (const char* text :
       {"", "@gw", "gw:", "gw:0", "gw:70000", "gw:x", "[fe80::1", "[a]b", "-o", "[a]:", "a@"})
    CHECK(!launcher::parse_jump(text).has_value());
}

TEST_CASE("ssh config: any bytes are survived") {
  std::mt19937 random(7);
  const std::string pieces[] = {"hostname ", "port ",
                                "22",        "\n",
                                " ",         "=",
                                "\"",        "%h",
                                "%",         "~",
                                "[",         "identityfile ",
                                "proxyjump", std::string(1, 0),
                                ",",         "@",
                                "]:",        "\xff"};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (unsigned i = random() % 20; i > 0; --i) text += pieces[random() % std::size(pieces)];
    const ResolvedHost host = resolved(text);
    CHECK(host.port >= 1);
    CHECK_FALSE(host.host.empty());
    if (const auto jump = launcher::parse_jump(text)) CHECK_FALSE(jump->host.empty());
  }
}

}  // namespace ssh_ssh_config_tests
