#include "cmd/check/floors.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "base/format.h"
#include "base/record.h"
#include "base/whole_file.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostFloors = 1000, kMostFile = 1 << 20;
constexpr const char* kWhats[] = {"gpu_copy",  "to_gpu", "from_gpu", "peer_read",
                                  "allreduce", "port",   "channel"};

// Whole words at the end of the board's name; behind them anything where a * ends them. A part of a
// board (MIG) is none.
bool names(const Floor& floor, const std::string& board) {
  if (board.find(" MIG ") != board.npos) return false;
  const bool open = floor.gpu.ends_with('*');
  const std::string words = floor.gpu.substr(0, floor.gpu.size() - (open ? 1 : 0));
  const size_t at = board.rfind(words);
  if (at == board.npos || words.empty()) return false;
  if (at > 0 && std::isalnum(static_cast<unsigned char>(board[at - 1]))) return false;
  return open || at + words.size() == board.size();
}

}  // namespace

static void fields(base::Record& io, Floor& floor) {
  if (io.has("gpu", !floor.gpu.empty())) io.field("gpu", floor.gpu, 100);
  if (io.has("GTps", floor.GTps != 0)) io.field("GTps", floor.GTps, base::Record::kAboveZero, 1e3);
  if (io.has("lanes", floor.lanes != 0)) io.field("lanes", floor.lanes, 1, 32);
  if (io.has("Gbps", floor.Gbps != 0)) io.field("Gbps", floor.Gbps, base::Record::kAboveZero, 1e5);
  if (io.has("MTps", floor.MTps != 0)) io.field("MTps", floor.MTps, base::Record::kAboveZero, 1e5);
  io.field("what", floor.what, 20);
  if (io.has("gpus", floor.gpus != 0)) io.field("gpus", floor.gpus, 2, 1024);
  io.field("GBps", floor.GBps, base::Record::kAboveZero, 1e6);
  io.field("source", floor.source, 200);
  io.field("date", floor.date, 20);
  const bool link = floor.GTps != 0, port = floor.what == "port", channel = floor.what == "channel";
  if (port != (floor.Gbps != 0)) io.fail("Gbps", "the rate of a port, and of nothing else");
  if (channel != (floor.MTps != 0)) io.fail("MTps", "the rate of a channel, and of nothing else");
  if (link != (floor.lanes != 0) || (link && floor.what != "to_gpu" && floor.what != "from_gpu"))
    io.fail("GTps", "with lanes, and of to_gpu and from_gpu alone");
  if (floor.gpu.empty() != (link || port || channel)) io.fail("gpu", "a part of a board's name");
  if (std::ranges::find(kWhats, floor.what) == std::end(kWhats))
    io.fail("what", "gpu_copy, to_gpu, from_gpu, peer_read, allreduce, port or channel");
  if ((floor.what == "allreduce") != (floor.gpus != 0))
    io.fail("gpus", "a number of GPUs for allreduce, and for nothing else");
}

std::string Floor::text() const {
  return format("at least {:.4g} GB/s ({}, {})", GBps, source, date);
}

Result<Floors> parse_floors(const std::string& file, const std::string& json) {
  Floors floors;
  auto io = base::Record::read(json);
  if (!io) return std::move(io.error()).within(file);
  std::string schema;
  io->field("schema", schema, 64);
  if (schema != kFloorsSchema) io->fail("schema", kFloorsSchema);
  io->field("floors", floors, kMostFloors);
  if (Status status = io->status(); !status) return std::move(status.error()).within(file);
  return floors;
}

Result<Floors> interpret_floors(const ParsedLine& line) {
  Floors floors;
  if (line.has("floors")) {
    const std::string file = line.text("floors");
    COLL_ASSIGN(const std::string text, base::read_file(file, kMostFile));
    COLL_ASSIGN(floors, parse_floors(file, text));
  }
  COLL_ASSIGN(const Floors ours, parse_floors("floors.json", kShippedFloors));
  floors.insert(floors.end(), ours.begin(), ours.end());
  return floors;
}

const Floor* find_floor(const Floors& floors, const std::string& board, const std::string& what,
                        int gpus) {
  const auto at = std::ranges::find_if(floors, [&](const Floor& floor) {
    return floor.what == what && floor.gpus == gpus && names(floor, board);
  });
  return at == floors.end() ? nullptr : &*at;
}

const Floor* find_link_floor(const Floors& floors, const std::string& what, double GTps) {
  const auto at = std::ranges::find_if(floors, [&](const Floor& floor) {
    return floor.what == what && floor.GTps > 0 && floor.GTps == GTps;
  });
  return at == floors.end() ? nullptr : &*at;
}

const Floor* find_port_floor(const Floors& floors, double Gbps) {
  const auto at = std::ranges::find_if(
      floors, [&](const Floor& floor) { return floor.Gbps > 0 && floor.Gbps == Gbps; });
  return at == floors.end() ? nullptr : &*at;
}

const Floor* find_channel_floor(const Floors& floors, double MTps) {
  const auto at = std::ranges::find_if(
      floors, [&](const Floor& floor) { return floor.MTps > 0 && floor.MTps == MTps; });
  return at == floors.end() ? nullptr : &*at;
}

bool is_known(const Floors& floors, const std::string& board) {
  return std::ranges::any_of(floors, [&](const Floor& floor) { return names(floor, board); });
}

}  // namespace collctl::cmd
