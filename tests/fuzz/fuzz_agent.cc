// libFuzzer target: any bytes as frames between launcher and agent, in whatever pieces they arrive,
// as the records in them, and as what agents answer to the doctor's questions.
#include "base/host_state.h"
#include "launcher/local/control.h"
#include "launcher/local/frame_parser.h"
#include "launcher/remote/agent_protocol.h"
#include "launcher/remote/branch_order.h"
#include "launcher/remote/probe_service.h"
#include "launcher/remote/stage.h"
#include "tests/fuzz/fuzz.h"

using namespace collctl;
using namespace collctl::launcher;

namespace {

void record(uint16_t type, ByteView payload) {
  switch (AgentFrame(type)) {
    case AgentFrame::hello:
      return fuzz::survives<AgentHello>(payload);
    case AgentFrame::start:
      return fuzz::survives<AgentStart>(payload);
    case AgentFrame::started:
      return fuzz::survives<AgentStarted>(payload);
    case AgentFrame::branch:
      return fuzz::survives<BranchOrder>(payload);
    case AgentFrame::phase:
      return fuzz::survives<BranchPhase>(payload);
    case AgentFrame::refused: {
      const Bytes sent = encode_error(decode_error(payload));
      return fuzz::must(encode_error(decode_error(sent)) == sent);
    }
    default:
      return;
  }
}

std::vector<RawFrame> frames_of(ByteView input, size_t piece) {
  FrameParser parser;
  std::vector<RawFrame> frames;
  for (size_t at = 0; at < input.size(); at += piece) {
    parser.feed(input.subspan(at, std::min(piece, input.size() - at)));
    while (true) {
      const bool ready = parser.ready();
      auto frame = parser.next();
      if (!frame) return frames;
      fuzz::must(ready == frame->has_value());
      if (!*frame) break;
      frames.push_back(std::move(**frame));
    }
  }
  return frames;
}

void stream(ByteView input) {
  const size_t piece = 1 + fuzz::choose(input, 64);
  const auto frames = frames_of(input, std::max<size_t>(input.size(), 1));
  const auto again = frames_of(input, piece);
  fuzz::must(frames.size() == again.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    fuzz::must(frames[i].type == again[i].type && frames[i].payload == again[i].payload);
    record(frames[i].type, frames[i].payload);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteView input(data, size);
  const size_t kind = fuzz::choose(input, 9);
  const std::string text(fuzz::text_of(input));
  switch (kind) {
    case 0:
      stream(input);
      break;
    case 1:
      record(uint16_t(AgentFrame::hello), input);
      break;
    case 2:
      record(uint16_t(AgentFrame::start), input);
      break;
    case 3:
      record(uint16_t(AgentFrame::started), input);
      break;
    case 4:
      record(uint16_t(AgentFrame::refused), input);
      break;
    case 5:
      if (const auto facts = facts_from_json(text)) {
        const std::string sent = facts_to_json(*facts);
        const auto again = facts_from_json(sent);
        fuzz::must(again.ok() && facts_to_json(*again) == sent);
      }
      if (const auto state = record_of<base::HostState>(text)) {
        const std::string sent = json_of(*state);
        const auto again = record_of<base::HostState>(sent);
        fuzz::must(again.ok() && json_of(*again) == sent);
      }
      break;
    case 6:
      static_cast<void>(listen_answer(text));
      break;
    case 7:
      static_cast<void>(dial_answer(text));
      break;
    default:
      static_cast<void>(stage_error(text));
      static_cast<void>(start_error(int(size % 256), text, text));
  }
  return 0;
}
