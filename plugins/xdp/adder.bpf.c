/* In-kernel aggregator: adds contributions on arrival and answers with the results.

   `receive` runs for every packet of the interface. It adds and drops contributions of workers that
   have joined a job handled here. All other packets continue to the host unchanged. `answer` runs
   for packets that complete a result or request it again. It builds the result's datagram and sends
   a copy to every worker. hcomp-aggregator calls `serve` for contributions that arrived elsewhere,
   and for deadlines.
   Contributions are handled as in hcomp::aggregator. */

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "layout.h"

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;

/* udp::frame and aggregation_packet. */
struct frame {
  u64 checksum;
  u32 magic, job;
  u16 kind, rank;
  u32 session;
};
struct packet {
  u16 magic;
  u8 kind, bits;
  u16 largest_level, flags;
  u32 round, chunk, values;
  u16 members, rank;
  u32 key, unit;
};
enum { frame_magic = 0x31554348, kind_packet = 1 };
enum { packet_magic = 0x5401, kind_indices = 1, kind_sums = 2, has_nonfinite = 1, comes_late = 2 };
enum fault {
  fault_none,
  fault_length,
  fault_magic,
  fault_kind,
  fault_rank,
  fault_members,
  fault_values,
  fault_levels,
  fault_chunk,
  fault_key,
  fault_unit,
  fault_sender,
  fault_round
};

enum slot_state { slot_empty, slot_open, slot_out };
struct slot {
  struct bpf_spin_lock lock;
  u32 round, values, key, unit;
  u16 members, flags, state, unused;
  u64 since, seen;
  u64 sums[xdp_sum_words];
};

/* Scratch memory for one datagram in and one out, per program and core. */
enum { of_receive, of_answer, of_serve, work_areas };
struct work_area {
  u64 in[xdp_work_area_words];
  u64 lanes[xdp_sum_words];
  u64 out[xdp_work_area_words];
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct xdp_job);
} jobs SEC(".maps");
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, u32);
} job_numbers SEC(".maps");
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct slot);
} slots SEC(".maps");
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, work_areas);
  __type(key, u32);
  __type(value, struct work_area);
} memory SEC(".maps");

const volatile struct xdp_settings settings SEC(".rodata.settings");

/* Message from `receive` to `answer`, in the last bytes of a packet. It exists only in packets with
   metadata, which only an XDP program can add. It is not in the metadata itself: in generic mode
   `answer` cannot find metadata, because Linux forgets mac_len when it copies a packet (6.18). */
struct mark {
  u32 job, slot, round;
  u16 to;             /* a rank or xdp_everybody */
  u16 flags;          /* of the answer, besides those of the result */
  u32 bytes;          /* of the frame, with all its headers */
  u32 is_to_complete; /* the sender must complete the UDP checksum (from Linux's packet buffer) */
};

static __always_inline void count(u64* metric) { __sync_fetch_and_add(metric, 1); }

