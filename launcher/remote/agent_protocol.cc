#include "launcher/remote/agent_protocol.h"

#include "base/format.h"
#include "base/record.h"
#include "launcher/hosts/placement.h"

namespace collctl::launcher {
namespace {

constexpr size_t kMostWord = 256;
constexpr size_t kMostStrings = 65536, kMostString = size_t(1) << 20;  // of a command line

void strings(Record& io, const char* name, std::vector<std::string>& list) {
  io.field(name, list, kMostStrings, kMostString);
}

}  // namespace

void fields(Record& io, AgentHello& hello) {
  io.field("version", hello.version);
  io.field("build", hello.build, kMostWord);
  io.field("host", hello.host, kMostHostName);
  io.field("machine", hello.machine, kMostWord);
  io.field("address", hello.address, kMostWord);
  io.field("pid", hello.pid);
  io.field("cores", hello.cores);
  io.field("gpus", hello.gpus, 0);
  io.field("gpus_on_pci", hello.gpus_on_pci, 0);
  io.field("driver", hello.driver, kMostWord);
  io.field("visible", hello.visible, 1, kMostString);
  io.field("free_port", hello.free_port);
}

Result<AgentHello> AgentHello::decode(ByteView payload) {
  AgentHello first;
  Record io(payload);
  io.field("version", first.version);
  if (io.status() && first.version != kAgentVersion)
    return Error(ErrorCode::launch,
                 format("the collctl there uses version {} of the agent protocol, this one {}",
                        first.version, kAgentVersion),
                 "let collctl copy itself: use --stage always, or leave out --remote-path");
  return decoded<AgentHello>(payload);
}

static void fields(Record& io, AgentRank& rank) {
  strings(io, "argv", rank.argv);
  strings(io, "environment", rank.environment);
  io.field("null_stdin", rank.null_stdin);
}

void fields(Record& io, AgentStart& start) {
  io.field("ranks", start.ranks, size_t(kMostRanks));
  strings(io, "environment", start.environment);
  strings(io, "defaults", start.defaults);
  io.field("folder", start.folder);
  io.field("bind_to", start.bind_to);
  io.field("data_address", start.data_address);
  io.field("heartbeat_s", start.heartbeat_s, Record::kAboveZero);
  io.field("grace_s", start.grace_s, 0);
}

void fields(Record& io, AgentStarted& started) {
  io.field("pids", started.pids, size_t(kMostRanks));
  io.field("note", started.note, kMostString);
}

void fields(Record& io, AgentQuestion& question) {
  io.field("number", question.number);
  io.field("what", question.what, kMostWord);
  io.field("argument", question.argument, kMostString);
}

void fields(Record& io, AgentAnswer& answer) {
  io.field("number", answer.number);
  io.field("text", answer.text, AgentAnswer::kMostText);
  io.unless_empty("error", answer.error);
}

}  // namespace collctl::launcher
