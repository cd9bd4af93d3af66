# One run per codec and seed, with numbers that are finite, in which the loss fell.
string(JSON runs LENGTH "${json}" runs)
math(EXPR last "${runs} - 1")
foreach(i RANGE ${last})
  foreach(figure test_accuracy test_loss train_loss bytes_sent_per_step compression_ratio
      seconds_compute seconds_encode seconds_communicate)
    string(JSON value GET "${json}" runs ${i} ${figure})  # NaN and infinity are null in JSON
    if(NOT value MATCHES "^[0-9]+(\\.[0-9]*)?(e[-+]?[0-9]+)?$")
      message(FATAL_ERROR "run ${i}: ${figure} is '${value}'")
    endif()
  endforeach()
  string(JSON first GET "${json}" runs ${i} curve 0 train_loss)
  string(JSON end GET "${json}" runs ${i} train_loss)
  if(NOT end LESS first)
    message(FATAL_ERROR "run ${i}: the training loss went from ${first} to ${end}")
  endif()
endforeach()
