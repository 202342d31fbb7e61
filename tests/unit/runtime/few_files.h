// A process that runs out of descriptors, for the tests of what is passed as such.
#pragma once
#include <fcntl.h>
#include <sys/resource.h>

#include <cstddef>

namespace collctl::runtime::testing {

// Room for so many more descriptors in this process, until the end of this.
class FewFiles {
 public:
  explicit FewFiles(size_t left) {
    (void)::getrlimit(RLIMIT_NOFILE, &before_);
    // The limit is a number that every new descriptor stays below: that of the first one too many.
    rlim_t limit = 0;
    for (size_t found = 0;; ++limit)
      if (::fcntl(int(limit), F_GETFD) < 0 && found++ == left) break;
    const rlimit lowered{.rlim_cur = limit, .rlim_max = before_.rlim_max};
    (void)::setrlimit(RLIMIT_NOFILE, &lowered);
  }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;
  ~FewFiles() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace collctl::runtime::testing
