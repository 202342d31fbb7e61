// NCCL's own log (NCCL_DEBUG=INFO, of 2.10 to 2.30): its network and devices, the ways between
// ranks, channels, and the algorithm and protocol of each size, as one process has told them. The
// text is not trusted: what does not read as one of NCCL's lines is passed over. Pure. Threads:
// any.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/record.h"

namespace collctl::cmd {

inline constexpr size_t kMostNcclLog = 16 << 20;  // bytes that are read of it
inline constexpr size_t kMostNcclLine = 512;      // of a line that is kept
inline constexpr size_t kMostNcclEntries = 64;    // of a list
inline constexpr size_t kMostNcclChoices = 4096;  // sizes with a choice
inline constexpr int kMostNcclChannels = 1 << 16;

struct NcclChoice {      // told by rank 0
  std::string function;  // "AllReduce"; empty: this version does not say
  uint64_t bytes = 0;    // as NCCL counts
  std::string algorithm, protocol;
  int channels = 0;  // 0: this version does not say
};
struct NcclWay {
  std::string via;        // "NET/IB/0/GDRDMA", "P2P/CUMEM", "SHM/direct/direct"
  uint64_t channels = 0;  // of all kinds, both ends
  std::string line;       // the first that says so
};
struct NcclLog {
  std::string version;                // "2.28.9+cuda12.9"
  std::string network, network_line;  // "IB", "Socket", or a plugin's
  std::string devices_line;           // "NET/IB : Using [0]mlx5_0:1/IB ..."
  std::string tuner;                  // a plugin's; empty: NCCL's own
  int channels = 0, nvls_channels = 0, p2p_channels = 0;
  std::string ring, trees;  // rank 0: of channel 0, and all its trees; cut
  std::vector<NcclWay> ways;
  std::string no_gdr_line;  // why GPUDirect RDMA is not used, as far as it says
  std::vector<NcclChoice> choices;
  std::vector<std::string> warnings;
  bool cut = false;  // longer than what was read
  bool empty() const { return version.empty() && network.empty() && ways.empty(); }
  bool crosses_hosts() const;     // a way is NET/...
  const NcclWay* no_gdr() const;  // a way over RDMA, but not from GPU memory; null: none
};
// As a terminal may see it, in at most so many bytes.
std::string kept_text(std::string_view text, size_t most);
NcclLog read_nccl_log(std::string_view text, bool cut);
void fields(Record& io, NcclLog& log);
void fields(Record& io, NcclChoice& choice);
void fields(Record& io, NcclWay& way);

}  // namespace collctl::cmd
