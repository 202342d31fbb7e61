// The verbs over memory that all ranks of a host map (contract/window.h): what an algorithm that
// has a window may do. As in block.h an algorithm is a function template over a Backend and the
// same text everywhere; a backend that has no windows has no window().
//
// An operation is cut into pieces; each piece uses one bank, and in it: stage, arrive, read what
// the others staged, and perhaps stage, arrive and read once more. All ranks run the same pieces
// with the same arrivals. Offsets are elements: `in` and `out` from the spec's input and output,
// `at` from the bank's begin.
//
// WindowBlock w:
//   w.next_piece(n)                  turns to the other bank, of which n elements will be used: the
//                                    same n on all ranks, n x element size <= Window::bank_bytes
//   w.stage(in, at, n)               input -> own bank
//   w.arrive_and_wait()              says that own staging is done, waits until all others say so
//   w.reduce_from_peers(in, at, out, n, post)
//                                    own input and every peer's bank, summed in the order of ranks
//                                    (so every rank that does it gets the same bits) -> output
//   w.reduce_and_stage(in, at, out, n, post)
//                                    the same -> output and own bank
//   w.copy_from_peer(peer, at, out, n)   that peer's bank -> output
// `post` as in block.h. A verb with n = 0 does nothing. Between a rank's arrival and its next one,
// no rank writes what another reads there: the algorithm ensures that, the recorder proves it.
// No verb waits forever: abort word and deadline end arrive_and_wait(), the only one that waits.
//
// Backend be:
//   Backend::kWindows                present (true) where there are windows
//   be.window(WindowSpec, body)      body(w) with the window of the work's channel
#pragma once
#include "kernels/contract/window.h"
#include "kernels/contract/work.h"

namespace collctl::kernels {

struct WindowSpec {
  const void* input = nullptr;
  void* output = nullptr;
};

}  // namespace collctl::kernels
