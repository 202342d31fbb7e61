// The usual among measurements between two ends each, whatever the bad ones drag down: of two
// ends the better direction counts; of an end's n partners the n/2-th best (rounded up); of the
// ends of a kind the median, of an even number the upper one. So it is what most have as long as
// more than half of the ends are good, and few fast neighbours do not raise it. Pure.
#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace collctl::cmd {

// The n-th best of them, from 1.
inline double nth_best(std::vector<double> values, size_t n) {
  std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(n - 1), values.end(),
                   std::greater<>());
  return values[n - 1];
}

template <class Kind, class End>
class Usual {
 public:
  // `better`: more is better. Only those of a kind are held against each other.
  void add(const Kind& kind, const End& one, const End& other, double better) {
    auto& ends = kinds_[kind];
    keep(ends[one], other, better);
    keep(ends[other], one, better);
  }
  std::map<Kind, double> values() const {
    std::map<Kind, double> usual;
    for (const auto& [kind, ends] : kinds_) {
      std::vector<double> of_ends;
      for (const auto& [end, partners] : ends) {
        std::vector<double> values;
        for (const auto& [partner, better] : partners) values.push_back(better);
        of_ends.push_back(nth_best(std::move(values), (partners.size() + 1) / 2));
      }
      usual[kind] = nth_best(of_ends, (of_ends.size() + 1) / 2);
    }
    return usual;
  }

 private:
  using Partners = std::map<End, double>;
  static void keep(Partners& partners, const End& partner, double better) {
    const auto [at, fresh] = partners.emplace(partner, better);
    if (!fresh) at->second = std::max(at->second, better);
  }
  std::map<Kind, std::map<End, Partners>> kinds_;
};

}  // namespace collctl::cmd
