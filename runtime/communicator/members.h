// A communicator that was split off numbers its ranks anew; people know them by the numbers they
// had before. Pure.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace collctl::runtime {

// Members of a group: its ranks in the order of their new numbers. cards[r]: what rank r asked for.
// Empty for a negative colour.
struct SplitCard {
  int colour = -1, key = 0;
};
std::vector<int> split_members(std::span<const SplitCard> cards, int colour);

// A number that is no member's stays.
int in_numbers_of(std::span<const int> members, int rank);
// "rank 1" of a text of the group as "rank 5", "ranks 0-1, 3" as "ranks 4-5, 7", where members[1]
// is 5. A number that is no member stays. For the group's own texts: no other says "rank N" there.
std::string in_numbers_of(std::span<const int> members, std::string_view text);
// The same of all of an error: texts, the rank at fault, whom it waited for.
Error in_numbers_of(std::span<const int> members, Error error);

}  // namespace collctl::runtime
