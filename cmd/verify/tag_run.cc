#include "cmd/verify/tag_run.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/check.h"

namespace collctl::cmd {

using kernels::DataType;

namespace {

constexpr uint64_t kPoisonTag = 0xA5A5A5A5A5A5A5A5u;
constexpr int kElementBits = 40;

// Pieces of element width; of 2-byte elements two bytes side by side, for there is no 16-bit
// integer type. Their sums never carry: nibbles stay below 16.
DataType piece_type(uint32_t element_bytes) {
  if (element_bytes == 8) return DataType::uint64;
  return element_bytes == 4 ? DataType::uint32 : DataType::uint8;
}

uint64_t weight(int rank, uint64_t element) {
  const uint64_t i = element % kPatternPeriod;
  const uint64_t h = (i * 0x9E3779B97F4A7C15u) ^ (uint64_t(rank) * 0xD6E8FEB86659FD93u);
  return (h >> 37 & 1) != 0 ? 5 : 3;
}
uint64_t movement_tag(int rank, uint64_t element) {
  return uint64_t(rank + 1) << kElementBits | (element & ((uint64_t(1) << kElementBits) - 1));
}

class Passes {
 public:
  Passes(const TagRun& run)
      : run_(run),
        sums_(has_op(run.key.collective)),
        width_(kernels::element_size(run.key.type)),
        per_pass_(sums_ ? int(width_ * 2) : int(width_ * 8)),
        mask_(width_ == 8 ? ~uint64_t(0) : (uint64_t(1) << width_ * 8) - 1) {
    const int units = sums_ ? run.place.nranks : 64;
    count_ = (units + per_pass_ - 1) / per_pass_;
  }
  int count() const { return count_; }
  bool sums() const { return sums_; }
  int per_pass() const { return per_pass_; }

  // The input of this rank, and the contents that a segment must have, in one pass.
  uint64_t mine(int pass, uint64_t element) const {
    if (!sums_) return movement_piece(pass, run_.place.rank, element);
    const int nibble = run_.place.rank - pass * per_pass_;
    if (nibble < 0 || nibble >= per_pass_) return 0;
    return weight(run_.place.rank, element) << nibble * 4;
  }
  uint64_t wanted(int pass, const Segment& segment, uint64_t i) const {
    if (!sums_) return movement_piece(pass, segment.rank, segment.first + i);
    uint64_t sum = 0;
    const int first = pass * per_pass_;
    const int last = std::min(first + per_pass_, run_.place.nranks);
    for (int rank = first; rank < last; ++rank)
      sum |= weight(rank, segment.first + i) << (rank - first) * 4;
    return sum;
  }

 private:
  uint64_t movement_piece(int pass, int rank, uint64_t element) const {
    return movement_tag(rank, element) >> pass * per_pass_ & mask_;
  }

