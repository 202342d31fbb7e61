#include "cmd/rails/cells.h"

#include "base/format.h"

namespace collctl::cmd {

const RailsNic& nic_from(const RailsReport& r, const RailAt& at) {
  return r.hosts[size_t(r.pairs[at.pair].from)].nics[at.from];
}
const RailsNic& nic_to(const RailsReport& r, const RailAt& at) {
  return r.hosts[size_t(r.pairs[at.pair].to)].nics[at.to];
}
const RailResult& cell_at(const RailsReport& r, const RailAt& at) {
  const RailPair& pair = r.pairs[at.pair];
  return pair.cells[at.from * r.hosts[size_t(pair.to)].nics.size() + at.to];
}

std::vector<RailAt> all_cells(const RailsReport& r) {
  std::vector<RailAt> list;
  for (size_t p = 0; p < r.pairs.size(); ++p)
    for (size_t i = 0; i < r.hosts[size_t(r.pairs[p].from)].nics.size(); ++i)
      for (size_t j = 0; j < r.hosts[size_t(r.pairs[p].to)].nics.size(); ++j)
        list.push_back({p, i, j});
  return list;
}

std::string rail_text(const RailsReport& r, const RailAt& at) {
  const RailPair& pair = r.pairs[at.pair];
  return format("{} {} -> {} {}", r.hosts[size_t(pair.from)].host, nic_from(r, at).name,
                r.hosts[size_t(pair.to)].host, nic_to(r, at).name);
}

}  // namespace collctl::cmd
