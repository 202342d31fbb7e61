// Names of hosts in one line. Pure; any thread.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace collctl::cmd {

// Sorted, each once. Up to three as they are: "node2, node10"; of more those that differ in one
// number are one word, as -H takes it: "login, node[01-06,09].rack7". The rest of more than 16
// words is counted.
std::string folded_hosts(const std::vector<std::string>& names);

// Names by what they have in common, in the order in which that was first seen. Threads: values.

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
