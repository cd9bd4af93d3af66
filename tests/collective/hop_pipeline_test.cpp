
#include <doctest/doctest.h>

#include <algorithm>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/collective/engine/detail/hop_pipeline.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/collective/schedule/schedule.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/in_process.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

/// Blocks are integers. Records the operations of a walk, and throws on forbidden ones.
class integer_handler final : public detail::segment_handler {
 public:
  integer_handler(std::vector<std::uint64_t>& encoded, std::vector<hop> const& hops, bool adds)
      : encoded_(encoded), hops_(hops), adds_(adds), in_(hops.size()) {
    for (auto& hop : in_) hop.resize(encoded.size());
  }

  std::span<std::byte const> leave(std::size_t, block_range segment) override {
    ++left;
    return std::as_bytes(part(encoded_, segment));
  }
  std::span<std::byte> inbox(std::size_t h, block_range segment) override {
    return std::as_writable_bytes(part(in_[h], segment));
  }
  void expect(std::size_t, block_range segment) override {
    expected_ = segment;
    ++expected;
  }
  void arrive(std::size_t h, block_range segment, std::size_t bytes) override {
    if (segment != expected_) throw std::runtime_error("another segment was expected");
    if (bytes != segment.count * sizeof(std::uint64_t)) throw std::runtime_error("other bytes");
    for (std::size_t b = segment.first; b < segment.end(); ++b)
      encoded_[b] = (adds_ && hops_[h].adds ? encoded_[b] : 0) + in_[h][b];
    ++arrived;
  }
  void passed_on(block_range segment) override {
    if (segment != expected_) throw std::runtime_error("another segment has arrived");
    ++passed;
  }

  int left = 0, expected = 0, arrived = 0, passed = 0;

 private:
  static std::span<std::uint64_t> part(std::vector<std::uint64_t>& all, block_range segment) {
    return std::span(all).subspan(segment.first, segment.count);
  }

  std::vector<std::uint64_t>& encoded_;
  std::vector<hop> const& hops_;
  bool adds_;
  std::vector<std::vector<std::uint64_t>> in_;
  block_range expected_{};
};

/// Checks whether bytes change while they are sent: between isend and the wait for it.
class watching_transport {
 public:
  struct request {
    in_process::request inner;
    std::size_t send;  ///< the number of the send; none for receives
  };

  explicit watching_transport(in_process& transport) : transport_(&transport) {}

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  bool reaches(memory_space space) const { return transport_->reaches(space); }
  std::uint64_t bytes_sent() const { return transport_->bytes_sent(); }
  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    sends_.push_back({bytes, {bytes.begin(), bytes.end()}});
    return {transport_->isend(peer, tag, bytes), sends_.size() - 1};
  }
  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    return {transport_->irecv(peer, tag, bytes), none};
  }
  std::size_t wait(request& r) {
    if (r.send != none) {
      auto const& [bytes, before] = sends_[r.send];
      changed_ += !std::ranges::equal(bytes, before);
      ++waited_;
    }
    return transport_->wait(r.inner);
  }
  /// Sends whose bytes changed, and sends without a wait.
  std::size_t faults() const { return changed_ + sends_.size() - waited_; }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  struct send {
    std::span<std::byte const> bytes;
    std::vector<std::byte> before;
  };

  in_process* transport_;
  std::vector<send> sends_;
  std::size_t changed_ = 0, waited_ = 0;
};
static_assert(Transport<watching_transport>);

}  // namespace

TEST_CASE("hop_pipeline: both walks of every schedule compute the sum, for all segment sizes") {
  for (std::string const name : {"ring", "torus", "direct", "recursive_doubling", "aggregator"})
    for (int const ranks : {1, 2, 3, 4, 6, 8})
      for (std::size_t const blocks : {0, 1, 5, 48})
        for (std::size_t const most : {1, 3, 100}) {
          CAPTURE(name);
          CAPTURE(ranks);
          CAPTURE(blocks);
          CAPTURE(most);
          std::vector<int> wrong(static_cast<std::size_t>(ranks));
          run_ranks(ranks, [&](in_process& inner) {
            watching_transport watched(inner);
            any_transport transport(watched);
            auto const plan = make_schedule(algorithm::from(name), inner.rank(), ranks);
            auto const cut = [&](block_range parts) {
              auto const all = plan.blocks_of(parts, blocks);
              std::vector<block_range> segments;
              for (std::size_t first = all.first; first < all.end(); first += most)
                segments.push_back({first, std::min(most, all.end() - first)});
              return segments;
            };
            detail::hop_pipeline reduce(plan.reduce, transport, 0, cut),
                gather(plan.gather, transport, 0, cut);
            std::vector<std::uint64_t> encoded(blocks);
            // the second call reuses the lists of requests
            for (std::uint64_t step = 1; step <= 2; ++step) {
              std::uint64_t sum = 0;
              for (int r = 0; r < ranks; ++r) sum += step << 6 * r;
              std::fill(encoded.begin(), encoded.end(), step << 6 * inner.rank());
              report stats;
              integer_handler adding(encoded, plan.reduce, true),
                  keeping(encoded, plan.gather, false);
              reduce.walk(adding, &stats);
              if (!plan.reduces_all) gather.walk(keeping, &stats);
              std::size_t segments = 0;
              for (hop const& h : plan.reduce) segments += cut(h.receive).size();
              auto& bad = wrong[static_cast<std::size_t>(inner.rank())];
              bad += std::any_of(encoded.begin(), encoded.end(), [&](auto b) { return b != sum; });
              bad += adding.arrived != static_cast<int>(segments);
              bad += adding.expected != adding.arrived || adding.passed != adding.arrived;
              bad += watched.faults() > 0;
              bool const is_alone = ranks == 1 || (name == "aggregator" && inner.rank() == 0);
              bad += !is_alone && blocks >= 8 && (stats.hops == 0 || adding.left == 0);
            }
          });
          CHECK(wrong == std::vector<int>(static_cast<std::size_t>(ranks)));
        }
}
