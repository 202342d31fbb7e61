// Writes one JSON document in order, with the numbers as people would write them (1.234, not
// 1.2339999999) or as they are. Bytes that are no UTF-8 become U+FFFD, so that the document is
// always valid. Used by the reports and json_record; threads: one.
#pragma once
#include <concepts>
#include <functional>
#include <string>
#include <string_view>

#include "base/host.h"

namespace collctl::base {

class JsonWriter {
 public:
  enum class Numbers : bool { readable, exact };
  explicit JsonWriter(Numbers numbers = Numbers::readable) : numbers_(numbers) {}
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(const Host& host) { return value(host.name); }
  JsonWriter& value(bool yes);
  JsonWriter& value(double number);  // readable: six significant digits; not finite: null
  template <std::integral T>
  JsonWriter& value(T number) {
    return raw(std::to_string(number));
  }
  JsonWriter& null() { return raw("null"); }
  template <class T>
  JsonWriter& field(std::string_view name, const T& what) {
    key(name);
    return value(what);
  }
  template <class T>
  JsonWriter& field_or_null(std::string_view name, bool is_known, const T& what) {
    return is_known ? field(name, what) : key(name).null();
  }
  // A list of values, `of` each; and of objects, between whose braces `fill` writes.
  template <class List, class Of = std::identity>
  JsonWriter& list(std::string_view name, const List& values, Of of = {}) {
    key(name).begin_array();
    for (const auto& each : values) value(std::invoke(of, each));
    return end_array();
  }
  template <class List, class Fill>
  JsonWriter& objects(std::string_view name, const List& values, Fill fill) {
    key(name).begin_array();
    for (const auto& each : values) {
      begin_object();
      fill(each);
      end_object();
    }
    return end_array();
  }
  // A document made by another writer, as a value.
  JsonWriter& raw(std::string_view json);
  bool exact() const { return numbers_ == Numbers::exact; }
  std::string take() { return std::move(text_); }

 private:
  void separate();
  Numbers numbers_;
  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace collctl::base
namespace collctl {
using base::JsonWriter;
}
