#include "launcher/ssh/kexinit.h"

#include <algorithm>

#include "launcher/ssh/config.h"

namespace collctl::launcher {
namespace {

constexpr size_t kMostKexBytes = 65536;  // banner lines and one packet (RFC 4253: 35000)
constexpr uint32_t kMostPacket = 35000;
constexpr uint8_t kKexInit = 20;
constexpr size_t kCookie = 16;

// Big-endian reads from a string, which stop at its end.
struct WireReader {
  std::string_view data;
  size_t at = 0;
  bool bad = false;

  uint32_t number() {
    if (data.size() - at < 4) {
      bad = true;
      at = data.size();
      return 0;
    }
    uint32_t n = 0;
    for (int i = 0; i < 4; ++i) n = n << 8 | uint8_t(data[at++]);
    return n;
  }
  std::string text() {
    const uint32_t size = number();
    if (bad || data.size() - at < size) {
      bad = true;
      return {};
    }
    std::string s(data.substr(at, size));
    at += size;
    return s;
  }
};

bool printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

std::string with_spaces(const std::string& list) {
  std::string text;
  for (const std::string& word : split_list(list, ',')) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Names that are no algorithms but announcements.
bool is_marker(const std::string& name) {
  return name.rfind("ext-info-", 0) == 0 || name.rfind("kex-strict-", 0) == 0;
}

bool share(const std::string& a, const std::string& b) {
  const auto others = split_list(b, ',');
  for (const std::string& word : split_list(a, ','))
    if (!is_marker(word) && std::find(others.begin(), others.end(), word) != others.end())
      return true;
  return false;
}

}  // namespace

void KexInitListener::feed(ByteView bytes) {
  if (done_) return;
  const size_t room = kMostKexBytes - bytes_.size();
  bytes_.append(reinterpret_cast<const char*>(bytes.data()), std::min(room, bytes.size()));
  if (!banner_seen_) try_banner();
  if (banner_seen_ && !done_) try_packet();
  if (bytes_.size() >= kMostKexBytes) done_ = true;
  if (done_) {
    bytes_.clear();
    bytes_.shrink_to_fit();
  }
}

void KexInitListener::try_banner() {
  // Other lines may come first (RFC 4253 section 4.2).
  for (size_t end = bytes_.find('\n'); end != std::string::npos; end = bytes_.find('\n')) {
    std::string line = bytes_.substr(0, end);
    bytes_.erase(0, end + 1);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.rfind("SSH-", 0) != 0) continue;
    banner_seen_ = true;
    for (const char c : line.substr(0, 255)) banner_ += c >= ' ' && c < 127 ? c : '?';
    return;
  }
}

void KexInitListener::try_packet() {
  WireReader reader{bytes_};
  const uint32_t size = reader.number();
  if (reader.bad) return;
  if (size < 2 || size > kMostPacket) {
    done_ = true;
    return;
  }
  if (bytes_.size() < 4 + size_t(size)) return;
  done_ = true;
  const std::string_view packet = std::string_view(bytes_).substr(4, size);
  const size_t padding = uint8_t(packet[0]);
  if (padding + 2 > size || uint8_t(packet[1]) != kKexInit) return;
  WireReader lists{packet.substr(0, size - padding), 2 + kCookie};
  if (lists.at > lists.data.size()) return;
  AlgorithmLists found;
  found.kex = lists.text();
  found.host_key = lists.text();
  found.cipher = lists.text();
  lists.text();  // server to client
  found.mac = lists.text();
  if (!lists.bad && printable(found.kex) && printable(found.host_key) && printable(found.cipher) &&
      printable(found.mac))
    lists_ = found;
}

std::optional<Disagreement> find_disagreement(const AlgorithmLists& ours,
                                              const AlgorithmLists& theirs) {
  const auto differ = [](const char* what, const std::string& a,
                         const std::string& b) -> std::optional<Disagreement> {
    if (share(a, b)) return std::nullopt;
    return Disagreement{what, with_spaces(a), with_spaces(b)};
  };
  if (auto d = differ("key exchange method", ours.kex, theirs.kex)) return d;
  if (auto d = differ("host key type", ours.host_key, theirs.host_key)) return d;
  if (auto d = differ("cipher", ours.cipher, theirs.cipher)) return d;
  // Ciphers that authenticate need no MAC, but only newer libraries know them: then this list is
  // shared or not used.
  return differ("MAC", ours.mac, theirs.mac);
}

}  // namespace collctl::launcher
