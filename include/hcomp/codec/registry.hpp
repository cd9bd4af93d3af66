#pragma once
/// @file
/// Types of the codecs of blocks that hcomp has, for tests and for programs that make typed plans,
/// such as those on devices. Codecs are chosen by name at run time from registered_codecs.

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

/// A list of codec types that can be visited one by one or by name.
template <class... Codecs> struct codec_list {
  /// Calls `f.template operator()<C>()` for every codec.
  template <class F> static void for_each(F&& f) { (f.template operator()<Codecs>(), ...); }

  /// Calls `f.template operator()<C>()` for the codec called `name`.
  /// @throws std::invalid_argument  no such codec; the text lists those that exist
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

/// Every codec, for values of type T. Each line's order is free; names are unique.
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
