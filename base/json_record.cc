#include "base/json_record.h"

#include <nlohmann/json.hpp>

#include "base/format.h"

namespace collctl::base {
namespace {

using Json = nlohmann::json;

constexpr int kMostDepth = 16;

}  // namespace

Result<JsonRecord> JsonRecord::read(const std::string& text) {
  if (text.size() > kMostDocument)
    return Error(ErrorCode::usage,
                 format("record of {} bytes; at most {}", text.size(), kMostDocument));
  // Depth is bounded by hand: a deeply nested text would overflow the parser's destructor.
  int depth = 0;
  const auto keep_flat = [&](int level, Json::parse_event_t, Json&) {
    depth = std::max(depth, level);
    return level < kMostDepth;
  };
  JsonRecord io;
  try {
    auto json = std::make_shared<const Json>(Json::parse(text, keep_flat));
    if (depth >= kMostDepth || !json->is_object())
      return Error(ErrorCode::usage, "not one JSON object");
    io.document_ = std::move(json);
  } catch (const Json::exception& error) {
    return Error(ErrorCode::usage, format("not one JSON object: {}", error.what()));
  }
  io.inside_.push_back(io.document_.get());
  return io;
}

Status JsonRecord::status() const {
  if (error_) return *error_;
  return {};
}

void JsonRecord::fail(const char* name, const std::string& expected) {
  if (!error_) error_ = Error(ErrorCode::usage, format("field '{}': expected {}", name, expected));
}

const Json* JsonRecord::find(const char* name) {
  if (error_) return nullptr;
  if (element_ != nullptr) return std::exchange(element_, nullptr);
  const auto at = inside_.back()->find(name);
  if (at != inside_.back()->end()) return &*at;
  error_ = Error(ErrorCode::usage, format("field '{}' is missing", name));
  return nullptr;
}

void JsonRecord::begin_value(const char* name) {
  if (!std::exchange(in_list_, false)) out_->key(name);
}

bool JsonRecord::has(const char* name, bool written) {
  if (!reading()) return written;
  if (error_) return false;
  const auto at = inside_.back()->find(name);
  return at != inside_.back()->end() && !at->is_null();
}

bool JsonRecord::null(const char* name, bool written) {
  if (!reading()) {
    if (!written) return false;
    begin_value(name);
    out_->null();
    return true;
  }
  const Json* const element = element_;
  const Json* const value = find(name);
  element_ = element;
  return value == nullptr || value->is_null();
}

void JsonRecord::field(const char* name, bool& value) {
  if (!reading()) {
    begin_value(name);
    out_->value(value);
  } else if (const Json* const json = find(name)) {
    if (!json->is_boolean()) return fail(name, "true or false");
    value = json->get<bool>();
  }
}

void JsonRecord::field(const char* name, double& value, double least, double most) {
  if (!reading()) {
    begin_value(name);
    out_->value(value);
  } else if (const Json* const json = find(name)) {
    if (!json->is_number()) return fail(name, "a number");
    const auto number = json->get<double>();
    if (!(number >= least && number <= most))
      return fail(name, format("a number from {} to {}", least, most));
    value = number;
  }
}

void JsonRecord::field(const char* name, std::string& value, size_t most) {
  if (!reading()) {
    begin_value(name);
    out_->value(value);
  } else if (const Json* const json = find(name)) {
    if (!json->is_string()) return fail(name, "a text");
    const auto& text = json->get_ref<const std::string&>();
    if (text.size() > most) return fail(name, format("a text of at most {} bytes", most));
    value = text;
  }
}

void JsonRecord::field(const char* name, Host& value, size_t most) {
  const std::string id_name = std::string(name) + "_id";
  field(name, value.name, most);
  auto id = int32_t(value.id);
  if (reading() ? has(id_name.c_str(), true) : out_->exact() && value.id != HostId::none) {
    field(id_name.c_str(), id, 0);
    if (reading()) value.id = HostId(id);
  } else if (reading()) {
    value = saved_host(value.name);
  }
}

std::optional<int64_t> JsonRecord::whole(const char* name, int64_t value, int64_t least,
                                         int64_t most) {
  if (!reading()) {
    begin_value(name);
    out_->value(value);
  } else if (const Json* const json = find(name)) {
    const bool fits = json->is_number_unsigned() ? json->get<uint64_t>() <= uint64_t(INT64_MAX)
                                                 : json->is_number_integer();
    if (fits && json->get<int64_t>() >= least && json->get<int64_t>() <= most)
      return json->get<int64_t>();
    fail(name, format("a whole number from {} to {}", least, most));
  }
  return std::nullopt;
}

std::optional<uint64_t> JsonRecord::count(const char* name, uint64_t value, uint64_t least,
                                          uint64_t most) {
  if (!reading()) {
    begin_value(name);
    out_->value(value);
  } else if (const Json* const json = find(name)) {
    if (json->is_number_unsigned() && json->get<uint64_t>() >= least &&
        json->get<uint64_t>() <= most)
      return json->get<uint64_t>();
    fail(name, format("a whole number from {} to {}", least, most));
  }
  return std::nullopt;
}

std::optional<int> JsonRecord::word(const char* name, int value, int how_many,
                                    const std::function<const char*(int)>& of) {
  std::string text;
  if (!reading()) text = of(value);
  field(name, text);
  if (!reading() || error_) return std::nullopt;
  for (int i = 0; i < how_many; ++i)
    if (text == of(i)) return i;
  fail(name, "a known name");
  return std::nullopt;
}

size_t JsonRecord::begin_list(const char* name, size_t size, size_t most) {
  if (!reading()) {
    begin_value(name);
    out_->begin_array();
    return size;
  }
  const Json* const json = find(name);
  inside_.push_back(json);
  if (json == nullptr) return 0;
  if (json->is_array() && json->size() <= most) return json->size();
  fail(name, format("a list of at most {}", most));
  return 0;
}

bool JsonRecord::element(size_t index) {
  in_list_ = !reading();
  if (!reading()) return true;
  if (error_) return false;
  element_ = &(*inside_.back())[index];
  return true;
}

void JsonRecord::end_list() {
  if (!reading())
    out_->end_array();
  else
    inside_.pop_back();
}

bool JsonRecord::begin_object(const char* name) {
  if (!reading()) {
    begin_value(name);
    out_->begin_object();
    return true;
  }
  const Json* const json = find(name);
  if (json == nullptr) return false;
  if (json->is_object())
    inside_.push_back(json);
  else
    fail(name, "an object");
  return json->is_object();
}

void JsonRecord::end_object() {
  if (!reading())
    out_->end_object();
  else
    inside_.pop_back();
}

void JsonRecord::document(const char* name, std::string& text) {
  if (!reading()) {
    begin_value(name);
    out_->raw(text);
  } else if (const Json* const json = find(name)) {
    if (!json->is_object()) return fail(name, "an object");
    text = json->dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

std::string indented_json(const std::string& text) {
  return Json::parse(text).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace collctl::base
