// Rules from the environment.
#include "base/env.h"
#include "base/format.h"
#include "topology/graph/decide.h"

namespace collctl::topology {
namespace {

using base::KnobId;

// The numbers that were levels before they had names.
constexpr PathType kOldLevels[] = {PathType::loc, PathType::pix, PathType::pxb,
                                   PathType::phb, PathType::sys, PathType::sys};

Status read_level(KnobId id, std::optional<PathType>& level) {
  const base::KnobValue value = base::knob_value(id);
  if (value.text.empty()) return {};
  if (value.text.size() == 1 && value.text[0] >= '0' && value.text[0] <= '5')
    level = kOldLevels[value.text[0] - '0'];
  else
    level = parse_path_type(value.text);
  if (level) return {};
  return Error(ErrorCode::usage,
               format("{}={}: expected a path type: LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB or "
                      "SYS",
                      value.origin, value.text));
}

Status read_flag(KnobId id, bool when_set, bool& rule) {
  COLL_ASSIGN(const int64_t flag, base::knob_int(id));
  rule = (flag != 0) == when_set;
  return {};
}

}  // namespace

Result<Rules> read_rules() {
  Rules rules;
  COLL_TRY(read_level(KnobId::p2p_level, rules.p2p_level));
  COLL_TRY(read_level(KnobId::net_gdr_level, rules.gdr_level));
  COLL_ASSIGN(const int64_t gdr_read, base::knob_int(KnobId::net_gdr_read));
  if (gdr_read >= 0) rules.gdr_read = gdr_read != 0;
  COLL_TRY(read_flag(KnobId::pxn_disable, false, rules.pxn));
  COLL_ASSIGN(const int64_t level, base::knob_int(KnobId::p2p_pxn_level));
  rules.p2p_pxn_level = rules.pxn ? int(level) : 0;
  rules.p2p_pxn_asked =
      rules.p2p_pxn_level > 0 && !base::knob_value(KnobId::p2p_pxn_level).variable.empty();
  COLL_TRY(read_flag(KnobId::p2p_disable, false, rules.p2p));
  COLL_TRY(read_flag(KnobId::shm_disable, false, rules.shm));
  COLL_TRY(read_flag(KnobId::net_gdr_c2c, true, rules.gdr_c2c));
  COLL_TRY(read_flag(KnobId::pxn_c2c, true, rules.pxn_c2c));
  COLL_TRY(read_flag(KnobId::nvb_disable, false, rules.nvb));
  COLL_TRY(read_flag(KnobId::net_disable_intra, false, rules.net_intra));
  return rules;
}

}  // namespace collctl::topology
