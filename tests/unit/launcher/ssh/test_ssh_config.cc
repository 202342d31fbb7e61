// The SSH configuration: our own parser, the reader of `ssh -G`, jump hosts.
#include <map>
#include <random>

#include "launcher/ssh/config.h"
#include "tests/catch.h"

using namespace collctl;
using launcher::ConfigFiles;
using launcher::ConfigPlace;
using launcher::ResolvedHost;

namespace {

ConfigPlace place(const std::string& name) {
  return {name, "me", "/home/me", "/run/agent"};
}

Result<ResolvedHost> resolve(const std::string& name, std::map<std::string, std::string> texts,
                             const std::string& user = "", int port = 0) {
  ConfigFiles files;
  files.files = {"/home/me/.ssh/config", "/etc/ssh/ssh_config"};
  files.user = user;
  files.port = port;
  files.read = [&](const std::string& path) -> std::optional<std::string> {
    const auto found = texts.find(path);
    if (found == texts.end()) return std::nullopt;
    return found->second;
  };
  files.glob = [&](const std::string& pattern) {
    std::vector<std::string> names;
    for (const auto& [path, text] : texts)
      if (launcher::matches_pattern(pattern, path)) names.push_back(path);
    return names;
  };
  return launcher::resolve_config(place(name), files);
}

ResolvedHost resolve_user(const std::string& name, const std::string& text) {
  auto host = resolve(name, {{"/home/me/.ssh/config", text}});
  REQUIRE(host.ok());
  return host.value();
}

}  // namespace

TEST_CASE("ssh config: nothing said gives the defaults") {
  const ResolvedHost host = resolve_user("node01", "");
  CHECK(host.host == "node01");
  CHECK(host.port == 22);
  CHECK(host.user == "me");
  CHECK(host.identity_agent == "/run/agent");
  CHECK(host.jumps.empty());
  CHECK(host.identity_files.front() == "/home/me/.ssh/id_rsa");
  CHECK(host.user_known_hosts.front() == "/home/me/.ssh/known_hosts");
  CHECK(host.global_known_hosts.front() == "/etc/ssh/ssh_known_hosts");
}

TEST_CASE("ssh config: the first value counts, identity files add up") {
  const ResolvedHost host = resolve_user("node01", R"(
# a comment
Host node*  !node02
  HostName %h.cluster
  User first
  Port = 2222
  IdentityFile ~/.ssh/one
  IdentityFile "%d/.ssh/two words"
Host *
  User second
  Port 24
  IdentityFile /keys/%r
  IdentityAgent none
  IdentitiesOnly yes
  UserKnownHostsFile ~/.ssh/a "/b c"
)");
  CHECK(host.host == "node01.cluster");
  CHECK(host.user == "first");
  CHECK(host.port == 2222);
  CHECK(host.identity_files ==
        std::vector<std::string>{"/home/me/.ssh/one", "/home/me/.ssh/two words", "/keys/first"});
  CHECK(host.identity_agent.empty());
  CHECK(host.identities_only);
  CHECK(host.user_known_hosts == std::vector<std::string>{"/home/me/.ssh/a", "/b c"});
}

TEST_CASE("ssh config: patterns, negation, Match") {
  const char* text = R"(
Host a? !ab
  User one
Match host ab
  User never
Match all
  Port 99
)";
  CHECK(resolve_user("aa", text).user == "one");
  CHECK(resolve_user("ab", text).user == "me");
  CHECK(resolve_user("abc", text).user == "me");
  CHECK(resolve_user("ab", text).port == 99);
  // What stands before the first Host is for all.
  CHECK(resolve_user("x", "User all\nHost y\nUser y\n").user == "all");
}

TEST_CASE("ssh config: the command line comes first, the user's file before the system's") {
  const std::map<std::string, std::string> texts = {
      {"/home/me/.ssh/config", "Host n\n User mine\n"},
      {"/etc/ssh/ssh_config", "User system\nPort 2200\n"}};
  CHECK(resolve("n", texts)->user == "mine");
  CHECK(resolve("n", texts)->port == 2200);
  CHECK(resolve("m", texts)->user == "system");
  CHECK(resolve("n", texts, "asked", 77)->user == "asked");
  CHECK(resolve("n", texts, "asked", 77)->port == 77);
}

