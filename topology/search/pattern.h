// The attempts of the search for one pattern: which rule is relaxed when. Used by search.cc; not
// for two threads at once.
#pragma once
#include "topology/search/channels.h"

namespace collctl::topology {

// `wanted`: pattern, collnet and the range of channels. Without a result one channel in rank order
// (fallback), for collnet no channel.
ChannelGraph search_pattern(const SearchSite& site, ChannelSearch& channels,
                            const SearchRules& wanted, int cross_nic);

}  // namespace collctl::topology
