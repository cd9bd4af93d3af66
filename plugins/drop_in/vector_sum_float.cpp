#include "make_vector_sum.hpp"

namespace hcomp::drop_in {

template std::unique_ptr<vector_sum<float>> make_vector_sum(method const&, std::size_t,
                                                            any_transport&, host_executor&,
                                                            std::size_t);

}  // namespace hcomp::drop_in
