#include "launcher/remote/branch_order.h"

#include "base/record.h"

namespace collctl::launcher {
namespace {

constexpr size_t kMostWords = 4096;

}  // namespace

static void fields(Record& io, HostSpec& host) {
  Host named{host.id, host.name};
  io.field("host", named);
  if (io.reading()) {
    host.id = named.id;
    host.name = named.name;
  }
  io.field("user", host.user);
  io.field("port", host.port);
  io.field("key", host.key);
  io.field("jump", host.jump);
  io.field("path", host.path);
}

static void fields(Record& io, ChannelOptions& ssh) {
  io.number("client", ssh.client, int(SshClient::openssh) + 1);
  io.number("known_hosts", ssh.known_hosts, int(KnownHosts::off) + 1);
  io.field("config_file", ssh.config_file);
  io.field("user", ssh.user);
  io.field("port", ssh.port);
  io.field("identity", ssh.identity);
  io.field("connect_timeout_s", ssh.connect_timeout_s, Record::kAboveZero);
}

static void fields(Record& io, StageOptions& stage) {
  io.field("version", stage.version);
  io.field("hash", stage.hash);
  io.field("machine", stage.machine);
  io.field("path", stage.path);
  io.number("staging", stage.staging, int(Staging::always) + 1);
  io.field("patience_s", stage.patience_s, Record::kAboveZero);
}

void fields(Record& io, BranchOrder& order) {
  PoolOptions& options = order.options;
  io.field("tree_width", options.tree_width, 1);
  io.field("fanout", options.fanout, 1);
  io.field("heartbeat_s", options.heartbeat_s, Record::kAboveZero);
  io.field("always_ssh", options.always_ssh);
  io.field("ssh", options.ssh);
  io.field("stage", options.stage);
  io.field("hosts", order.hosts, kMostHosts);
}

void fields(Record& io, BranchPhase& word) {
  io.number("phase", word.phase, int(HostPhase::failed) + 1);
  io.field("deeper", word.deeper);
  io.field("client", word.client, kMostWords);
  io.field("behind", word.behind, kMostWords);
  io.unless_empty("error", word.error);
  // The phase `up` comes with the greeting; `failed` with an error and only so.
  if (word.phase == HostPhase::up || word.error.has_value() != (word.phase == HostPhase::failed))
    io.fail("phase", "one that fits the error");
}

}  // namespace collctl::launcher
