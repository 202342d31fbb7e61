// The verbs over users' buffers that all ranks of a host map (runtime/window/user_window.h): what
// an algorithm may do where every rank's input and output lie in windows. Nothing is staged: a rank
// reads the others' inputs and writes their outputs in place. As in block.h the text is a
// function template over a Backend; a backend without such buffers has no shared().
//
// Offsets are elements: `in` from an input's, `out` from an output's begin, whosever it is; the
// buffers' places may differ from rank to rank. kEverybody as a destination: every rank's output.
//
// SharedBlock s:
//   s.arrive_and_wait()              announces this rank's arrival, waits for all others
//   s.reduce(to, in, out, n, post)   every rank's input, summed in the order of ranks -> output of
//                                    `to`; so whoever sums a place, its bits are the same
//   s.copy(from, in, to, out, n)     the input of `from` -> the output of `to`; one of the two is
//                                    this rank, or `to` is kEverybody and `from` this rank
// `post` as in block.h. A verb with n = 0 does nothing; a copy onto itself moves nothing.
//
// Law (the recorder proves it): before the first arrival and after the last one a rank touches its
// own buffers only, because the others may not have started or may have returned; between two
// arrivals no rank writes what another reads or writes. No verb waits forever.
//
// Backend be:
//   Backend::kShared                 present (true) where there are such buffers
//   be.shared(body)                  body(s) with the work's buffers
#pragma once
#include "kernels/contract/window.h"
#include "kernels/contract/work.h"

namespace collctl::kernels {

inline constexpr int kEverybody = -1;

// The mark of a work whose buffers are shared; `input` and `output` then are addresses in this
// rank's slot of the FlatRange, null where the operation has no such buffer on this rank.
inline constexpr uint8_t kSharedMark = 1;
COLL_FN bool shares_buffers(const Work& work) {
  return work.mark == kSharedMark;
}

}  // namespace collctl::kernels