TEST_CASE("ssh config: Include") {
  const std::map<std::string, std::string> texts = {
      {"/home/me/.ssh/config", "Host in\n Include conf.d/*\nHost *\n Port 5\n"},
      {"/home/me/.ssh/conf.d/1", "User one\nHost other\n Port 1\n"},
      {"/home/me/.ssh/conf.d/2", "User two\nPort 2\n"}};
  CHECK(resolve("in", texts)->user == "one");
  CHECK(resolve("in", texts)->port == 2);
  CHECK(resolve("out", texts)->user == "me");
  // A Host inside the included file does not reach out of the block that includes it.
  CHECK(resolve("other", texts)->port == 5);
  const auto circle = resolve("x", {{"/home/me/.ssh/config", "Include config\n"}});
  REQUIRE(!circle.ok());
  CHECK(circle.error().code == ErrorCode::usage);
}

TEST_CASE("ssh config: mistakes have a place") {
  auto bad = resolve("x", {{"/home/me/.ssh/config", "User a\nPort nine\n"}});
  REQUIRE(!bad.ok());
  CHECK(bad.error().message.find("/home/me/.ssh/config:2") != std::string::npos);
  bad = resolve("x", {{"/home/me/.ssh/config", "User\n"}});
  REQUIRE(!bad.ok());
  CHECK(bad.error().message.find(":1") != std::string::npos);
  // Not for this host: not our business.
  CHECK(resolve("x", {{"/home/me/.ssh/config", "Host y\nPort nine\n"}}).ok());
}

TEST_CASE("ssh config: what only ssh itself can resolve is noticed") {
  CHECK(
      !resolve_user("x", "Host *\nUser %u\nMatch all\nPort 1\nProxyCommand nc %k\n").beyond_parser);
  CHECK(resolve_user("x", "Match exec true\nPort 1\n").beyond_parser);
  CHECK(resolve_user("x", "CanonicalizeHostname yes\n").beyond_parser);
  CHECK(resolve_user("x", "IdentityFile ~/%C\n").beyond_parser);
  CHECK(resolve_user("x", "IdentityAgent ${AGENT}\n").beyond_parser);
  CHECK(!resolve_user("x", "Host y\nIdentityFile ~/%C\n").beyond_parser);
}

TEST_CASE("ssh config: jumps and proxy commands, the first of them wins") {
  CHECK(resolve_user("x", "ProxyJump a,u@b:2\nProxyCommand nc %h\n").jumps ==
        std::vector<std::string>{"a", "u@b:2"});
  CHECK(resolve_user("x", "ProxyJump a\nProxyCommand nc %h\n").proxy_command.empty());
  CHECK(resolve_user("x", "ProxyCommand nc %h\nProxyJump a\n").jumps.empty());
  CHECK(resolve_user("x", "Host x\nProxyJump none\nHost *\nProxyJump a\n").jumps.empty());
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
  const std::string pieces[] = {"Host ",
                                "Match ",
                                "all",
                                "Include ",
                                "Port ",
                                "22",
                                "\n",
                                " ",
                                "=",
                                "\"",
                                "%h",
                                "%",
                                "~",
                                "*",
                                "!",
                                "?",
                                "IdentityFile ",
                                "#",
                                std::string(1, '\0'),
                                "\xff",
                                "ProxyJump ",
                                ",",
                                "User "};
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (unsigned i = random() % 20; i > 0; --i) text += pieces[random() % std::size(pieces)];
    const auto host = resolve("node01", {{"/home/me/.ssh/config", text}});
    if (!host.ok()) {
      CHECK(host.error().code == ErrorCode::usage);
      continue;
    }
    ++accepted;
    CHECK(host->port >= 1);
    launcher::parse_resolved(text, place("x"));
    launcher::parse_jump(text);
  }
  CHECK(accepted > 1000);
}
