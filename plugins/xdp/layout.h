#pragma once
/* Sizes and map layouts that the kernel programs and hcomp-aggregator share. In C, like the
   programs. */

#include <linux/types.h>

enum {
  xdp_sum_words = 128,   /* of 8 bytes, per slot: 1024 results of 8 bits, or 512 of 16 */
  xdp_frame_bytes = 24,  /* udp::frame */
  xdp_header_bytes = 32, /* aggregation_packet */
  xdp_payload_word = 7,  /* of a datagram: start of its integers */
  /* Datagrams: frame, header, integers, members. */
  xdp_longest_contribution = 56 + 1024,
  xdp_longest_answer = 56 + 1024 + 8,
  xdp_work_area_words = 144, /* of a datagram, with space after its end */
  xdp_workers = 64,          /* limit per job: bits of a word */
  xdp_addresses = 8,         /* limit per interface */
  xdp_faults = 13,           /* packet_fault::faults */
  xdp_everybody = 0xffff,
  xdp_nobody = 0xfffe
};

/* Address of a worker. hcomp-aggregator writes address, port and session when the worker joins. The
   kernel takes the rest from its packets. */
struct xdp_peer {
  __u64 hardware, own_hardware; /* six bytes each */
  __u32 address, own_address;   /* in network byte order, like the port */
  __u32 session;
  __u16 port, unused;
};

struct xdp_stats {
  __u64 received, sent, lost; /* datagrams */
  __u64 added, duplicates, late, stale, whole, partial, abandoned;
  __u64 refused[xdp_faults];
};

/* hcomp-aggregator writes the parameters, `known` and `joined`; the kernel writes the rest. */
struct xdp_job {
  struct xdp_stats stats;
  __u64 last_heard; /* CLOCK_MONOTONIC, ns */
  __u64 newest;     /* newest round with a contribution, plus 1 << 32; 0: none */
  __u64 open;       /* incomplete results */
  __u64 known;      /* bit r: rank r has joined */
  __u64 joined;     /* and has not left */
  __u64 reachable;  /* and has sent over this interface, which can therefore carry answers */
  __u32 number, first_slot, chunks, rounds, chunk_values, rounds_ahead;
  __u32 workers, quota, bits, sum_bits, largest_level, answer_late;
  struct xdp_peer peers[xdp_workers];
  __u64 lanes[256]; /* what a byte of indices adds: the lanes of a sum from the lowest bit on */
};

/* Request of hcomp-aggregator to the program `serve`, before a packet; also the answer. */
enum xdp_request_kind { xdp_take = 0, xdp_expire = 1 };
struct xdp_request {
  __u32 kind, job, rank;
  __u32 bytes;     /* of the packet that follows */
  __u64 now;       /* CLOCK_MONOTONIC, ns */
  __u64 deadline;  /* of xdp_expire, ns */
  __u32 next_slot; /* of xdp_expire: next slot of the job to check */
  __u32 unused;
  __u64 oldest; /* out: begin of the oldest incomplete result found; all bits set: none */
  __u32 to;     /* out: a rank, xdp_everybody or xdp_nobody */
  __u32 fault;  /* out: packet_fault */
};

struct xdp_settings {
  __u16 port; /* in network byte order, like the addresses */
  __u16 addresses;
  __u32 address[xdp_addresses];
};
