// Least speeds of boards, PCIe links, RDMA ports and memory channels, by public sources or by
// whoever runs them: floors.json, which the binary holds, and --floors FILE. The file is untrusted.
// Pure but for interpret_floors(), which reads it.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/cli/parse.h"

namespace collctl::cmd {

extern const char kShippedFloors[];  // floors.json
inline constexpr char kFloorsSchema[] = "collctl.floors/1";

struct Floor {
  std::string gpu;  // the end of the board's name, as its driver calls it; A100-SXM4*: its begin
  // gpu_copy (read and written), to_gpu, from_gpu; peer_read: of a GPU joined by NVLink, by copy
  // engine; allreduce: bus bandwidth. Without a board: to_gpu and from_gpu by a PCIe link, port: of
  // an InfiniBand port, channel: of a channel of host memory (read and written).
  std::string what;
  double GTps = 0;  // of a lane of PCIe; the GB/s are those of so many `lanes`
  int lanes = 0;
  double Gbps = 0;  // of a port
  double MTps = 0;  // of a channel
  int gpus = 0;     // of an allreduce among all GPUs of a host
  double GBps = 0;
  std::string source, date;  // "2026-05"
  // "at least 48 GB/s (Azure NHC ..., 2026-05)"
  std::string text() const;
};
// The first that fits counts: those of the user before ours.
using Floors = std::vector<Floor>;
// An allreduce counts as one from this size on.
inline constexpr uint64_t kFloorBytes = uint64_t{1} << 30;

// Error usage: what is wrong, with the file's name.
Result<Floors> parse_floors(const std::string& file, const std::string& json);
Result<Floors> interpret_floors(const ParsedLine& line);
// The floor of the board with that name. Null: none is known, as for a part of a board (MIG).
const Floor* find_floor(const Floors& floors, const std::string& board, const std::string& what,
                        int gpus = 0);
// Those of a PCIe link that runs at this rate, of an InfiniBand port, of a memory channel. Null:
// none is known.
const Floor* find_link_floor(const Floors& floors, const std::string& what, double GTps);
const Floor* find_port_floor(const Floors& floors, double Gbps);
const Floor* find_channel_floor(const Floors& floors, double MTps);
// Whether anything is known of it.
bool is_known(const Floors& floors, const std::string& board);

}  // namespace collctl::cmd
