// Reading and writing the JSON of bench records and specifications. Reading trusts nothing: a wrong
// kind, an unknown name or a number out of range is an error that names the field. Used by
// cmd/measure/json.cc and cmd/measure/spec.cc. Threads: values.
#pragma once
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/result.h"

namespace collctl::cmd::json_fields {

using Json = nlohmann::json;

inline constexpr size_t kMaxText = size_t(64) << 20;
inline constexpr size_t kMaxList = 1 << 20;  // entries of any list
inline constexpr size_t kMaxWord = 1 << 16;  // bytes of any text inside

// Looks fields up and converts them; the first thing wrong is kept, everything after gives zeros.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  template <class T>
  void number(const char* name, T& out, double least, double most) {
    const Json* field = find(name);
    if (field == nullptr) return;
    if (!field->is_number() || (std::is_integral_v<T> && !field->is_number_integer()))
      return fail(name, std::is_integral_v<T> ? "a whole number" : "a number");
    const double value = field->get<double>();
    if (!(value >= least && value <= most))
      return fail(name, format("a number from {} to {}", least, most));
    out = field->get<T>();
  }
  void count(const char* name, uint64_t& out) {
    const Json* field = find(name);
    if (field == nullptr) return;
    if (!field->is_number_unsigned()) return fail(name, "a whole number, not negative");
    out = field->get<uint64_t>();
  }
  void whole(const char* name, int& out, int least, int most) { number(name, out, least, most); }
  void real(const char* name, double& out) { number(name, out, -1e300, 1e300); }
  void flag(const char* name, bool& out) {
    const Json* field = find(name);
    if (field == nullptr) return;
    if (!field->is_boolean()) return fail(name, "true or false");
    out = field->get<bool>();
  }
  void text(const char* name, std::string& out) {
    const Json* field = find(name);
    if (field == nullptr) return;
    if (!field->is_string() || field->get_ref<const std::string&>().size() > kMaxWord)
      return fail(name, "a text");
    out = field->get<std::string>();
  }
  // A name of an enumeration, as name_of gives it.
  template <class T>
  void name(const char* field_name, T& out, int how_many) {
    std::string word;
    text(field_name, word);
    if (error_) return;
    for (int i = 0; i < how_many; ++i) {
      if (word == name_of(T(i))) {
        out = T(i);
        return;
      }
    }
    fail(field_name, "a known name");
  }
  // Every element of a list.
  template <class Each>
  void list(const char* name, Each each) {
    const Json* field = find(name);
    if (field == nullptr) return;
    if (!field->is_array() || field->size() > kMaxList) return fail(name, "a list");
    for (const Json& element : *field) {
      if (error_) return;
      each(element);
    }
  }
  void numbers(const char* name, std::vector<int>& out) {
    out.clear();
    list(name, [&](const Json& element) {
      if (!element.is_number_integer() || element.get<double>() < -2147483648.0 ||
          element.get<double>() > 2147483647.0)
        return fail(name, "a list of whole numbers");
      out.push_back(element.get<int>());
    });
  }
  void words(const char* name, std::vector<std::string>& out) {
    out.clear();
    list(name, [&](const Json& element) {
      if (!element.is_string() || element.get_ref<const std::string&>().size() > kMaxWord)
        return fail(name, "a list of texts");
      out.push_back(element.get<std::string>());
    });
  }
  template <class T>
  void names(const char* field_name, std::vector<T>& out, int how_many) {
    std::vector<std::string> list_of_words;
    words(field_name, list_of_words);
    out.clear();
    for (const std::string& word : list_of_words) {
      int i = 0;
      while (i < how_many && word != name_of(T(i))) ++i;
      if (i == how_many) return fail(field_name, "known names");
      out.push_back(T(i));
    }
  }
  // A field that is an object, as text: for a reader of its own.
  void document(const char* name, std::string& out) {
    const Json* field = find(name);
    if (field == nullptr) return;
    if (!field->is_object()) return fail(name, "an object");
    out = field->dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  // A field that is an object of its own.
  template <class Each>
  void object(const char* name, Each each) {
    const Json* field = find(name);
    if (field == nullptr) return;
    Fields inner(*field);
    each(inner);
    take(inner);
  }
  void take(const Fields& inner) {
    if (!error_) error_ = inner.error_;
  }
  void fail(const char* name, const std::string& expected) {
    if (!error_)
      error_ = Error{ErrorCode::usage, format("field '{}': expected {}", name, expected)};
  }
  Status status() const {
    if (error_) return *error_;
    return {};
  }

 private:
  const Json* find(const char* name) {
    if (error_) return nullptr;
    if (!object_.is_object()) {
      error_ = Error{ErrorCode::usage, "expected an object"};
      return nullptr;
    }
    const auto at = object_.find(name);
    if (at != object_.end()) return &*at;
    error_ = Error{ErrorCode::usage, format("field '{}' is missing", name)};
    return nullptr;
  }

  const Json& object_;
  std::optional<Error> error_;
};

inline Result<Json> parse(const std::string& text) {
  if (text.size() > kMaxText)
    return Error{ErrorCode::usage, format("record of {} bytes; at most {}", text.size(), kMaxText)};
  // Depth is bounded by hand: a deeply nested text would overflow the parser's destructor.
  int depth = 0;
  auto keep_flat = [&](int level, Json::parse_event_t, Json&) {
    depth = std::max(depth, level);
    return level < 16;
  };
  Json json = Json::parse(text, keep_flat, false);
  if (json.is_discarded() || !json.is_object() || depth >= 16)
    return Error{ErrorCode::usage, "not one JSON object"};
  return json;
}

// Texts may come from outside (host names): bytes that are not UTF-8 are replaced, never thrown.
inline std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class T>
Json names_of(const std::vector<T>& values) {
  Json list = Json::array();
  for (T value : values) list.push_back(name_of(value));
  return list;
}

}  // namespace collctl::cmd::json_fields
