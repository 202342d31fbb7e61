// The messages of the system's ssh, and a server's offers: turned into causes.
#include <random>

#include "base/shell.h"
#include "launcher/ssh/clients.h"
#include "launcher/ssh/kexinit.h"
#include "launcher/ssh/openssh_command.h"
#include "launcher/ssh/openssh_log.h"
#include "tests/catch.h"

namespace ssh_ssh_log_tests {

using namespace collctl;
using launcher::AlgorithmLists;
using launcher::KexInitListener;
using launcher::OpensshLog;
using launcher::Stage;

namespace {

Error explained(const std::string& log) {
  OpensshLog reader;
  reader.feed(log);
  return reader.explain(
      {"node01", "me", 10, 22, [](const std::string&) { return std::string("SHA256:known"); }});
}

bool says(const Error& e, const std::string& words) {
  return e.message.find(words) != std::string::npos;
}

const std::string kConnected =
    "debug1: Connecting to node01 [10.0.0.7] port 22.\r\ndebug1: Connection established.\r\n";
const std::string kKey =
    "debug1: Remote protocol version 2.0, remote software version OpenSSH_9.2\n"
    "debug1: Server host key: ssh-ed25519 SHA256:shown\n";

ByteView view(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string number(size_t n) {
  return {char(n >> 24), char(n >> 16), char(n >> 8), char(n)};
}

std::string kexinit(const std::vector<std::string>& lists) {
  std::string payload = std::string(1, char(20)) + std::string(16, 'c');
  for (const std::string& list : lists) payload += number(list.size()) + list;
  payload += std::string(5, '\0');
  const std::string padding(8, '\0');
  return number(payload.size() + 1 + padding.size()) + char(padding.size()) + payload + padding;
}

const std::vector<std::string> kLists = {"curve25519-sha256,ext-info-s",
                                         "ssh-ed25519,rsa-sha2-512",
                                         "aes128-ctr",
                                         "aes256-ctr",
                                         "hmac-sha2-256",
                                         "m",
                                         "none",
                                         "none",
                                         "",
                                         ""};

}  // namespace

TEST_CASE("ssh's log: phases, address, key") {
  OpensshLog log;
  CHECK(log.stage() == Stage::configuration);
  log.feed("debug1: Connecting to node01 [fd00::7] port 22");
  log.feed("22.\r\n");
  CHECK(log.stage() == Stage::tcp);
  CHECK(log.address() == "[fd00::7]:2222");
  log.feed("debug1: Connection established.\n");
  CHECK(log.stage() == Stage::banner);
  log.feed(kKey);
  CHECK(log.stage() == Stage::host_key);
  log.feed("debug1: SSH2_MSG_SERVICE_ACCEPT received\n");
  CHECK(log.stage() == Stage::authentication);
  log.feed(
      "debug1: Server accepts key: /k/id ED25519 SHA256:x\nAuthenticated to n ([1]:22) using "
      "\"publickey\".\n");
  CHECK(log.stage() == Stage::command);
  CHECK(log.authenticated_by() == "key /k/id");
  CHECK(!log.command_ended());
  log.feed("debug1: client_input_channel_req: channel 0 rtype exit-status reply 0\n");
  CHECK(log.command_ended());
}

TEST_CASE("ssh's log: causes") {
  Error e = explained(kConnected + kKey +
                      "No ED25519 host key is known for node01 and you have requested strict "
                      "checking.\nHost key verification failed.\n");
  CHECK(e.code == ErrorCode::launch);
  CHECK(e.host == "node01");
  CHECK(says(e, "unknown: ED25519 key SHA256:shown"));
  e = explained(kConnected + kKey +
                "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n"
                "Offending ECDSA key in /h/known_hosts:7\nHost key verification failed.\n");
  CHECK(says(e, "SHA256:shown"));
  CHECK(says(e, "/h/known_hosts:7 has ECDSA key SHA256:known"));
  e = explained("ssh: Could not resolve hostname node01: Name or service not known\n");
  CHECK(says(e, "does not resolve: Name or service not known"));
  e = explained(
      "debug1: Connecting to node01 [10.0.0.7] port 23.\n"
      "ssh: connect to host node01 port 23: Connection refused\n");
  CHECK(says(e, "10.0.0.7:23: connection refused"));
  e = explained(kConnected + "Connection timed out during banner exchange\n");
  CHECK(says(e, "no SSH banner (10.0.0.7:22) within 10 s"));
  e = explained(kConnected +
                "Unable to negotiate with 10.0.0.7 port 22: no matching cipher found. Their offer: "
                "a-gcm,b-gcm\n");
  CHECK(says(e, "no common cipher; the host's: a-gcm, b-gcm"));
  e = explained(kConnected + kKey +
                "debug1: SSH2_MSG_SERVICE_ACCEPT received\n"
                "debug1: Authentications that can continue: publickey,password\n"
                "debug1: Offering public key: /k/id ED25519 SHA256:x\n"
                "me@node01: Permission denied (publickey,password).\n");
  CHECK(says(e, "user me was refused by the host; tried: key /k/id"));
  CHECK(says(e, "publickey, password"));
  e = explained(kConnected + "kex_exchange_identification: read: Connection reset by peer\n");
  CHECK(says(e, "closed the connection before its SSH banner"));
  e = explained("/h/config: line 3: Bad configuration option: hots\n");
  CHECK(e.code == ErrorCode::usage);
  e = explained("something new\n");
  CHECK(says(e, "something new"));
  CHECK(says(explained(""), "without a message"));
}

TEST_CASE("ssh's log: any bytes are survived") {
  std::mt19937 random(11);
  const std::string pieces[] = {"debug1: ",
                                "Connecting to ",
                                "[",
                                "] port ",
                                "\n",
                                "Offending ",
                                " key in ",
                                "IDENTIFICATION HAS CHANGED",
                                "host key is known for ",
                                "Unable to negotiate with",
                                "no matching ",
                                "Their offer: ",
                                ",",
                                "Permission denied (",
                                std::string(1, '\0'),
                                "\xff",
                                ": connect to "};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (unsigned i = random() % 15; i > 0; --i) text += pieces[random() % std::size(pieces)];
    CHECK(explained(text).host == "node01");
  }
  OpensshLog log;
  for (int i = 0; i < 1000; ++i) log.feed(std::string(10000, 'x'));  // a line without an end
  log.feed("\n");
  CHECK(log.last_words().size() < 10000);
}

TEST_CASE("the command line of the system's ssh") {
  launcher::HostTarget target;
  target.name = "node01";
  target.jump = "a@b:2,[fd00::1]";
  launcher::ChannelOptions options;
  options.user = "u";
  options.identity = "/k/id";
  options.connect_timeout_s = 2.5;
  const auto words = launcher::openssh_command(target, options, "run 'it'", "/log");
  const auto has = [&](const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  CHECK(words[0] == "ssh");
  CHECK(has("BatchMode=yes"));
  CHECK(has("ConnectTimeout=3"));
  CHECK(has("StrictHostKeyChecking=yes"));
  CHECK(words[words.size() - 3] == "--");
  CHECK(words[words.size() - 2] == "node01");
  CHECK(words.back() == "run 'it'");
  std::string proxy;
  for (const std::string& word : words)
    if (word.rfind("ProxyCommand=", 0) == 0) proxy = word;
  CHECK(proxy.find("-W '[%h]:%p' -- 'fd00::1'") != std::string::npos);
  CHECK(proxy.find("[%%h]:%%p") != std::string::npos);  // the first hop, quoted once more
  CHECK(base::shell_quoted("it's") == "'it'\\''s'");
}

TEST_CASE("key exchange: the server's lists are read from any pieces") {
  const std::string bytes = "hello\r\nSSH-2.0-OpenSSH_9.2\r\n" + kexinit(kLists) + "more";
  for (size_t piece = 1; piece < 40; ++piece) {
    KexInitListener listener;
    for (size_t at = 0; at < bytes.size(); at += piece)
      listener.feed(view(bytes.substr(at, piece)));
    CHECK(listener.banner() == "SSH-2.0-OpenSSH_9.2");
    REQUIRE(listener.lists().has_value());
    CHECK(listener.lists()->host_key == "ssh-ed25519,rsa-sha2-512");
    CHECK(listener.lists()->cipher == "aes128-ctr");
    CHECK(listener.lists()->mac == "hmac-sha2-256");
  }
}

TEST_CASE("key exchange: malformed beginnings do no harm") {
  std::mt19937 random(13);
  const std::string good = "SSH-2.0-x\r\n" + kexinit(kLists);
  int read = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string bytes = good.substr(0, 1 + random() % good.size());
    for (unsigned i = random() % 4; i > 0; --i) bytes[random() % bytes.size()] = char(random());
    KexInitListener listener;
    listener.feed(view(bytes));
    read += listener.lists().has_value() ? 1 : 0;
  }
  CHECK(read < 50000);
  KexInitListener listener;  // never a newline
  for (int i = 0; i < 100; ++i) listener.feed(view(std::string(10000, 'x')));
  CHECK(!listener.banner_seen());
  KexInitListener huge;
  huge.feed(view("SSH-2.0-x\n" + number(0xffffffff) + "xxxx"));
  CHECK(!huge.lists().has_value());
}

TEST_CASE("key exchange: what has nothing in common") {
  AlgorithmLists ours{"curve25519-sha256,ext-info-c", "ssh-ed25519", "aes128-ctr", "hmac-sha2-256"};
  AlgorithmLists theirs = ours;
  CHECK(!launcher::find_disagreement(ours, theirs).has_value());
  theirs.cipher = "a-gcm,b-gcm";
  auto d = launcher::find_disagreement(ours, theirs);
  REQUIRE(d.has_value());
  CHECK(d->what == "cipher");
  CHECK(d->theirs == "a-gcm, b-gcm");
  theirs.kex = "sntrup,ext-info-c";  // a marker is no method
  d = launcher::find_disagreement(ours, theirs);
  REQUIRE(d.has_value());
  CHECK(d->what == "key exchange method");
}

}  // namespace ssh_ssh_log_tests
