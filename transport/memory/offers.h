// Objects that one rank offers to another of the same process: kept under a random token that
// travels in the blob, so that no address is ever taken from outside. Used by the transports that
// work by direct pointer. Threads: any.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "base/auth.h"
#include "base/result.h"

namespace collctl::transport {

template <class T>
class Offers {
 public:
  using Token = std::array<uint8_t, 16>;

  // Can be taken once, while this lives.
  class Offer {
   public:
    Offer() = default;
    Offer(Offers* offers, const Token& token) : offers_(offers), token_(token) {}
    Offer(Offer&& other) noexcept { *this = std::move(other); }
    Offer& operator=(Offer&& other) noexcept {
      std::swap(offers_, other.offers_);
      std::swap(token_, other.token_);
      return *this;
    }
    ~Offer() {
      if (offers_ != nullptr) offers_->take(token_);
    }
    const Token& token() const { return token_; }

   private:
    Offers* offers_ = nullptr;
    Token token_{};
  };

  Result<Offer> put(std::shared_ptr<T> thing) {
    COLL_ASSIGN(const base::Secret token, base::random_secret());
    const std::scoped_lock lock(mutex_);
    waiting_.emplace(token.bytes, std::move(thing));
    return Offer(this, token.bytes);
  }
  // Null when it was already taken or is no longer offered.
  std::shared_ptr<T> take(const Token& token) {
    const std::scoped_lock lock(mutex_);
    auto node = waiting_.extract(token);
    return node.empty() ? nullptr : std::move(node.mapped());
  }

 private:
  std::mutex mutex_;
  std::map<Token, std::shared_ptr<T>> waiting_;
};

}  // namespace collctl::transport
