// Byte strings for blobs and frames: a little-endian writer, and a reader that cannot run past the
// end. A reader that hits the end or a length above its bound turns "bad" and returns zeros from
// then on; ask ok() once.
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace collctl::base {

using Bytes = std::vector<uint8_t>;
using ByteView = std::span<const uint8_t>;

inline ByteView bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

class ByteWriter {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T> ByteWriter& put(const T& value) {
    // Not insert(): g++ 12 takes its inlined growth for an overflow.
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, static_cast<const void*>(&value), sizeof value);
    return *this;
  }
  ByteWriter& put_bytes(ByteView v) {
    put(uint32_t(v.size()));
    bytes_.insert(bytes_.end(), v.begin(), v.end());
    return *this;
  }
  ByteWriter& put_string(std::string_view v) { return put_bytes(bytes_of(v)); }
  // The bytes alone, as the last thing of a record.
  ByteWriter& put_rest(ByteView v) {
    const size_t at = bytes_.size();
    bytes_.resize(at + v.size());
    if (!v.empty()) std::memcpy(bytes_.data() + at, v.data(), v.size());
    return *this;
  }
  Bytes take() { return std::move(bytes_); }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(ByteView v) : view_(v) {}
  template <class T>
  requires std::is_trivially_copyable_v<T> T get() {
    T value{};
    if (view_.size() - at_ < sizeof value) {
      bad_ = true;
      at_ = view_.size();
      return value;
    }
    std::memcpy(static_cast<void*>(&value), view_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  ByteView get_bytes(size_t at_most = 1 << 24) {
    const auto size = get<uint32_t>();
    if (bad_ || size > at_most || view_.size() - at_ < size) {
      bad_ = true;
      at_ = view_.size();
      return {};
    }
    ByteView v = view_.subspan(at_, size);
    at_ += size;
    return v;
  }
  std::string get_string(size_t at_most = 1 << 20) {
    ByteView v = get_bytes(at_most);
    return {reinterpret_cast<const char*>(v.data()), v.size()};
  }
  void fail() { bad_ = true; }  // for a bound of the caller's
  bool ok() const { return !bad_; }
  bool at_end() const { return at_ == view_.size(); }

 private:
  ByteView view_;
  size_t at_ = 0;
  bool bad_ = false;
};

}  // namespace collctl::base

namespace collctl {
using base::ByteReader;
using base::Bytes;
using base::ByteView;
using base::ByteWriter;
}  // namespace collctl
