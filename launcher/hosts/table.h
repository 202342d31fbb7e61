// The hosts listed so far, each with what all its mentions together say; contradictions
// name both places. Internal to the hostfile; values.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcher/hosts/grammar.h"

namespace collctl::launcher {

class HostTable {
 public:
  // The hosts added next stand at this place, which becomes their `where` if they are new.
  void begin_entry(const SourceLine& line, size_t at) { places_.push_back(line.where(at)); }
  Status add(const SourceLine& line, size_t at, const HostSpec& spec);
  bool empty() const { return hosts_.empty(); }
  bool contains(const std::string& name) const { return index_.count(name) != 0; }
  // Each host becomes that of the inventory, with its own number of slots and user if it has them.
  Status pick_from(const HostTable& inventory, const std::string& hostfile);
  std::vector<HostSpec> take();  // leaves the table empty

 private:
  static constexpr size_t kAttributes = 16;  // room for all of attributes()
  struct Host {
    HostSpec spec;
    int mentions = 0;
    uint32_t slots_said = 0;                      // the first mention: index into places_
    std::array<uint32_t, kAttributes> said = {};  // the same for each attribute
    // Named n times without a number: n slots; once: not said.
    std::optional<int> slots() const {
      return spec.slots || mentions < 2 ? spec.slots : std::optional(mentions);
    }
  };
  Status merge(const SourceLine& line, size_t at, Host& host, const HostSpec& spec);
  Status add_slots(const SourceLine& line, size_t at, Host& host, std::optional<int> slots);

  std::vector<Host> hosts_;
  std::unordered_map<std::string, size_t> index_;
  std::vector<std::string> places_{""};
};

}  // namespace collctl::launcher
