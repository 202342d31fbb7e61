#include "transport/net/ib/filter.h"

#include <algorithm>

#include "base/format.h"
#include "base/split.h"
#include "base/whole_number.h"

namespace collctl::transport {

namespace {

Error bad_filter(const std::string& text, const std::string& why) {
  return Error(ErrorCode::usage, format("COLLCTL_IB_HCA = '{}': {}", text, why),
               "expected names such as mlx5_0,mlx5_1:1; a leading = matches whole names, a leading "
               "^ excludes");
}

}  // namespace

Result<IbFilter> IbFilter::parse(const std::string& text) {
  IbFilter filter;
  size_t at = 0;
  for (; at < text.size() && (text[at] == '^' || text[at] == '='); ++at)
    (text[at] == '^' ? filter.exclude_ : filter.exact_) = true;
  if (at == text.size()) {
    if (at != 0) return bad_filter(text, "no names given");
    return filter;
  }
  for (const std::string_view item : base::split(std::string_view(text).substr(at), ',')) {
    const size_t colon = std::min(item.find(':'), item.size());
    Item read{.device = std::string(item.substr(0, colon)), .port = 0};
    if (read.device.empty()) return bad_filter(text, "a name is empty");
    if (colon < item.size()) {
      read.port = base::whole_number(item.substr(colon + 1)).value_or(0);
      if (read.port < 1 || read.port > 255)
        return bad_filter(text, format("'{}' has no valid port", item));
    }
    filter.items_.push_back(std::move(read));
  }
  return filter;
}

bool IbFilter::allows(const std::string& device, int port) const {
  if (items_.empty()) return true;
  const bool named = std::any_of(items_.begin(), items_.end(), [&](const Item& item) {
    const bool matches = exact_ ? device == item.device : device.starts_with(item.device);
    return matches && (item.port == 0 || item.port == port);
  });
  return named != exclude_;
}

}  // namespace collctl::transport
