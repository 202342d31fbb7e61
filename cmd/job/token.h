// The secret that lets a rank into a job which other processes start: a token from --token-file or
// COLLCTL_TOKEN; on loopback without one, a secret that rank 0 leaves where only its user can read
// it.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/socket.h"
#include "base/wait.h"

namespace collctl::cmd {

inline constexpr size_t kLeastTokenBytes = 16;

// The token given, or an empty text: there is none. Files that others could have written or can
// read are refused, short tokens as well. A pipe has so many seconds.
Result<std::string> given_token(const std::string& token_file, double seconds = 10);

// A file of rank 0 for the ranks of the same user on this host; gone with it.
class LocalToken {
 public:
  static Result<std::unique_ptr<LocalToken>> make(const Address& at);
  ~LocalToken();
  const std::string& text() const { return text_; }

 private:
  std::string folder_, path_, text_;
};
// The token that rank 0 of the job at this loopback address has left; waits for it until the
// deadline.
Result<std::string> find_local_token(const Address& at, Deadline deadline,
                                     const std::function<bool()>& cancelled);

// A new one, as `collctl token` prints it.
Result<std::string> new_token();

}  // namespace collctl::cmd
