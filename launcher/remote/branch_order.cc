#include "launcher/remote/branch_order.h"

namespace collctl::launcher {
namespace {

Error malformed(const char* what) {
  return Error(ErrorCode::lost, std::string("malformed ") + what);
}

}  // namespace

Bytes BranchOrder::encode() const {
  ByteWriter w;
  w.put(int32_t(options.tree_width)).put(int32_t(options.fanout)).put(options.heartbeat_s);
  w.put(uint8_t(options.always_ssh));
  const ChannelOptions& ssh = options.ssh;
  w.put(uint8_t(ssh.client)).put(uint8_t(ssh.known_hosts)).put_string(ssh.config_file);
  w.put_string(ssh.user).put(int32_t(ssh.port)).put_string(ssh.identity);
  w.put(ssh.connect_timeout_s);
  const StageOptions& stage = options.stage;
  w.put_string(stage.version).put_string(stage.hash).put_string(stage.path);
  w.put(uint8_t(stage.staging)).put(stage.patience_s);
  w.put(uint32_t(hosts.size()));
  for (const HostSpec& host : hosts) {
    w.put(int32_t(host.id))
        .put_string(host.name)
        .put_string(host.user)
        .put(int32_t(host.port))
        .put_string(host.key);
    w.put_string(host.jump).put_string(host.path);
  }
  return w.take();
}

Result<BranchOrder> BranchOrder::decode(ByteView payload) {
  ByteReader r(payload);
  BranchOrder order;
  order.options.tree_width = r.get<int32_t>();
  order.options.fanout = r.get<int32_t>();
  order.options.heartbeat_s = r.get<double>();
  order.options.always_ssh = r.get<uint8_t>() != 0;
  ChannelOptions& ssh = order.options.ssh;
  const auto client = r.get<uint8_t>(), known_hosts = r.get<uint8_t>();
  ssh.client = SshClient(client);
  ssh.known_hosts = KnownHosts(known_hosts);
  ssh.config_file = r.get_string();
  ssh.user = r.get_string();
  ssh.port = r.get<int32_t>();
  ssh.identity = r.get_string();
  ssh.connect_timeout_s = r.get<double>();
  StageOptions& stage = order.options.stage;
  stage.version = r.get_string();
  stage.hash = r.get_string();
  stage.path = r.get_string();
  const auto staging = r.get<uint8_t>();
  stage.staging = Staging(staging);
  stage.patience_s = r.get<double>();
  const auto count = r.get<uint32_t>();
  if (count > kMostHosts) return malformed("order of a branch");
  for (uint32_t i = 0; i < count && r.ok(); ++i) {
    HostSpec host;
    host.id = HostId(r.get<int32_t>());
    host.name = r.get_string();
    host.user = r.get_string();
    host.port = r.get<int32_t>();
    host.key = r.get_string();
    host.jump = r.get_string();
    host.path = r.get_string();
    order.hosts.push_back(std::move(host));
  }
  const PoolOptions& o = order.options;
  const bool sound =
      o.tree_width > 0 && o.fanout > 0 && o.heartbeat_s > 0 &&
      client <= uint8_t(SshClient::openssh) && known_hosts <= uint8_t(KnownHosts::off) &&
      staging <= uint8_t(Staging::always) && ssh.connect_timeout_s > 0 && stage.patience_s > 0;
  if (!r.ok() || !r.at_end() || !sound) return malformed("order of a branch");
  return order;
}

Bytes BranchPhase::encode() const {
  ByteWriter w;
  w.put(uint8_t(phase)).put(uint8_t(deeper)).put_string(client);
  w.put(int32_t(behind.id)).put_string(behind.name).put(uint8_t(error.has_value()));
  if (error) w.put_rest(encode_error(*error));
  return w.take();
}

Result<BranchPhase> BranchPhase::decode(ByteView payload) {
  ByteReader r(payload);
  BranchPhase word;
  const auto phase = r.get<uint8_t>();
  word.phase = HostPhase(phase);
  word.deeper = r.get<uint8_t>() != 0;
  word.client = r.get_string(4096);
  word.behind.id = HostId(r.get<int32_t>());
  word.behind.name = r.get_string(4096);
  const bool has_error = r.get<uint8_t>() != 0;
  // The phase `up` comes with the greeting; `failed` with an error and only so.
  if (!r.ok() || phase > uint8_t(HostPhase::failed) || word.phase == HostPhase::up ||
      has_error != (word.phase == HostPhase::failed))
    return malformed("word about a carried host");
  if (!has_error && !r.at_end()) return malformed("word about a carried host");
  const size_t head = 2 + sizeof(uint32_t) + word.client.size() + sizeof(int32_t) +
                      sizeof(uint32_t) + word.behind.name.size() + 1;
  if (has_error) word.error = decode_error(payload.subspan(head));
  return word;
}

}  // namespace collctl::launcher
