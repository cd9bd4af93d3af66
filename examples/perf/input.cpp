#include "input.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstring>
#include <fstream>
#include <numbers>
#include <regex>
#include <stdexcept>

namespace perf {

static_assert(std::endian::native == std::endian::little, "npy files are read as they lie");

double input::typical() const {
  std::vector<float> x(std::min<std::size_t>(values(), 1 << 16));
  read(0, 0, x);
  double sum = 0;
  for (float const v : x) sum += std::abs(v);
  return sum > 0 ? sum / static_cast<double>(x.size()) : 1;
}

void generated::read(int rank, std::size_t first, std::span<float> out) const {
  auto const stream = hcomp::stream_of({seed_, static_cast<std::uint64_t>(rank), 0});
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint64_t const place = first + i;
    auto const draw = hcomp::philox4x32(
        {static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32), 0, 0}, stream);
    // Box and Muller: a uniform in (0, 1], an angle
    float const u = (static_cast<float>(draw[0] >> 8) + 1) * 0x1p-24f;
    float const angle = static_cast<float>(draw[1] >> 8) * 0x1p-24f * 2 * std::numbers::pi_v<float>;
    bool const is_there = draw[2] * 0x1p-32 < density_;
    out[i] = is_there ? std::sqrt(-2 * std::log(u)) * std::cos(angle) : 0;
  }
}

npy_file::npy_file(std::string const& file, int ranks) : file_(file) {
  std::ifstream in(file, std::ios::binary);
  std::array<char, 10> head{};
  if (!in.read(head.data(), head.size()) || std::memcmp(head.data(), "\x93NUMPY", 6) != 0)
    throw std::runtime_error(in.is_open() ? file + " is no .npy file" : file + " cannot be read");
  auto const byte = [&](int i) {
    return std::size_t{static_cast<unsigned char>(head[static_cast<std::size_t>(i)])};
  };
  std::size_t length = byte(8) | byte(9) << 8;
  start_ = 10 + length;
  if (head[6] > 1) {  // from version 2 on the length has four bytes
    std::array<char, 2> more{};
    in.read(more.data(), more.size());
    length |= std::size_t{static_cast<unsigned char>(more[0])} << 16 |
              std::size_t{static_cast<unsigned char>(more[1])} << 24;
    start_ = 12 + length;
  }
  std::string header(std::min<std::size_t>(length, 1 << 16), ' ');
  in.read(header.data(), static_cast<std::streamsize>(header.size()));
  std::smatch shape;
  bool const is_matrix = std::regex_search(
      header, shape, std::regex(R"('shape': *\( *(\d{1,15}) *, *(\d{1,15}) *\))"));
  if (!is_matrix || header.find("'<f4'") == std::string::npos ||
      header.find("'fortran_order': False") == std::string::npos)
    throw std::runtime_error(
        fmt::format("{} is no matrix of float32 with a row per rank; it says {}", file,
                    header.substr(0, header.find_last_not_of(" \n") + 1)));
  std::size_t const rows = std::stoul(shape[1]);
  columns_ = std::stoul(shape[2]);
  if (rows < static_cast<std::size_t>(ranks))
    throw std::runtime_error(
        fmt::format("{} has vectors of {} ranks, {} ranks run", file, rows, ranks));
  in.seekg(0, std::ios::end);
  auto const bytes = static_cast<std::size_t>(in.tellg());
  if (bytes < start_ || (bytes - start_) / sizeof(float) / rows < columns_)
    throw std::runtime_error(
        fmt::format("{} has {} bytes, too few for {} x {} values", file, bytes, rows, columns_));
}

void npy_file::read(int rank, std::size_t first, std::span<float> out) const {
  std::ifstream in(file_, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(
      start_ + (static_cast<std::size_t>(rank) * columns_ + first) * sizeof(float)));
  if (!in.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size_bytes())))
    throw std::runtime_error(fmt::format("{}: values {} to {} of rank {} cannot be read", file_,
                                         first, first + out.size(), rank));
}

}  // namespace perf
