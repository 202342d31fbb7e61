#include "transport/net/socket/paths.h"

#include <algorithm>
#include <functional>

namespace collctl::transport {
namespace {

bool same_host_address(const Interface& a, const Interface& b) {
  return std::ranges::equal(a.address.host_bytes(), b.address.host_bytes());
}

// Indexes of those that `other` does not have as well.
std::vector<int> distinct(std::span<const Interface> own, std::span<const Interface> other,
                          bool apart) {
  std::vector<int> kept;
  for (size_t i = 0; i < own.size(); ++i)
    if (!apart || std::ranges::none_of(
                      other, [&](const Interface& o) { return same_host_address(own[i], o); }))
      kept.push_back(int(i));
  return kept;
}

}  // namespace

std::vector<SocketPath> socket_paths(std::span<const Interface> from, std::span<const Interface> to,
                                     bool apart) {
  std::vector<int> sources = distinct(from, to, apart), targets = distinct(to, from, apart);
  const size_t routed = std::min(sources.size(), targets.size());
  std::vector<SocketPath> paths;
  for (size_t i = 0; i < routed; ++i) paths.push_back({sources[i], targets[i]});
  std::vector<SocketPath> direct;
  while (!sources.empty()) {
    const Interface& first = from[size_t(sources.front())];
    const auto take = [&](std::span<const Interface> all, std::vector<int>& left) {
      std::vector<int> taken;
      std::erase_if(left, [&](int i) {
        const bool in =
            base::in_one_subnet(first.address, all[size_t(i)].address, first.prefix_bits);
        if (in) taken.push_back(i);
        return in;
      });
      return taken;
    };
    const std::vector<int> there = take(to, targets);
    std::vector<int> here = take(from, sources);
    if (here.empty()) {  // the length of its prefix is not known
      here.push_back(sources.front());
      sources.erase(sources.begin());
    }
    if (there.empty()) continue;
    for (size_t k = 0; k < std::max(here.size(), there.size()); ++k)
      direct.push_back({here[k % here.size()], there[k % there.size()]});
  }
  if (!direct.empty()) return direct;
  if (paths.empty()) paths.push_back({});
  return paths;
}

SocketPath choose_path(std::span<const SocketPath> paths, int given_from, int given_to,
                       unsigned turn) {
  std::vector<SocketPath> left(paths.begin(), paths.end());
  const auto keep = [&](auto fits) {
    if (std::ranges::any_of(left, fits)) std::erase_if(left, std::not_fn(fits));
  };
  keep([&](const SocketPath& path) { return path.from == given_from; });
  keep([&](const SocketPath& path) { return path.to == given_to; });
  return left[turn % left.size()];
}

int find_interface(std::span<const Interface> all, std::string_view name) {
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].name == name) return int(i);
  return -1;
}

int find_interface(std::span<const Interface> all, const base::Address& address) {
  for (size_t i = 0; i < all.size(); ++i)
    if (std::ranges::equal(all[i].address.host_bytes(), address.host_bytes())) return int(i);
  return -1;
}

}  // namespace collctl::transport