  const TagRun& run_;
  bool sums_;
  uint32_t width_;
  int per_pass_;  // sums: ranks; data movement: bits
  uint64_t mask_;
  int count_ = 0;
};

// Elements [first, first + elements) of this rank's input. A table of one period for sums (the tags
// repeat with it), else computed element by element.
void put_pieces(const Passes& passes, int pass, uint32_t width, uint8_t* out, uint64_t first,
                uint64_t elements) {
  if (passes.sums()) {
    std::vector<uint64_t> entries(std::min<uint64_t>(elements, kPatternPeriod));
    for (uint64_t i = 0; i < entries.size(); ++i) entries[i] = passes.mine(pass, first + i);
    Pattern(width, first, entries).fill(out, first, elements);
    return;
  }
  for (uint64_t i = 0; i < elements; ++i) {
    const uint64_t piece = passes.mine(pass, first + i);
    std::memcpy(out + i * width, &piece, width);
  }
}

struct Found {
  Segment segment;
  uint64_t index = 0;         // of the element in the segment
  std::vector<uint64_t> got;  // by pass; what was wanted where nothing was found wrong
};
using Finds = std::map<uint64_t, Found>;  // by output element

// Compares a piece of one pass, elements from `first` of the segment on; keeps what the samples
// need.
uint64_t compare_piece(const Passes& passes, int pass, uint32_t width, const Segment& segment,
                       const uint8_t* piece, uint64_t first, uint64_t elements, Finds& finds) {
  std::vector<uint64_t> table;
  if (passes.sums()) {
    table.resize(std::min<uint64_t>(elements, kPatternPeriod));
    for (uint64_t i = 0; i < table.size(); ++i) table[i] = passes.wanted(pass, segment, first + i);
  }
  uint64_t bad = 0, entry = 0;
  for (uint64_t i = 0; i < elements; ++i) {
    const uint64_t at = first + i;
    const uint64_t want = passes.sums() ? table[entry] : passes.wanted(pass, segment, at);
    if (++entry == table.size()) entry = 0;
    uint64_t got = 0;
    std::memcpy(&got, piece + i * width, width);
    if (got == want) continue;
    ++bad;
    auto found = finds.find(segment.at + at);
    if (found == finds.end()) {
      if (finds.size() >= kMaxTagSamples) continue;
      Found fresh{segment, at, {}};
      for (int p = 0; p < passes.count(); ++p) fresh.got.push_back(passes.wanted(p, segment, at));
      found = finds.emplace(segment.at + at, std::move(fresh)).first;
    }
    found->second.got[size_t(pass)] = got;
  }
  return bad;
}

Result<uint64_t> compare_pass(const TagRun& run, const Passes& passes, int pass,
                              const Segment& segment, Finds& finds) {
  const uint32_t width = kernels::element_size(run.key.type);
  uint64_t bad = 0;
  COLL_TRY(run.buffers.output->read(
      run.buffers.output_at + segment.at * width, segment.count * width,
      [&](const uint8_t* piece, uint64_t at, uint64_t bytes) {
        bad += compare_piece(passes, pass, width, segment, piece, at / width, bytes / width, finds);
      }));
  return bad;
}

TagState nibble_state(uint64_t got, uint64_t want) {
  if (got == want) return TagState::right;
  if (got == 0) return TagState::missing;
  if (got == 2 * want) return TagState::doubled;
  return got == 8 - want ? TagState::foreign : TagState::damaged;
}

// `want` with every lane doubled, as a sum of it with itself would be.
uint64_t doubled_piece(uint64_t want, uint32_t width) {
  if (width == 2) return (want * 2 & 0xFE) | (((want >> 8) * 2 & 0xFF) << 8);
  return width == 8 ? want * 2 : want * 2 & ((uint64_t(1) << width * 8) - 1);
}

TagSample judge_movement(const TagRun& run, const Passes& passes, const Found& found) {
  const uint32_t width = kernels::element_size(run.key.type);
  TagSample sample;
  uint64_t tag = 0;
  bool twice = true;
  for (int p = 0; p < passes.count(); ++p) {
    const uint64_t got = found.got[size_t(p)];
    tag |= got << p * passes.per_pass();
    twice = twice && got == doubled_piece(passes.wanted(p, found.segment, found.index), width);
  }
  const uint64_t source = tag >> kElementBits;
  const uint64_t element = tag & ((uint64_t(1) << kElementBits) - 1);
  const uint64_t want = movement_tag(found.segment.rank, found.segment.first + found.index);
  TagState state = TagState::damaged;
  if (tag == want)
    state = TagState::right;
  else if (tag == 0)
    state = TagState::missing;
  else if (tag == kPoisonTag)
    state = TagState::unwritten;
  else if (twice)
    state = TagState::doubled;
  // One flipped bit may make another valid tag; a foreign element differs by more, mostly.
  else if (__builtin_popcountll(tag ^ want) > 1 && source >= 1 &&
           source <= uint64_t(run.place.nranks) &&
           element < run.key.size.count * uint64_t(run.place.nranks))
    state = TagState::foreign;
  sample.states = {state};
  if (state == TagState::foreign) {
    sample.foreign_rank = int(source) - 1;
    sample.foreign_element = element;
  }
  return sample;
}

TagSample judge_sum(const TagRun& run, const Passes& passes, const Found& found) {
  TagSample sample;
  bool untouched = true;
  const uint32_t width = kernels::element_size(run.key.type);
  for (uint64_t got : found.got)
    untouched = untouched && std::memcmp(&got, &kPoisonTag, width) == 0;
  for (int rank = 0; rank < run.place.nranks; ++rank) {
    const int pass = rank / passes.per_pass(), nibble = rank % passes.per_pass();
    const uint64_t got = found.got[size_t(pass)] >> nibble * 4 & 15;
    const uint64_t want = weight(rank, found.segment.first + found.index);
    sample.states.push_back(untouched ? TagState::unwritten : nibble_state(got, want));
  }
  return sample;
}

}  // namespace

Result<TagFindings> run_tags(const TagRun& run) {
  COLL_CHECK(run.place.nranks <= kMaxTaggedRanks);
  const Passes passes(run);
  const uint32_t width = kernels::element_size(run.key.type);
  const bool in_place = run.buffers.input == run.buffers.output;
  const BufferShape shape = buffer_shape(run.key.collective, run.key.size.count, run.place);
  RowKey key = run.key;
  key.type = piece_type(width);
  key.op = kernels::RedOp::sum;
  if (width == 2) key.size.count *= 2;
  const std::vector<Submission> submissions = submissions_for(key, run.place, run.buffers);
  const auto segments =
      output_segments(run.key.collective, run.key.size.count, run.place, in_place);
  const auto wanted_source = passes.sums() ? Segment::Source::reduced : Segment::Source::input;
  Finds finds;
  TagFindings findings;
  for (int pass = 0; pass < passes.count(); ++pass) {
    COLL_TRY(run.buffers.output->poison(run.buffers.output_bytes));
    COLL_TRY(run.buffers.input->write(
        run.buffers.input_at, shape.input * width, passes.sums() ? kPatternPeriod * width : 0,
        [&](uint8_t* piece, uint64_t at, uint64_t bytes) {
          put_pieces(passes, pass, width, piece, at / width, bytes / width);
        }));
    for (const Submission& operations : submissions)
      COLL_TRY(run.communicator.start_all(operations, run.stream,
                                          runtime::Communicator::Launch::blocking));
    COLL_TRY(run.stream.synchronize());
    uint64_t bad = 0;
    for (const Segment& segment : segments)
      if (segment.source == wanted_source) {
        COLL_ASSIGN(const uint64_t more, compare_pass(run, passes, pass, segment, finds));
        bad += more;
      }
    findings.bad = std::max(findings.bad, bad);
  }
  for (const auto& [element, found] : finds) {
    TagSample sample =
        passes.sums() ? judge_sum(run, passes, found) : judge_movement(run, passes, found);
    sample.element = element;
    findings.samples.push_back(std::move(sample));
  }
  return findings;
}

}  // namespace collctl::cmd
