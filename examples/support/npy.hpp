#pragma once
/// @file
/// Matrices of float32 in NumPy's file format.
/// Source: numpy.lib.format, versions 1 to 3.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <regex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace example {

static_assert(std::endian::native == std::endian::little, "values lie in files as in memory");

constexpr std::string_view npy_magic = "\x93NUMPY";

/// Writes `values`, row by row, as a matrix of `rows` rows.
/// @param file  overwritten
/// @throws std::runtime_error  the file cannot be written
inline void write_npy(std::string const& file, std::span<float const> values, std::size_t rows) {
  auto header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows,
                            values.size() / rows);
  std::size_t const before = npy_magic.size() + 4;  // version and length
  header.append(63 - (before + header.size()) % 64, ' ');
  header += '\n';  // values start at a multiple of 64 bytes
  std::array const version_and_length{char{1}, char{0}, static_cast<char>(header.size() & 255),
                                      static_cast<char>(header.size() >> 8)};
  std::ofstream out(file, std::ios::binary);
  out << npy_magic;
  out.write(version_and_length.data(), version_and_length.size());
  out << header;
  out.write(reinterpret_cast<char const*>(values.data()),
            static_cast<std::streamsize>(values.size_bytes()));
  if (!out.flush()) throw std::runtime_error(file + " could not be written to its end");
}

/// A matrix in a file; `read` loads parts of rows.
class npy_matrix {
 public:
  /// @throws std::runtime_error  the file cannot be read, has no such matrix, or is too short
  explicit npy_matrix(std::string file) : file_(std::move(file)) {
    std::ifstream in(file_, std::ios::binary);
    std::array<char, 10> head{};
    if (!in.read(head.data(), head.size()) ||
        !std::string_view(head.data(), head.size()).starts_with(npy_magic))
      throw std::runtime_error(file_ + (in.is_open() ? " is no .npy file" : " cannot be read"));
    auto const byte = [&](int i) {
      return std::size_t{static_cast<unsigned char>(head[static_cast<std::size_t>(i)])};
    };
    std::size_t length = byte(8) | byte(9) << 8;
    start_ = head.size() + length;
    if (head[6] > 1) {  // since version 2, the length has four bytes
      std::array<char, 2> more{};
      in.read(more.data(), more.size());
      length |= std::size_t{static_cast<unsigned char>(more[0])} << 16 |
                std::size_t{static_cast<unsigned char>(more[1])} << 24;
      start_ = head.size() + more.size() + length;
    }
    std::string header(std::min<std::size_t>(length, 1 << 16), ' ');
    in.read(header.data(), static_cast<std::streamsize>(header.size()));
    std::smatch shape;
    bool const is_matrix = std::regex_search(
        header, shape, std::regex(R"('shape': *\( *(\d{1,15}) *, *(\d{1,15}) *\))"));
    if (!is_matrix || header.find("'<f4'") == std::string::npos ||
        header.find("'fortran_order': False") == std::string::npos)
      throw std::runtime_error(
          fmt::format("{} is no matrix of float32 with a row per rank; it says {}", file_,
                      header.substr(0, header.find_last_not_of(" \n") + 1)));
    rows_ = std::stoul(shape[1]);
    columns_ = std::stoul(shape[2]);
    in.clear();
    in.seekg(0, std::ios::end);
    auto const bytes = static_cast<std::size_t>(in.tellg());
    if (rows_ > 0 && (bytes < start_ || (bytes - start_) / sizeof(float) / rows_ < columns_))
      throw std::runtime_error(fmt::format("{} has {} bytes, too few for {} x {} values", file_,
                                           bytes, rows_, columns_));
  }

  std::string const& file() const { return file_; }
  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }

  /// Reads the values [first, first + out.size()) of a row.
  /// @throws std::runtime_error  the file cannot be read
  void read(std::size_t row, std::size_t first, std::span<float> out) const {
    std::ifstream in(file_, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(start_ + (row * columns_ + first) * sizeof(float)));
    if (!in.read(reinterpret_cast<char*>(out.data()),
                 static_cast<std::streamsize>(out.size_bytes())))
      throw std::runtime_error(fmt::format("{}: values {} to {} of row {} cannot be read", file_,
                                           first, first + out.size(), row));
  }

 private:
  std::string file_;
  std::size_t rows_ = 0, columns_ = 0;
  std::size_t start_ = 0;  ///< position of the values in the file
};

}  // namespace example
