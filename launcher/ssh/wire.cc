#include "launcher/ssh/wire.h"

namespace collctl::launcher {

std::optional<Bytes> take_string(const Bytes& data, size_t& at) {
  if (data.size() - at < 4) return std::nullopt;
  uint32_t size = 0;
  for (int i = 0; i < 4; ++i) size = size << 8 | data[at++];
  if (data.size() - at < size) return std::nullopt;
  Bytes bytes(data.begin() + long(at), data.begin() + long(at + size));
  at += size;
  return bytes;
}

}  // namespace collctl::launcher
