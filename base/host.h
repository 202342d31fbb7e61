// A host of a job is a value: its place in the job's list. Its name is for people: hosts may be
// called alike, and one host may be called in several ways, so names are never compared. Threads:
// values.
#pragma once
#include <compare>
#include <cstdint>
#include <string>

namespace collctl::base {

enum class HostId : int32_t { none = -1 };  // none: no host, or one that no list has

struct Host {
  HostId id = HostId::none;
  std::string name = {};  // as the user's list calls it; without a list, as it calls itself

  bool named() const { return !name.empty(); }
  bool operator==(const Host& other) const { return id == other.id; }
  std::strong_ordering operator<=>(const Host& other) const { return id <=> other.id; }
};

// A host of a document that has names alone, as saved reports do: each name one host, with a place
// beyond those of lists. Threads: any.
Host saved_host(const std::string& name);

}  // namespace collctl::base
namespace collctl {
using base::Host;
using base::HostId;
}  // namespace collctl
