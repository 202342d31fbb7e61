// Names by what they have in common, in the order in which that was first seen. Threads: values.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace collctl::cmd {

template <class Key>
class NamesBy {
 public:
  using Group = std::pair<Key, std::vector<std::string>>;
  std::vector<std::string>& operator[](const Key& key) {
    const auto [place, is_new] = places_.try_emplace(key, groups_.size());
    if (is_new) groups_.push_back({key, {}});
    return groups_[place->second].second;
  }
  std::vector<Group>& groups() { return groups_; }

 private:
  std::vector<Group> groups_;
  std::map<Key, size_t> places_;
};

}  // namespace collctl::cmd
