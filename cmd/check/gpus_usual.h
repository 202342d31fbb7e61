// The figures that GPUs of several hosts usually have, by kind, and one figure held against that.
// Values in, values out.
#pragma once
#include <array>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "cmd/check/floors.h"
#include "cmd/gpu_test/gpu_test.h"
#include "cmd/judge/blame.h"

namespace collctl::cmd {

// Sums of a GPU over several pairs at once, and ways between it and host memory.
struct GpuTotal {
  double GpuEnd::*value;
  const char* name;
  Way way;
};
inline constexpr std::array<GpuTotal, 4> kGpuTotals{
    {{&GpuEnd::to_all, "to all others at once", Way::out},
     {&GpuEnd::from_all, "from all others at once", Way::in},
     {&GpuEnd::sends_of_all, "sent while all pairs are busy", Way::out},
     {&GpuEnd::gets_of_all, "received while all pairs are busy", Way::in}}};
struct GpuLegWay {
  double HostLeg::*value;
  const char* name;
};
inline constexpr std::array<GpuLegWay, 3> kGpuLegWays{{{&HostLeg::to_GBps, "to it"},
                                                       {&HostLeg::from_GBps, "from it"},
                                                       {&HostLeg::both_GBps, "both ways at once"}}};

constexpr bool less_is_better(PairFigure figure) {
  return figure == PairFigure::latency;
}

class GpuUsual {
 public:
  explicit GpuUsual(std::span<const GpuReport> reports);
  // The usual figure of pairs of alike boards with alike paths; 0: there is none.
  double pair(const GpuReport& report, const GpuPair& pair, PairFigure figure) const;
  // By the index in the tables above: of alike boards with alike paths to their peers; of alike
  // boards at the same distance from the memory. Only for reports that this was made of.
  double total(size_t total, const GpuReport& report, size_t gpu) const;
  double leg(size_t way, const GpuReport& report, const HostLeg& leg) const;

 private:
  // Figure, boards of both ends, path; total, board and paths; way, board and distance.
  using PairKind = std::tuple<PairFigure, std::string, std::string, std::string>;
  using TotalKind = std::pair<size_t, std::string>;
  using LegKind = std::tuple<size_t, std::string, int>;
  static PairKind kind_of(const GpuReport& report, const GpuPair& pair, PairFigure figure);
  std::map<PairKind, double> pairs_;
  std::map<TotalKind, double> totals_;
  std::map<LegKind, double> legs_;
};

// A measurement held against others of its kind.
struct GpuFigure {
  double ratio = 1;  // of what is usual, or of the floor where that is more
  bool bad = false, pardoned = false, by_floor = false;
  std::string text;  // "write 12.1 GB/s, 380 is usual"
};
struct GpuAsked {
  double usual = 0;              // as the figure is; 0: nothing to hold it against
  const Floor* floor = nullptr;  // likewise
  bool less_is_better = false;
  double below = 0.7;
  std::string busy = {};  // what others had meanwhile
};
GpuFigure held_figure(double value, const GpuAsked& asked, const char* name, const char* unit);

}  // namespace collctl::cmd
