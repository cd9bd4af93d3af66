#pragma once
/// @file
/// The types of hcomp's block codecs, for tests and for programs with typed plans, for example on
/// devices. To select a codec by name at run time, use registered_codecs.

#include <hcomp/codec/float_cast/float_cast.hpp>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/reproducible/reproducible.hpp>
#include <hcomp/codec/sign/count.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/core/detail/printable.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hcomp {

/// A list of codec types, visited in order or by name.
template <class... Codecs> struct codec_list {
  /// Calls `f.template operator()<C>()` for every codec.
  template <class F> static void for_each(F&& f) { (f.template operator()<Codecs>(), ...); }

  /// Calls `f.template operator()<C>()` for the codec called `name`.
  /// @throws std::invalid_argument  no codec has this name; the text lists all names
  template <class F> static void with(std::string_view name, F&& f) {
    bool found = false;
    ((!found && Codecs::name == name ? (f.template operator()<Codecs>(), found = true) : false),
     ...);
    if (found) return;
    std::string known;
    ((known += std::string(known.empty() ? "" : ", ") + Codecs::name), ...);
    throw std::invalid_argument("no codec is called '" + detail::printable(name) +
                                "'; hcomp has: " + known);
  }
};

/// All block codecs for values of type T. The order is free; names are unique.
template <class T = float>
using builtin_codecs = codec_list<  //
    identity<T>,                    //
    float_cast<float16, T>,         //
    float_cast<bfloat16, T>,        //
    sign<T>,                        //
    sign_count<T>,                  //
    thc<T>,                         //
    uniform_thc<T>,                 //
    reproducible<T>>;

}  // namespace hcomp
