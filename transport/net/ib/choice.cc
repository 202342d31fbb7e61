#include "transport/net/ib/choice.h"

#include <algorithm>

#include "base/format.h"
#include "transport/net/ib/wire_blob.h"

namespace collctl::transport {

namespace {

bool same_card(const IbCandidate& a, const IbCandidate& b) {
  return a.card != 0 ? a.card == b.card : a.device == b.device;
}

// Those of `from` for which `good` holds; all of them where it holds for none.
template <class Good>
std::vector<size_t> narrow(const std::vector<size_t>& from, Good good) {
  std::vector<size_t> left;
  std::copy_if(from.begin(), from.end(), std::back_inserter(left), good);
  return left.empty() ? from : left;
}

}  // namespace

std::vector<size_t> choose_ports(std::span<const IbCandidate> ports, const IbPortRequest& request) {
  std::vector<size_t> left;
  for (size_t i = 0; i < ports.size(); ++i)
    if (ports[i].ethernet ? request.ethernet : request.infiniband) left.push_back(i);
  if (left.empty()) return {};
  if (const std::string& nic = request.nic; !nic.empty()) {
    left = narrow(left, [&](size_t i) {
      return ports[i].device == nic || format("{}:{}", ports[i].device, ports[i].port) == nic;
    });
  } else {
    if (request.numa >= 0)
      left = narrow(left, [&](size_t i) { return ports[i].numa == request.numa; });
    int64_t fastest = 0;
    for (const size_t i : left) fastest = std::max(fastest, ports[i].mbps);
    left = narrow(left, [&](size_t i) { return ports[i].mbps == fastest; });
  }
  const size_t turn = size_t(request.local_rank) + size_t(request.channel);
  const size_t first = left[turn % left.size()];
  std::vector<size_t> chosen{first};
  if (!request.merge) return chosen;
  for (size_t i = 0; i < ports.size() && chosen.size() < kIbMaxRails; ++i)
    if (i != first && same_card(ports[i], ports[first]) &&
        ports[i].ethernet == ports[first].ethernet)
      chosen.push_back(i);
  std::sort(chosen.begin(), chosen.end());  // the peer's lanes pair up with these in order
  return chosen;
}

}  // namespace collctl::transport
