#include "launcher/remote/agent_protocol.h"

#include "base/format.h"
#include "launcher/hosts/placement.h"

namespace collctl::launcher {
namespace {

Error malformed(const char* what, ByteView payload) {
  return Error(ErrorCode::lost, format("malformed {} of {} bytes", what, payload.size()));
}

}  // namespace

void put_strings(ByteWriter& w, const std::vector<std::string>& list) {
  w.put(uint32_t(list.size()));
  for (const std::string& s : list) w.put_string(s);
}

std::vector<std::string> get_strings(ByteReader& r, size_t at_most) {
  std::vector<std::string> list;
  const auto count = r.get<uint32_t>();
  for (uint32_t i = 0; i < count && i < at_most && r.ok(); ++i) list.push_back(r.get_string());
  if (count > at_most) r.fail();
  return list;
}

Bytes AgentHello::encode() const {
  ByteWriter w;
  w.put(version).put_string(build).put_string(host).put_string(machine);
  w.put_string(address).put(pid).put(cores).put(gpus).put(gpus_on_pci).put_string(driver);
  put_strings(w, visible);
  w.put(free_port);
  return w.take();
}

Result<AgentHello> AgentHello::decode(ByteView payload) {
  ByteReader r(payload);
  AgentHello h;
  h.version = r.get<uint32_t>();
  if (r.ok() && h.version != kAgentVersion)
    return Error(ErrorCode::launch,
                 format("the collctl there uses version {} of the agent protocol, this one {}",
                        h.version, kAgentVersion),
                 "let collctl copy itself: use --stage always, or leave out --remote-path");
  h.build = r.get_string(256);
  h.host = r.get_string(kMostHostName);
  h.machine = r.get_string(256);
  h.address = r.get_string(256);
  h.pid = r.get<int32_t>();
  h.cores = r.get<int32_t>();
  h.gpus = r.get<int32_t>();
  h.gpus_on_pci = r.get<int32_t>();
  h.driver = r.get_string(256);
  h.visible = get_strings(r, 1);
  h.free_port = r.get<uint16_t>();
  if (!r.ok() || !r.at_end() || h.gpus < 0 || h.gpus_on_pci < 0)
    return malformed("greeting of the agent", payload);
  return h;
}

Bytes AgentStart::encode() const {
  ByteWriter w;
  w.put(uint32_t(ranks.size()));
  for (const AgentRank& rank : ranks) {
    put_strings(w, rank.argv);
    put_strings(w, rank.environment);
    w.put(uint8_t(rank.null_stdin));
  }
  put_strings(w, environment);
  put_strings(w, defaults);
  w.put_string(folder).put_string(bind_to).put_string(data_address);
  w.put(heartbeat_s).put(grace_s);
  return w.take();
}

Result<AgentStart> AgentStart::decode(ByteView payload) {
  ByteReader r(payload);
  AgentStart s;
  const auto count = r.get<uint32_t>();
  if (count > uint32_t(kMostRanks)) return malformed("start order", payload);
  for (uint32_t i = 0; i < count && r.ok(); ++i) {
    AgentRank rank;
    rank.argv = get_strings(r);
    rank.environment = get_strings(r);
    rank.null_stdin = r.get<uint8_t>() != 0;
    s.ranks.push_back(std::move(rank));
  }
  s.environment = get_strings(r);
  s.defaults = get_strings(r);
  s.folder = r.get_string();
  s.bind_to = r.get_string();
  s.data_address = r.get_string();
  s.heartbeat_s = r.get<double>();
  s.grace_s = r.get<double>();
  if (!r.ok() || !r.at_end() || !(s.heartbeat_s > 0) || !(s.grace_s >= 0))
    return malformed("start order", payload);
  return s;
}

Bytes AgentStarted::encode() const {
  ByteWriter w;
  w.put(uint32_t(pids.size()));
  for (const int32_t pid : pids) w.put(pid);
  w.put_string(note);
  return w.take();
}

Result<AgentStarted> AgentStarted::decode(ByteView payload) {
  ByteReader r(payload);
  AgentStarted s;
  const auto count = r.get<uint32_t>();
  for (uint32_t i = 0; i < count && i < uint32_t(kMostRanks) && r.ok(); ++i)
    s.pids.push_back(r.get<int32_t>());
  s.note = r.get_string();
  if (!r.ok() || !r.at_end()) return malformed("word of started ranks", payload);
  return s;
}

}  // namespace collctl::launcher
