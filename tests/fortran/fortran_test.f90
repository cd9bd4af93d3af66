!> The Fortran module on several ranks: by mpi_f08, and with arrays of one and two dimensions.
program fortran_test
  use, intrinsic :: iso_fortran_env, only: int64, real32, real64
  use mpi_f08
  use hcomp
  implicit none

  integer, parameter :: n = 2500
  integer :: rank, ranks, failures, all_failures

  failures = 0
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call sums_are_exact()
  call parts_make_the_whole()
  call a_bound_is_kept()
  call a_restart_goes_on()
  call errors_have_words()
  call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Finalize()
  if (all_failures > 0) error stop 1
  if (rank == 0) print '(a, i0, a)', "the Fortran module does what hcomp.h says on ", ranks, " ranks"

contains

  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what

    if (holds) return
    failures = failures + 1
    print '(a, i0, 5a)', "rank ", rank, ": ", what, "; the last error was '", hcomp_last_error(), "'"
  end subroutine check

  !> Whole numbers: results are exact in any order of additions.
  subroutine sums_are_exact()
    type(hcomp_plan) :: sum
    type(hcomp_report) :: report
    real(real32) :: x(n)
    real(real64) :: y(50, n / 50), of_all
    integer :: i

    call hcomp_plan_create(sum, MPI_COMM_WORLD%MPI_VAL, n, kind(x), "lossless_sparse")
    x = [(real(mod(i, 100) * (rank + 1)), i=1, n)]
    call hcomp_all_reduce(sum, x, report)
    call check(all(x == [(real(mod(i, 100) * (ranks * (ranks + 1) / 2)), i=1, n)]), &
      "the sum of floats is not exact")
    call check(report%weight == ranks .and. report%seconds > 0, "the report is wrong")
    call check(report%error == 0 .and. report%dominance == 0, "the report is no exact sum's")
    call hcomp_plan_free(sum)

    call hcomp_plan_create(sum, MPI_COMM_WORLD%MPI_VAL, n / 2, kind(x), "identity")
    x = 1
    call hcomp_all_reduce(sum, x(2::2), report)
    call check(all(x(1::2) == 1 .and. x(2::2) == ranks), "every second value is not exact")
    call check((report%shared_memory == 1) .eqv. (ranks > 1), "the report names no shared memory")
    call hcomp_plan_free(sum)

    call hcomp_plan_create(sum, MPI_COMM_WORLD%MPI_VAL, int(n, int64), kind(y), "identity")
    call hcomp_plan_set_mean(sum, .true.)
    y = spread([(real(i * ranks * (rank + 1), real64), i=1, n / 50)], 1, 50)
    call hcomp_all_reduce(sum, y)
    of_all = real(ranks * (ranks + 1) / 2, real64)
    call check(all(y == spread([(i * of_all, i=1, n / 50)], 1, 50)), &
      "the mean of doubles is not exact")
    call hcomp_plan_free(sum)
  end subroutine sums_are_exact

  subroutine parts_make_the_whole()
    type(hcomp_plan) :: sum
    real(real32) :: x(n)
    integer(int64) :: first, last
    integer :: i

    call hcomp_plan_create(sum, MPI_COMM_WORLD%MPI_VAL, n, kind(x), "identity")
    call hcomp_plan_shard(sum, first, last)
    x = [(real(i), i=1, n)]
    call hcomp_reduce_scatter(sum, x)
    call check(all(x(first:last) == [(real(i * ranks), i=int(first), int(last))]), &
      "the part of the sum is wrong")
    x(first:last) = x(first:last) + 1
    call hcomp_all_gather(sum, x)
    call check(all(x == [(real(i * ranks + 1), i=1, n)]), "the parts do not make the whole")
    call hcomp_plan_free(sum)
  end subroutine parts_make_the_whole

  subroutine a_bound_is_kept()
    type(hcomp_plan) :: sum
    real(real32) :: x(n)
    real(real64) :: exact(n), worst
    integer :: i, r

    exact = 0
    do r = 0, ranks - 1
      x = [(sin(real(i * (r + 1), real32)), i=1, n)]
      exact = exact + x
    end do
    x = [(sin(real(i * (rank + 1), real32)), i=1, n)]
    call hcomp_plan_create(sum, MPI_COMM_WORLD%MPI_VAL, n, kind(x), "error_bounded bound=1e-3")
    call hcomp_all_reduce(sum, x)
    worst = maxval(abs(x - exact))
    ! half a unit in the last place of a float below 4, because the result is rounded
    call check(worst <= real(1e-3, real64) + 2.4e-7_real64, "the bound is not kept")
    call check(ranks == 1 .or. worst > 0, "nothing was lost: is it compressed at all?")
    call hcomp_plan_free(sum)
  end subroutine a_bound_is_kept

  !> With the residual and the draws of a checkpoint, the third result equals that of an
  !> uninterrupted run.
  subroutine a_restart_goes_on()
    type(hcomp_plan) :: sum
    real(real32) :: x(n), whole(n, 3), kept(50, n / 50)
    real(real64) :: of_doubles(n)
    integer :: i, step, code

    call hcomp_plan_create(sum, MPI_COMM_WORLD%MPI_VAL, n, kind(x), "thc bits=4")
    call hcomp_plan_set_draws(sum, 7_int64, 0_int64)
    do step = 1, 3
      whole(:, step) = [(sin(real(i * (rank + 1), real32)), i=1, n)]
      call hcomp_all_reduce(sum, whole(:, step))
      if (step == 2) call hcomp_plan_get_residual(sum, kept)
    end do
    call check(any(kept /= 0), "nothing was lost")
    call hcomp_plan_get_residual(sum, of_doubles, code)
    call check(code == HCOMP_INVALID_ARGUMENT .and. &
      index(hcomp_last_error(), "2500 values of 8 bytes") > 0, "a residual of doubles is not refused")
    call hcomp_plan_free(sum)
    call hcomp_plan_create(sum, MPI_COMM_WORLD%MPI_VAL, n, kind(x), "thc bits=4")
    call hcomp_plan_set_residual(sum, kept)
    call hcomp_plan_set_draws(sum, 7_int64, 2_int64)
    x = [(sin(real(i * (rank + 1), real32)), i=1, n)]
    call hcomp_all_reduce(sum, x)
    call check(all(x == whole(:, 3)), "a run that goes on has other bits")
    call hcomp_plan_free(sum)
  end subroutine a_restart_goes_on

  subroutine errors_have_words()
    type(hcomp_plan) :: sum
    real(real32) :: x(n)
    real(real64) :: y(n)
    integer :: code

    x = 0
    y = 0
    call hcomp_plan_create(sum, MPI_COMM_WORLD%MPI_VAL, n, kind(x), "gzip", code)
    call check(code == HCOMP_INVALID_ARGUMENT .and. &
      index(hcomp_last_error(), "no codec is called 'gzip'") > 0, "gzip is not refused")
    call hcomp_plan_create(sum, MPI_COMM_WORLD%MPI_VAL, n, 3, "fp16", code)
    call check(code == HCOMP_INVALID_ARGUMENT, "a kind that there is not is not refused")
    call hcomp_plan_create(sum, MPI_COMM_WORLD%MPI_VAL, n, kind(x), "fp16   ", code)
    call check(code == HCOMP_OK, "spaces at the end are not left out")
    call hcomp_all_reduce(sum, y, code=code)
    call check(code == HCOMP_INVALID_ARGUMENT .and. &
      index(hcomp_last_error(), "values of 8 bytes") > 0, "doubles are not refused")
    call hcomp_all_reduce(sum, x(2:), code=code)
    call check(code == HCOMP_INVALID_ARGUMENT .and. &
      index(hcomp_last_error(), "2499 values") > 0, "a shorter x is not refused")
    call hcomp_plan_free(sum, code)
    call check(code == HCOMP_OK, "it cannot be freed")
    call hcomp_all_reduce(sum, x, code=code)
    call check(code == HCOMP_INVALID_ARGUMENT, "a freed sum is not refused")
    call hcomp_comm_set(MPI_COMM_WORLD%MPI_VAL, "float: thc", code)
    call check(code == HCOMP_NOT_RUNNING, "there is a drop-in library")
    call hcomp_comm_set(MPI_COMM_WORLD%MPI_VAL, code=code)
    call check(code == HCOMP_NOT_RUNNING, "there is a drop-in library")
  end subroutine errors_have_words

end program fortran_test
