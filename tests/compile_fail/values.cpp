// Values of types that codecs do not take, and whether the compiler says which they take.
//
// CASE_IDENTITY: values are float, double, hcomp::float16 or hcomp::bfloat16; integers are
// CASE_SIGN: values are float, double, hcomp::float16 or hcomp::bfloat16; integers are
// CASE_THC: values are float, double, hcomp::float16 or hcomp::bfloat16; integers are

#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/codec/thc/thc.hpp>

#if defined(CASE_IDENTITY)
static_assert(hcomp::HomomorphicSum<hcomp::identity<int>>);
#elif defined(CASE_SIGN)
static_assert(hcomp::HomomorphicSum<hcomp::sign<int>>);
#elif defined(CASE_THC)
static_assert(hcomp::HomomorphicSum<hcomp::thc<int>>);
#else
static_assert(hcomp::HomomorphicSum<hcomp::identity<double>>);
static_assert(hcomp::HomomorphicSum<hcomp::sign<hcomp::bfloat16>>);
static_assert(hcomp::HomomorphicSum<hcomp::thc<hcomp::float16>>);
#endif
