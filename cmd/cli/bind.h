// The member of a record that an option fills, named on the option's row (option_rows.h). By that
// row a line is read into the record (fill), the record goes to ranks (option_fields), and ranks
// that were started one by one are held against each other (alike_lines). A record that derives
// from others with options names them: `using Bases = OptionsOf<...>`. Errors: usage. Any thread.
#pragma once
#include "base/record.h"
#include "cmd/cli/parse.h"

namespace collctl::cmd {

// How a member takes what was given, and how it is a field of its record. A type of its own has
// both beside it.
template <class M>
Status read_value(const Option& option, const std::vector<std::string>& given, M& member) {
  if constexpr (std::is_same_v<M, std::string>) {
    member = given.back();
  } else if constexpr (std::is_same_v<M, std::vector<std::string>>) {
    member = given_words(option, given);
  } else if constexpr (std::is_same_v<M, double> || std::is_same_v<M, std::optional<double>>) {
    member = *number_of(option, given.back());
  } else if constexpr (requires { member.emplace_back(); }) {
    member.clear();
    for (const std::string& word : given_words(option, given))
      member.push_back(typename M::value_type(whole_value(option, {word})));
  } else {
    member = M(whole_value(option, given));
  }
  return {};
}

// `least`: the default, which may be less than the row's: none. No seconds are none as well.
template <class M>
void value_field(base::Record& io, const Option& option, const char* name, M& member, M least) {
  if constexpr (std::is_same_v<M, double>) {
    io.field(name, member, std::min({least, option.minimum, 0.0}), option.maximum);
  } else if constexpr (std::is_enum_v<M>) {
    auto number = uint64_t(member);
    word_field(io, option, name, number);
    member = M(number);
  } else if constexpr (requires { requires std::is_enum_v<typename M::value_type>; }) {
    io.list(name, member, [&](auto& each) { value_field(io, option, name, each, each); });
  } else if constexpr (std::is_integral_v<M> && !std::is_same_v<M, bool>) {
    const bool bounded = option.maximum > option.minimum;
    io.field(name, member, std::min(least, M(option.minimum)),
             bounded ? M(option.maximum) : std::numeric_limits<M>::max());
  } else {
    io.field(name, member);
  }
}

// The member itself, or one within it: to<&LaunchOptions::ssh, &ChannelOptions::port>.
template <auto Member, auto... Inner>
struct MemberPath {
  template <class R, class M>
  static R record_of(M R::*);
  using Record = decltype(record_of(Member));
  static auto& in(Record& record) {
    if constexpr (sizeof...(Inner) == 0)
      return record.*Member;
    else
      return MemberPath<Inner...>::in(record.*Member);
  }
  static Status read(const Option& option, const std::vector<std::string>& given, void* record) {
    return read_value(option, given, in(*static_cast<Record*>(record)));
  }
  static void field(base::Record& io, const Option& option, const char* name, void* record) {
    Record fresh{};
    value_field(io, option, name, in(*static_cast<Record*>(record)), in(fresh));
  }
};
template <class R>
inline char record_tag = 0;  // its address stands for the type

template <auto... Path>
inline constexpr Binding to{.record = &record_tag<typename MemberPath<Path...>::Record>,
                            .read = MemberPath<Path...>::read,
                            .field = MemberPath<Path...>::field};
// All ranks that were started one by one must have it alike.
template <auto... Path>
inline constexpr Binding alike = [] {
  Binding binding = to<Path...>;
  binding.alike = true;
  return binding;
}();

template <class... Records>
struct OptionsOf {
  template <class R, class Each>
  static void each_of(R& record, const Each& each) {
    (each_option_of(static_cast<Records&>(record), each), ...);
  }
};
// The record's options in the table's order, those of its bases first.
template <class R, class Each>
void each_option_of(R& record, const Each& each) {
  if constexpr (requires { typename R::Bases; }) R::Bases::each_of(record, each);
  for (const Option& option : options())
    if (option.fills.record == &record_tag<R>) each(option, static_cast<void*>(&record));
}

// Whether a line's option of that name is this row: `run` takes the options of all that it runs, of
// which several may have one name; then each record has its own.
inline bool is_given(const ParsedLine& line, const Option& option) {
  if (!line.has(option.name)) return false;
  const Option& first = line.row(option.name);
  return &first == &option ||
         (first.fills.record != option.fills.record && line.command != nullptr &&
          (option.scopes & line.command->scopes) != 0);
}

// Reads the record's options that a line gives; the others stay as they are.
template <class R>
Status fill(const ParsedLine& line, R& record) {
  Status status;
  each_option_of(record, [&](const Option& option, void* at) {
    if (status && is_given(line, option))
      status = option.fills.read(option, line.all(option.name), at);
  });
  return status;
}

// The record's options as its fields, named as they are (field_name).
template <class R>
void option_fields(base::Record& io, R& record) {
  each_option_of(record, [&](const Option& option, void* at) {
    if (is_field(option)) option.fills.field(io, option, field_name(option).c_str(), at);
  });
}

// A line of name, tab and value for each option that must be alike (task_text). `json`: the record.
template <class R>
std::string alike_lines(const std::string& json) {
  R none;
  std::string text;
  each_option_of(none, [&](const Option& option, void*) {
    if (option.fills.alike && is_field(option)) text += alike_line(option, json);
  });
  return text;
}

}  // namespace collctl::cmd