static __always_inline u64 mix(u64 z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/* Checksum of udp::frame. The verifier checks a function that is not static once, not once per
   state of its callers. */
__noinline u64 checksum_in(struct work_area* work_area, u32 bytes, bool is_out) {
  if (!work_area) return 0;
  u64 const* const words = is_out ? work_area->out : work_area->in;
  u64 sum = 0;
  for (u32 i = 1; i < xdp_work_area_words; ++i) {
    if (i * 8 >= bytes) break;
    sum += mix(words[i] + i * 0x9e3779b97f4a7c15ull);
  }
  return mix(sum + bytes - 8);
}

/* Widens the payload of room->in to lanes of the result's width. */
__noinline int widen(struct work_area* work_area, struct xdp_job* job, u32 bytes_per_word,
                     u32 words) {
  if (!work_area || !job) return 0;
  void const* const payload = work_area->in + xdp_payload_word;
  u64 const* const lanes = job->lanes;
  if (bytes_per_word == 4) {
    for (u32 i = 0; i < xdp_sum_words; ++i) {
      if (i >= words) break;
      u32 const some = ((u32 const*)payload)[i];
      work_area->lanes[i] = lanes[some & 255] | lanes[some >> 8 & 255] << 16 |
                            lanes[some >> 16 & 255] << 32 | lanes[some >> 24] << 48;
    }
  } else if (bytes_per_word == 2) {
    for (u32 i = 0; i < xdp_sum_words; ++i) {
      if (i >= words) break;
      u32 const some = ((u16 const*)payload)[i];
      work_area->lanes[i] = lanes[some & 255] | lanes[some >> 8 & 255] << 32;
    }
  } else {
    for (u32 i = 0; i < xdp_sum_words; ++i) {
      if (i >= words) break;
      work_area->lanes[i] = lanes[((u8 const*)payload)[i]];
    }
  }
  return 0;
}

static __always_inline u32 words_of(struct xdp_job const* job, u32 values) {
  return job->sum_bits == 8 ? (values + 7) / 8 : (values + 3) / 4;
}

/* Compares rounds like sequence numbers. */
static __always_inline int rounds_between(u32 from, u32 to) { return (int)(to - from); }

static __always_inline int fault_of(struct xdp_job const* job, struct packet const* header,
                                    u32 rank, u32 bytes) {
  if (header->magic != packet_magic) return fault_magic;
  if (header->kind != kind_indices) return fault_kind;
  if (header->rank >= job->workers) return fault_rank;
  if (header->members != 1) return fault_members;
  if (header->bits != job->bits || header->largest_level != job->largest_level) return fault_levels;
  if (header->chunk >= job->chunks) return fault_chunk;
  if (header->values < 1 || header->values > job->chunk_values) return fault_values;
  if (bytes != xdp_header_bytes + (header->values * job->bits + 7) / 8) return fault_length;
  if (header->rank != rank) return fault_sender;
  if (job->newest && rounds_between((u32)job->newest, header->round) > (int)job->rounds_ahead)
    return fault_round;
  return fault_none;
}

/* Result of a contribution. */
enum outcome { is_done, is_refused, is_to_answer, is_for_process };

/* Adds the contribution in room->in.
   @param answers_all  false: if a result would go to unreachable workers, adds nothing and leaves
                       the contribution to hcomp-aggregator */
static __always_inline enum outcome take(struct xdp_job* job, u32 rank, struct work_area* work_area,
                                         u32 bytes, u64 now, bool answers_all, struct mark* answer,
                                         u32* why) {
  struct packet const* const header = (void*)work_area->in + xdp_frame_bytes;
  int fault = fault_of(job, header, rank, bytes);
  *why = fault;
  if (fault != fault_none) {
    if (fault < xdp_faults) count(&job->stats.refused[fault]);
    return is_refused;
  }
  u32 const values = header->values, round = header->round, chunk = header->chunk;
  u32 const key = header->key, unit = header->unit;
  u16 const flags = header->flags & has_nonfinite;
  u32 const rounds = job->rounds;
  if (rounds == 0) return is_for_process; /* never happens, but the verifier does not know */
  u32 const at = job->first_slot + round % rounds * job->chunks + chunk;
  struct slot* const slot = bpf_map_lookup_elem(&slots, &at);
  if (!slot) return is_for_process;

  u32 const end = values * job->bits;
  if (end & 7) { /* clears the bits after the last index */
    u32 const last = (xdp_payload_word * 8 + end / 8) & 1023;
    if (last < xdp_longest_contribution) ((u8*)work_area->in)[last] &= (1u << (end & 7)) - 1;
  }
  u32 const words = words_of(job, values);
  widen(work_area, job, job->sum_bits == 8 ? job->bits : job->bits / 2, words);

  u64 const bit = 1ull << (rank & 63);
  u32 const quota = job->quota, workers = job->workers;
  bool const must_pass = !answers_all && (job->joined & ~job->reachable) != 0;
  bool const answers_late = job->answer_late != 0;
  enum outcome outcome = is_done;
  bool added = false, abandoned = false, began = false, stale = false, late = false, twice = false;
  bool whole = false, partial = false;
  u16 late_flag = 0;

  bpf_spin_lock(&slot->lock);
  u16 state = slot->state;
  bool const is_other = state != slot_empty && slot->round != round;
  u16 const members = state == slot_open && !is_other ? slot->members : 0;
  if (is_other && rounds_between(slot->round, round) < 0) {
    stale = true;
  } else if (state != slot_empty && !is_other &&
             (slot->values != values || slot->key != key || slot->unit != unit)) {
    fault = slot->values != values ? fault_values : slot->key != key ? fault_key : fault_unit;
    outcome = is_refused;
  } else if (state == slot_out && !is_other) {
    late = (slot->seen & bit) == 0;
    twice = !late;
    if (!late || answers_late) outcome = is_to_answer;
    late_flag = late ? comes_late : 0;
  } else if (state == slot_open && !is_other && (slot->seen & bit)) {
    twice = true;
  } else if (must_pass && members + 1 >= quota) {
    outcome = is_for_process;
  } else {
    abandoned = state == slot_open && is_other;
    began = state != slot_open || is_other;
    if (began) {
      slot->state = slot_open;
      slot->flags = 0;
      slot->round = round;
      slot->values = values;
      slot->key = key;
      slot->unit = unit;
      slot->since = now;
      slot->seen = 0;
      for (u32 i = 0; i < xdp_sum_words; ++i) slot->sums[i] = work_area->lanes[i];
    } else {
      for (u32 i = 0; i < xdp_sum_words; ++i) slot->sums[i] += work_area->lanes[i];
    }
    slot->seen |= bit;
    slot->flags |= flags;
    slot->members = members + 1;
    added = true;
    if (members + 1 >= quota) {
      slot->state = slot_out;
      whole = members + 1 == workers;
      partial = !whole;
      outcome = is_to_answer;
    }
  }
  bpf_spin_unlock(&slot->lock);

  if (outcome == is_for_process) return outcome;
  if (outcome == is_refused) {
    *why = fault;
    if (fault >= 0 && fault < xdp_faults) count(&job->stats.refused[fault]);
    return outcome;
  }
  if (began) {
    if (!job->newest || rounds_between((u32)job->newest, round) > 0)
      job->newest = 1ull << 32 | round;
    if (!abandoned) __sync_fetch_and_add(&job->open, 1);
  }
  if (whole || partial) __sync_fetch_and_add(&job->open, -1);
  if (abandoned) count(&job->stats.abandoned);
  if (added) count(&job->stats.added);
  if (stale) count(&job->stats.stale);
  if (twice) count(&job->stats.duplicates);
  if (late) count(&job->stats.late);
  if (whole) count(&job->stats.whole);
  if (partial) count(&job->stats.partial);
  answer->slot = at;
  answer->round = round;
  answer->to = added ? xdp_everybody : rank;
  answer->flags = late_flag;
  return outcome;
}

/* Builds the datagram of a slot's result in room->out. Returns its size in bytes, or 0 if a newer
   round has taken the slot. */
static __always_inline u32 make_answer(struct xdp_job* job, struct work_area* work_area,
                                       struct mark const* what) {
  struct slot* const slot = bpf_map_lookup_elem(&slots, &what->slot);
  if (!slot) return 0;
  struct packet header = {.magic = packet_magic, .kind = kind_sums, .round = what->round};
  u64 seen = 0;
  bool found = false;
  bpf_spin_lock(&slot->lock);
  if (slot->state == slot_out && slot->round == what->round) {
    found = true;
    header.flags = slot->flags | what->flags;
    header.values = slot->values;
    header.members = slot->members;
    header.key = slot->key;
    header.unit = slot->unit;
    seen = slot->seen;
    for (u32 i = 0; i < xdp_sum_words; ++i) work_area->out[xdp_payload_word + i] = slot->sums[i];
  }
  bpf_spin_unlock(&slot->lock);
  if (!found || job->chunks == 0) return 0;
  header.bits = job->sum_bits;
  header.largest_level = job->largest_level;
  header.chunk = (what->slot - job->first_slot) % job->chunks;
  header.rank = job->workers;
  struct frame const frame = {.magic = frame_magic, .job = job->number, .kind = kind_packet};
  __builtin_memcpy(work_area->out, &frame, sizeof frame);
  __builtin_memcpy((void*)work_area->out + xdp_frame_bytes, &header, sizeof header);

  u32 const end = xdp_payload_word * 8 + header.values * job->sum_bits / 8;
  if (end > xdp_longest_answer - 8) return 0;
  u8* const rest = (u8*)work_area->out + end; /* members, and zeros to the end of their last word */
  for (u32 i = 0; i < 8; ++i) rest[i] = seen >> (8 * i);
  for (u32 i = 8; i < 16; ++i) rest[i] = 0;
  u32 const bytes = end + (job->workers + 7) / 8;
  if (bytes > xdp_longest_answer) return 0;
  work_area->out[0] = checksum_in(work_area, bytes, true);
  return bytes;
}

struct headers {
  struct ethhdr ethernet;
  struct iphdr ip;
  struct udphdr udp;
} __attribute__((packed));

static __always_inline u16 folded(u64 sum) {
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32 << 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return (sum & 0xffff) + (sum >> 16);
}

/* Checksum of UDP's pseudo header. A packet with an incomplete checksum holds it. */
static __always_inline u16 pseudo_sum(u32 from, u32 to, u16 length) {
  return folded((u64)from + to + bpf_htons(IPPROTO_UDP) + length);
}

/* Checksum of all words of the datagram in room->in. */
__noinline u32 sum_in(struct work_area* work_area, u32 bytes) {
  if (!work_area) return 0;
  u64 sum = 0;
  for (u32 i = 0; i < xdp_work_area_words; ++i) {
    if (i * 8 >= bytes) break;
    sum += (work_area->in[i] & 0xffffffff) + (work_area->in[i] >> 32);
  }
  return folded(sum);
}

static __always_inline bool is_own_address(u32 address) {
  for (u32 i = 0; i < xdp_addresses; ++i)
    if (i < settings.addresses && settings.address[i] == address) return true;
  return false;
}

static __always_inline u64 hardware_in(u8 const* bytes) {
  u64 address = 0;
  __builtin_memcpy(&address, bytes, ETH_ALEN);
  return address;
}

SEC("xdp.frags") int receive(struct xdp_md* ctx) {
  struct headers const* const h = (void*)(long)ctx->data;
  if ((void const*)(h + 1) > (void*)(long)ctx->data_end) return XDP_PASS;
  if (h->ethernet.h_proto != bpf_htons(ETH_P_IP) || h->ip.version != 4 || h->ip.ihl != 5 ||
      h->ip.protocol != IPPROTO_UDP || (h->ip.frag_off & bpf_htons(0x3fff)) ||
      h->udp.dest != settings.port || !is_own_address(h->ip.daddr))
    return XDP_PASS;
  u32 const bytes = bpf_ntohs(h->udp.len) - 8u;
  if (bytes < xdp_payload_word * 8 || bytes > xdp_longest_contribution ||
      bpf_ntohs(h->ip.tot_len) != bytes + sizeof h->udp + sizeof h->ip)
    return XDP_PASS;
  u64 const hardware = hardware_in(h->ethernet.h_source);
  u64 const own_hardware = hardware_in(h->ethernet.h_dest);
  u32 const from = h->ip.saddr, own_address = h->ip.daddr;
  u16 const port = h->udp.source, to_port = h->udp.dest;
  u16 const checksum = h->udp.check, length = h->udp.len;

  u32 const mine = of_receive;
  struct work_area* const work_area = bpf_map_lookup_elem(&memory, &mine);
  if (!work_area) return XDP_PASS;
  work_area->in[bytes / 8] = 0;
  work_area->in[bytes / 8 + 1] = 0;
  if (bpf_xdp_load_bytes(ctx, sizeof *h, work_area->in, bytes) != 0) return XDP_PASS;
  struct frame const* const frame = (void*)work_area->in;
  if (frame->magic != frame_magic || frame->kind != kind_packet) return XDP_PASS;
  u32 const number = frame->job;
  u32 const* const index = bpf_map_lookup_elem(&job_numbers, &number);
  if (!index) return XDP_PASS;
  struct mark answer = {.job = *index};
  struct xdp_job* const job = bpf_map_lookup_elem(&jobs, &answer.job);
  if (!job) return XDP_PASS;
  u32 const rank = frame->rank;
  if (rank >= xdp_workers || !(job->known >> rank & 1)) return XDP_PASS;
  struct xdp_peer* const peer = &job->peers[rank];
  if (peer->session != frame->session || peer->address != from || peer->port != port)
    return XDP_PASS;
  if (checksum_in(work_area, bytes, false) != frame->checksum) return XDP_PASS;

  if (peer->hardware != hardware) peer->hardware = hardware;
  if (peer->own_hardware != own_hardware) peer->own_hardware = own_hardware;
  if (peer->own_address != own_address) peer->own_address = own_address;
  if (!(job->reachable >> rank & 1)) __sync_fetch_and_or(&job->reachable, 1ull << rank);

  /* A packet of this host or its neighbours may hold an incomplete checksum, the one of the pseudo
     header. A complete checksum can have the same value by chance, so verify all of it. */
  u16 const half = pseudo_sum(from, own_address, length);
  if (checksum == half)
    answer.is_to_complete =
        folded((u64)half + port + to_port + length + checksum + sum_in(work_area, bytes)) != 0xffff;

  struct packet const* const header = (void*)work_area->in + xdp_frame_bytes;
  if (header->magic != packet_magic || header->kind != kind_indices) return XDP_PASS;
  u64 const now = bpf_ktime_get_ns();
  u32 why;
  enum outcome const outcome =
      take(job, rank, work_area, bytes - xdp_frame_bytes, now, false, &answer, &why);
  if (outcome == is_for_process) return XDP_PASS;
  count(&job->stats.received);
  job->last_heard = now;
  if (outcome != is_to_answer) return XDP_DROP;

  answer.bytes = bpf_xdp_get_buff_len(ctx);
  if (bpf_xdp_store_bytes(ctx, answer.bytes - sizeof answer, &answer, sizeof answer) != 0 ||
      bpf_xdp_adjust_meta(ctx, -4) != 0) {
    count(&job->stats.lost);
    return XDP_DROP;
  }
  return XDP_PASS;
}

static __always_inline u16 ip_checksum(void const* header) {
  u32 sum = 0;
  for (u32 i = 0; i < sizeof(struct iphdr) / 2; ++i) sum += ((u16 const*)header)[i];
  sum = (sum & 0xffff) + (sum >> 16);
  return ~(sum + (sum >> 16));
}

SEC("tc") int answer(struct __sk_buff* skb) {
  if ((void*)(long)skb->data_meta + 4 > (void*)(long)skb->data) return TC_ACT_UNSPEC;
  struct mark what;
  if (bpf_skb_load_bytes(skb, skb->len - sizeof what, &what, sizeof what) != 0) return TC_ACT_SHOT;
  struct xdp_job* const job = bpf_map_lookup_elem(&jobs, &what.job);
  u32 const mine = of_answer;
  struct work_area* const work_area = bpf_map_lookup_elem(&memory, &mine);
  if (!job || !work_area) return TC_ACT_SHOT;
  if (skb->len == what.bytes - ETH_HLEN && bpf_skb_change_head(skb, ETH_HLEN, 0) != 0) {
    count(&job->stats.lost);
    return TC_ACT_SHOT;
  }
  u32 const bytes = make_answer(job, work_area, &what);
  if (bytes < xdp_payload_word * 8 || bytes > xdp_longest_answer) return TC_ACT_SHOT;
  struct headers h = {};
  if (bpf_skb_change_tail(skb, sizeof h + bytes, 0) != 0 ||
      bpf_skb_store_bytes(skb, sizeof h, work_area->out, bytes, 0) != 0) {
    count(&job->stats.lost);
    return TC_ACT_SHOT;
  }
  h.ethernet.h_proto = bpf_htons(ETH_P_IP);
  h.ip.version = 4;
  h.ip.ihl = 5;
  h.ip.ttl = 64;
  h.ip.frag_off = bpf_htons(0x4000);
  h.ip.protocol = IPPROTO_UDP;
  h.ip.tot_len = bpf_htons(sizeof h.ip + sizeof h.udp + bytes);
  h.udp.source = settings.port;
  h.udp.len = bpf_htons(sizeof h.udp + bytes);
  u64 const joined = job->joined & job->reachable;
  for (u32 rank = 0; rank < xdp_workers; ++rank) {
    if (!(joined >> rank & 1) || (what.to != xdp_everybody && what.to != rank)) continue;
    struct xdp_peer const* const peer = &job->peers[rank];
    __builtin_memcpy(h.ethernet.h_dest, &peer->hardware, ETH_ALEN);
    __builtin_memcpy(h.ethernet.h_source, &peer->own_hardware, ETH_ALEN);
    h.ip.daddr = peer->address;
    h.ip.saddr = peer->own_address;
    h.ip.check = 0;
    h.ip.check = ip_checksum((void const*)&h + sizeof h.ethernet);
    h.udp.dest = peer->port;
    /* Otherwise 0, no UDP checksum: the frame has a better one. */
    if (what.is_to_complete) h.udp.check = pseudo_sum(h.ip.saddr, h.ip.daddr, h.udp.len);
    bool const left = bpf_skb_store_bytes(skb, 0, &h, sizeof h, 0) == 0 &&
                      bpf_clone_redirect(skb, skb->ifindex, 0) == 0;
    count(left ? &job->stats.sent : &job->stats.lost);
  }
  return TC_ACT_SHOT;
}

struct search {
  struct xdp_request* request;
  struct xdp_job* job;
  u32 slot, round; /* of the slot found */
  bool found;
};

/* Checks if the next slot's result is due. 1 ends the search. */
static int look_at_slot(u32 count __attribute__((unused)), struct search* search) {
  struct xdp_request* const request = search->request;
  u32 const at = search->job->first_slot + request->next_slot++;
  struct slot* const slot = bpf_map_lookup_elem(&slots, &at);
  if (!slot || slot->state != slot_open) return 0;
  bool is_due = false;
  bpf_spin_lock(&slot->lock);
  u64 const since = slot->since;
  u32 const round = slot->round;
  bool const is_open = slot->state == slot_open;
  if (is_open && request->now >= since && request->now - since >= request->deadline) {
    is_due = true;
    slot->state = slot_out;
  }
  bpf_spin_unlock(&slot->lock);
  if (!is_due) {
    if (is_open && since < request->oldest) request->oldest = since;
    return 0;
  }
  search->slot = at;
  search->round = round;
  search->found = true;
  return 1;
}

/* Input: a struct xdp_request and a packet. The answer overwrites both. */
SEC("xdp") int serve(struct xdp_md* ctx) {
  struct xdp_request request;
  if (bpf_xdp_load_bytes(ctx, 0, &request, sizeof request) != 0) return XDP_ABORTED;
  u32 const mine = of_serve;
  struct work_area* const work_area = bpf_map_lookup_elem(&memory, &mine);
  struct mark what = {.job = request.job};
  struct xdp_job* const job = bpf_map_lookup_elem(&jobs, &what.job);
  if (!work_area || !job) return XDP_ABORTED;
  bool has_answer = false;
  request.to = xdp_nobody;
  if (request.kind == xdp_take) {
    u32 bytes = request.bytes; /* longer packets are refused by their length alone */
    if (bytes > xdp_longest_contribution - xdp_frame_bytes)
      bytes = xdp_longest_contribution - xdp_frame_bytes;
    if (bytes < xdp_header_bytes || request.rank >= xdp_workers) return XDP_ABORTED;
    work_area->in[(xdp_frame_bytes + bytes) / 8] = 0;
    work_area->in[(xdp_frame_bytes + bytes) / 8 + 1] = 0;
    if (bpf_xdp_load_bytes(ctx, sizeof request, (void*)work_area->in + xdp_frame_bytes, bytes) != 0)
      return XDP_ABORTED;
    u32 why = fault_none;
    has_answer = take(job, request.rank, work_area, request.bytes, request.now, true, &what,
                      &why) == is_to_answer;
    request.fault = why;
  } else {
    struct search search = {.request = &request, .job = job};
    u32 const all = job->chunks * job->rounds;
    if (request.next_slot < all) bpf_loop(all - request.next_slot, look_at_slot, &search, 0);
    if (search.found) {
      has_answer = true;
      what.slot = search.slot;
      what.round = search.round;
      what.to = xdp_everybody;
      __sync_fetch_and_add(&job->open, -1);
      count(&job->stats.partial);
    }
  }
  request.bytes = 0;
  if (has_answer) {
    u32 const bytes = make_answer(job, work_area, &what);
    if (bytes >= xdp_payload_word * 8 && bytes <= xdp_longest_answer) {
      u32 const packet = bytes - xdp_frame_bytes;
      request.to = what.to;
      request.bytes = packet;
      if (packet >= xdp_header_bytes && packet <= xdp_longest_answer &&
          bpf_xdp_store_bytes(ctx, sizeof request, (void*)work_area->out + xdp_frame_bytes,
                              packet) != 0)
        return XDP_ABORTED;
    }
  }
  return bpf_xdp_store_bytes(ctx, 0, &request, sizeof request) == 0 ? XDP_PASS : XDP_ABORTED;
}

/* No function called here requires a GPL licence. */
char terms[] SEC("license") = "Apache-2.0";
