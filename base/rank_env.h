// Names that launcher and ranks share: the variables a foreign program gets, and the descriptor a
// rank of ours inherits.
#pragma once

namespace collctl::base {

// Set for every rank, ours or a foreign program's.
inline constexpr const char* kEnvRank = "RANK";
inline constexpr const char* kEnvWorldSize = "WORLD_SIZE";
inline constexpr const char* kEnvLocalRank = "LOCAL_RANK";
inline constexpr const char* kEnvLocalWorldSize = "LOCAL_WORLD_SIZE";
inline constexpr const char* kEnvNodeRank = "NODE_RANK";
inline constexpr const char* kEnvMasterAddress = "MASTER_ADDR";
inline constexpr const char* kEnvMasterPort = "MASTER_PORT";

// The hidden command a rank of ours runs as, and the number of the inherited control descriptor.
inline constexpr const char* kRankCommand = "__rank";
inline constexpr int kControlFd = 3;

}  // namespace collctl::base
