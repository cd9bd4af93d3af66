/// @file
/// The systems of INCEPTIONN's paper between nodes of the lab, over plain TCP. Messages contain
/// only floats. The type of service of a socket's packets tells the card to compress them.
///
///   card_exchange --rank R --hosts P --way wa|inc --bound E --values N --rounds K
///
/// wa: rank 0 adds the vectors of all ranks, and answers; inc: a ring. With a bound, packets of
/// gradients have the type of service; with bound 0 none have it. Answers of wa never have it, as
/// in the paper. Rank 0 prints the milliseconds of a round. Status 1: the result differs in a bit
/// from that of the software codec applied at the same places.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <hcomp/codec/inceptionn/bursts.hpp>
#include <hcomp/collective/schedule/ring.hpp>
#include <hcomp/core/random.hpp>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using floats = std::vector<float>;
using clock_type = std::chrono::steady_clock;

[[noreturn]] void fail(std::string const& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

class connection {
 public:
  explicit connection(int handle) : handle_(handle) {
    int const yes = 1;
    setsockopt(handle_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    timeval const timeout{60, 0};  // in case a card damages packets
    setsockopt(handle_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  }
  void mark() {
    int const type_of_service = 0x28;
    if (setsockopt(handle_, IPPROTO_IP, IP_TOS, &type_of_service, sizeof type_of_service) != 0)
      fail("type of service");
  }
  void send(std::span<float const> x) {
    auto const bytes = std::as_bytes(x);
    for (std::size_t done = 0; done < bytes.size();) {
      auto const n = ::send(handle_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (n <= 0) fail("send");
      done += static_cast<std::size_t>(n);
    }
  }
  void receive(std::span<float> x) {
    auto const bytes = std::as_writable_bytes(x);
    for (std::size_t done = 0; done < bytes.size();) {
      auto const n = ::recv(handle_, bytes.data() + done, bytes.size() - done, 0);
      if (n <= 0) fail("receive");
      done += static_cast<std::size_t>(n);
    }
  }

 private:
  int handle_;
};

sockaddr_in address_of(int rank) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(7600);
  address.sin_addr.s_addr = htonl(0x0a4d0000u + static_cast<unsigned>(rank) + 1);  // 10.77.0.r+1
  return address;
}
/// Accepts connections; each rank first sends its number.
std::map<int, connection> accept_from(int count, int rank) {
  std::map<int, connection> all;
  int const door = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  auto const mine = address_of(rank);
  setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(door, reinterpret_cast<sockaddr const*>(&mine), sizeof mine) != 0 ||
      listen(door, count) != 0)
    fail("listen");
  while (static_cast<int>(all.size()) < count) {
    int const handle = accept(door, nullptr, nullptr);
    std::int32_t who = 0;
    if (handle < 0 || recv(handle, &who, sizeof who, MSG_WAITALL) != sizeof who) fail("accept");
    all.emplace(who, connection(handle));
  }
  close(door);
  return all;
}
connection connect_to(int other, int rank) {
  for (auto const end = clock_type::now() + std::chrono::seconds(60);;) {
    int const handle = socket(AF_INET, SOCK_STREAM, 0);
    auto const peer_address = address_of(other);
    if (connect(handle, reinterpret_cast<sockaddr const*>(&peer_address), sizeof peer_address) ==
        0) {
      std::int32_t const who = rank;
      if (send(handle, &who, sizeof who, MSG_NOSIGNAL) != sizeof who) fail("greeting");
      return connection(handle);
    }
    close(handle);
    if (clock_type::now() > end) fail("connect to rank " + std::to_string(other));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

floats input_of(int rank, int hosts, std::size_t values) {
  floats x(values);
  for (std::size_t i = 0; i < values; ++i) {
    double const draw =
        static_cast<double>(hcomp::mix(static_cast<std::uint64_t>(rank) << 40 | i) >> 11) * 0x1p-53;
    double const two = 2 * draw - 1;
    x[i] = static_cast<float>(two * two * two / hosts);  // most values are small
  }
  return x;
}

/// A vector encoded and decoded once by the software codec.
floats through(floats const& x, int bound_exponent) {
  if (bound_exponent == 0) return x;
  hcomp::inceptionn_bursts const codec({.bound_exponent = bound_exponent});
  std::vector<std::byte> encoded(codec.capacity(x.size()));
  encoded.resize(codec.encode(x, encoded));
  floats y(x.size());
  codec.decode(encoded, y);
  return y;
}
void add(std::span<float> sum, std::span<float const> x) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
}

struct parts {
  int count;
  std::size_t values;
  std::size_t first(int part) const {
    return values * static_cast<std::size_t>(part) / static_cast<std::size_t>(count);
  }
  std::span<float> of(floats& x, int part) const {
    return std::span(x).subspan(first(part), first(part + 1) - first(part));
  }
};

/// The results of all ranks, computed in software.
std::vector<floats> expected(bool is_ring, int hosts, std::size_t values, int bound) {
  std::vector<floats> all;
  for (int rank = 0; rank < hosts; ++rank) all.push_back(input_of(rank, hosts, values));
  auto const at = [&](int rank) -> floats& { return all[static_cast<std::size_t>(rank)]; };
  if (!is_ring) {
    for (int rank = 1; rank < hosts; ++rank) add(all[0], through(at(rank), bound));
    for (int rank = 1; rank < hosts; ++rank) at(rank) = all[0];
    return all;
  }
  parts const cut{hosts, values};
  auto const hop = [&](auto const& part_sent, auto const& keep) {
    std::vector<floats> sent;
    for (int rank = 0; rank < hosts; ++rank) {
      auto const piece = cut.of(at(rank), part_sent(hcomp::ring{rank, hosts}));
      sent.push_back(through(floats(piece.begin(), piece.end()), bound));
    }
    for (int rank = 0; rank < hosts; ++rank) {
      hcomp::ring const me{rank, hosts};
      keep(me, std::span<float const>(sent[static_cast<std::size_t>(me.previous())]));
    }
  };
  for (int h = 0; h < hosts - 1; ++h)
    hop([&](hcomp::ring me) { return me.reduce_send(h); },
        [&](hcomp::ring me, auto x) { add(cut.of(at(me.rank), me.reduce_recv(h)), x); });
  for (int h = 0; h < hosts - 1; ++h)
    hop([&](hcomp::ring me) { return me.gather_send(h); },
        [&](hcomp::ring me, auto x) {
          std::copy(x.begin(), x.end(), cut.of(at(me.rank), me.gather_recv(h)).begin());
        });
  return all;
}

int run(std::map<std::string, std::string> const& options) {
  auto const number = [&](char const* name) { return std::stoi(options.at(name)); };
  int const rank = number("--rank"), hosts = number("--hosts"), bound = number("--bound"),
            rounds = number("--rounds");
  auto const values = static_cast<std::size_t>(number("--values"));
  bool const is_ring = options.at("--way") == "inc";
  hcomp::ring const me{rank, hosts};
  parts const cut{hosts, values};

  // Ranks that listen do so before they connect.
  std::map<int, connection> from;
  std::jthread listener([&] {
    if (is_ring || rank == 0) from = accept_from(is_ring ? 1 : hosts - 1, rank);
  });
  std::vector<connection> to;
  if (is_ring || rank > 0) to.push_back(connect_to(is_ring ? me.next() : 0, rank));
  listener.join();
  if (bound > 0 && !to.empty()) to[0].mark();

  floats x, came;
  auto start = clock_type::now();
  for (int round = 0; round <= rounds; ++round) {  // the first round does not count
    if (round == 1) start = clock_type::now();
    x = input_of(rank, hosts, values);
    if (is_ring) {
      auto const hop = [&](int sent, int received, bool adds) {
        std::jthread sender([&] { to[0].send(cut.of(x, sent)); });
        auto const piece = cut.of(x, received);
        came.resize(piece.size());
        from.begin()->second.receive(came);
        sender.join();
        if (adds)
          add(piece, came);
        else
          std::copy(came.begin(), came.end(), piece.begin());
      };
      for (int h = 0; h < hosts - 1; ++h) hop(me.reduce_send(h), me.reduce_recv(h), true);
      for (int h = 0; h < hosts - 1; ++h) hop(me.gather_send(h), me.gather_recv(h), false);
    } else if (rank == 0) {
      came.resize(values);
      for (auto& [who, one] : from) {
        one.receive(came);
        add(x, came);
      }
      std::vector<std::jthread> answers;
      for (auto& [who, one] : from) answers.emplace_back([&x, &one = one] { one.send(x); });
      for (auto& one : answers) one.join();
    } else {
      to[0].send(x);
      to[0].receive(x);
    }
  }
  double const ms =
      std::chrono::duration<double, std::milli>(clock_type::now() - start).count() / rounds;
  auto const right = expected(is_ring, hosts, values, bound)[static_cast<std::size_t>(rank)];
  for (std::size_t i = 0; i < values; ++i)
    if (std::memcmp(&x[i], &right[i], sizeof(float)) != 0) {
      std::fprintf(stderr, "card_exchange: rank %d: value %zu is %g, the software's is %g\n", rank,
                   i, static_cast<double>(x[i]), static_cast<double>(right[i]));
      return 1;
    }
  if (rank == 0) std::printf("%.1f\n", ms);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  std::map<std::string, std::string> options;
  for (int i = 1; i + 1 < count; i += 2) options[words[i]] = words[i + 1];
  for (auto const* const name : {"--rank", "--hosts", "--way", "--bound", "--values", "--rounds"})
    if (!options.contains(name)) {
      std::fprintf(stderr,
                   "usage: card_exchange --rank R --hosts P --way wa|inc --bound E --values N "
                   "--rounds K (there is no %s)\n",
                   name);
      return 2;
    }
  try {
    return run(options);
  } catch (std::exception const& why) {
    std::fprintf(stderr, "card_exchange: %s\n", why.what());
    return 1;
  }
}
