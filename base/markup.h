// Text inside XML and HTML. Pure; threads: any.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace collctl::base {

// The text with entities for what markup gives a meaning (& < > "), and for each other character
// what `other` makes of it: formats differ in what they allow.
std::string escaped_markup(std::string_view text, const std::function<std::string(char)>& other);

}  // namespace collctl::base
