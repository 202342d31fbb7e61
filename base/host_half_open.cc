#include "base/host_half_open.h"

#include <cstring>
#include <sstream>

#include "base/format.h"
#include "base/whole_file.h"

namespace collctl::base {
namespace {

constexpr size_t kMostTable = 16u << 20;

// As the kernel prints it: words of four bytes as they lie in memory.
std::string host_hex(const Address& address) {
  const ByteView bytes = address.host_bytes();
  std::string text;
  for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    text += format("{:08X}", word);
  }
  return text;
}

}  // namespace

bool has_half_open(std::string_view table, const Address& local, const Address& remote) {
  constexpr const char* kSynReceived = "03";
  const std::string here = format("{}:{:04X}", host_hex(local), local.port());
  const std::string there = host_hex(remote) + ":";
  std::istringstream lines{std::string(table)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, from, to, state;
    if (words >> number >> from >> to >> state && from == here && to.starts_with(there) &&
        state == kSynReceived)
      return true;
  }
  return false;
}

bool is_half_open(const Address& local, const Address& remote) {
  const char* file = local.family() == AF_INET6 ? "/proc/self/net/tcp6" : "/proc/self/net/tcp";
  const auto table = read_file(file, kMostTable);
  return table && has_half_open(*table, local, remote);
}

}  // namespace collctl::base
