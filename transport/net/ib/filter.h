// Which ports of RDMA devices may be used: NCCL's list of names, "mlx5_0:1,mlx5_2". A name is
// a prefix; a leading = makes all of them exact, a leading ^ excludes them, in either order. A
// :port behind a name means that port only. Pure.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"

namespace collctl::transport {

class IbFilter {
 public:
  // Error: usage: an empty name, or a port that is no number from 1 to 255.
  static Result<IbFilter> parse(const std::string& text);
  bool allows(const std::string& device, int port) const;

 private:
  struct Item {
    std::string device;
    int port = 0;  // 0: every one
  };
  bool exact_ = false, exclude_ = false;
  std::vector<Item> items_;
};

}  // namespace collctl::transport
