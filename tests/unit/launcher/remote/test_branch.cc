// Hosts that an agent carries: the words between it and its launcher, and an agent that carries two
// of a kind that sends little (test_host_pool.cc).
#include "launcher/remote/branch.h"

#include "base/wait.h"
#include "tests/catch.h"

namespace remote_branch_tests {

using namespace collctl;
using namespace collctl::launcher;

namespace {

BranchOrder some_order() {
  BranchOrder order;
  order.options.tree_width = 3;
  order.options.fanout = 5;
  order.options.heartbeat_s = 7.5;
  order.options.ssh.client = SshClient::openssh;
  order.options.ssh.known_hosts = KnownHosts::accept_new;
  order.options.ssh.config_file = "config";
  order.options.ssh.user = "ops";
  order.options.ssh.port = 2222;
  order.options.ssh.identity = "~/.ssh/id";
  order.options.ssh.connect_timeout_s = 2.5;
  order.options.stage.version = "1";
  order.options.stage.hash = "abc";
  order.options.stage.path = "~/bin/collctl";
  order.options.stage.staging = Staging::never;
  order.options.stage.patience_s = 60;
  HostSpec host;
  host.id = HostId{41};
  host.name = "node07";
  host.user = "me";
  host.port = 23;
  host.key = "key";
  host.jump = "gate";
  host.path = "/opt/collctl";
  order.hosts = {host, host};
  return order;
}

struct Heard {
  AgentFrame type;
  uint32_t host;
  Bytes rest;
};

// Moves it until `done`, or a minute has passed.
template <class Done>
void drive(Branch& branch, std::vector<Heard>& heard, Done done, bool full = false) {
  const Deadline deadline = Deadline::after_seconds(60);
  const auto send = [&](AgentFrame type, ByteView payload) {
    ByteReader r(payload);
    const auto host = r.get<uint32_t>();
    heard.push_back({type, host, Bytes(payload.begin() + 4, payload.end())});
  };
  while (!done()) {
    REQUIRE_FALSE(deadline.passed());
    std::vector<pollfd> fds;
    const Deadline until = branch.add_interest(fds);
    REQUIRE(base::poll_fds(fds, until.earlier(Deadline::after_ms(20))).ok());
    branch.progress();
    branch.report(send, [&] { return full; });
  }
}

int count(const std::vector<Heard>& heard, AgentFrame type, HostPhase phase) {
  int n = 0;
  for (const Heard& h : heard)
    if (h.type == type && type == AgentFrame::above)
      ++n;
    else if (h.type == type && decoded<BranchPhase>(h.rest)->phase == phase)
      ++n;
  return n;
}

RawFrame to_host(AgentFrame how, uint32_t host, AgentFrame what) {
  ByteWriter w;
  w.put(host);
  if (how == AgentFrame::below) w.put(uint16_t(what));
  return {uint16_t(how), w.take()};
}

BranchOrder here() {
  BranchOrder order;
  order.options.tree_width = 2;
  order.options.heartbeat_s = 60;
  HostSpec host;
  host.name = "localhost";
  order.hosts = {host, host};
  return order;
}

}  // namespace

TEST_CASE("an order of a branch arrives as it was given, and no part of it alone") {
  const Bytes wire = encoded(some_order());
  const auto order = decoded<BranchOrder>(wire);
  REQUIRE(order.ok());
  CHECK(encoded(*order) == wire);
  CHECK(order->hosts[1].jump == "gate");
  CHECK(order->hosts[1].id == HostId{41});
  CHECK(order->options.ssh.connect_timeout_s == 2.5);
  for (size_t n = 0; n < wire.size(); ++n)
    CHECK_FALSE(decoded<BranchOrder>(ByteView(wire).first(n)).ok());
  BranchOrder flat = some_order();
  flat.options.tree_width = 0;
  CHECK_FALSE(decoded<BranchOrder>(encoded(flat)).ok());
}

TEST_CASE("a word about a carried host has an error when it failed, and only then") {
  Error e(ErrorCode::launch, "no answer", "look");
  e.host = "node09";
  const auto sent = [](const BranchPhase& word) { return decoded<BranchPhase>(encoded(word)); };
  const auto failed = sent({HostPhase::failed, true, "libssh2", e});
  REQUIRE(failed.ok());
  CHECK(failed->deeper);
  CHECK(failed->client == "libssh2");
  CHECK(failed->error->host == "node09");
  CHECK(failed->error->hint == "look");
  CHECK(sent({HostPhase::staging, false, "", {}})->phase == HostPhase::staging);
  CHECK_FALSE(sent({HostPhase::failed, false, "", {}}).ok());
  CHECK_FALSE(sent({HostPhase::staging, false, "", e}).ok());
  CHECK_FALSE(sent({HostPhase::up, false, "", {}}).ok());
  CHECK_FALSE(sent({HostPhase(77), false, "", {}}).ok());
}

TEST_CASE("carried agents are greeted for, dismissed and let go one by one") {
  Branch branch(here());
  std::vector<Heard> heard;
  drive(branch, heard, [&] { return count(heard, AgentFrame::above, {}) == 2; });
  for (const Heard& h : heard) {
    if (h.type != AgentFrame::above) continue;
    ByteReader r(h.rest);
    CHECK(AgentFrame(r.get<uint16_t>()) == AgentFrame::hello);
    CHECK(AgentHello::decode(ByteView(h.rest).subspan(2)).ok());
  }
  CHECK_FALSE(branch.handle(to_host(AgentFrame::below, 2, AgentFrame::beat)));
  CHECK_FALSE(branch.handle({uint16_t(AgentFrame::below), {1, 0}}));
  CHECK(branch.handle(to_host(AgentFrame::below, 1, AgentFrame::leave)));
  drive(branch, heard, [&] { return count(heard, AgentFrame::phase, HostPhase::left) == 1; });
  // The sender of a cut needs no word.
  CHECK(branch.handle(to_host(AgentFrame::cut, 0, {})));
  const size_t before = heard.size();
  const Deadline quiet = Deadline::after_ms(100);
  drive(branch, heard, [&] { return quiet.passed(); });
  CHECK(heard.size() == before);
  branch.abandon();
}

TEST_CASE("while there is no room above, carried hosts are held back") {
  Branch branch(here());
  std::vector<Heard> heard;
  const Deadline quiet = Deadline::after_ms(300);
  drive(
      branch, heard, [&] { return quiet.passed(); }, true);
  CHECK(count(heard, AgentFrame::phase, HostPhase::starting) == 0);
  drive(branch, heard, [&] { return count(heard, AgentFrame::above, {}) == 2; });
  branch.leave(Deadline::after_seconds(10));
}

TEST_CASE("an order that cannot be followed is said of each host") {
  BranchOrder order = here();
  order.options.stage.path = "/home/$USER/collctl";
  Branch branch(order);
  std::vector<Heard> heard;
  drive(branch, heard, [&] { return heard.size() == 2; });
  CHECK(heard[1].host == 1);
  const auto word = decoded<BranchPhase>(heard[1].rest);
  REQUIRE(word.ok());
  CHECK(word->error->code == ErrorCode::usage);
  CHECK(word->error->message.find("shells treat specially") != std::string::npos);
}

}  // namespace remote_branch_tests
