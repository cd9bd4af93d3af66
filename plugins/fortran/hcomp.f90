!> hcomp for Fortran: compressed all-reduce of real arrays over MPI ranks.
!>
!>     use mpi_f08
!>     use hcomp
!>     type(hcomp_plan) :: plan
!>     call hcomp_plan_create(plan, MPI_COMM_WORLD%MPI_VAL, size(x), kind(x), "thc:bits=4")
!>     call hcomp_all_reduce(plan, x)
!>     call hcomp_plan_free(plan)
!>
!> Communicators are integers, as in `use mpi` and mpif.h; those of mpi_f08 hold the integer in
!> MPI_VAL. hcomp.h documents all functions in detail. Without the argument `code` an error prints
!> its text and ends the program. With it, `code` becomes HCOMP_OK or another HCOMP_ code, and
!> hcomp_last_error() returns the text.
!>
!> Compile this file with the program, because modules are specific to one compiler. Link
!> libhcomp.so of the MPI in use. Needs Fortran 2018: gfortran 9 or newer.
module hcomp
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_f_pointer, c_float, c_int, &
    c_int64_t, c_loc, c_null_char, c_null_ptr, c_ptr, c_size_t
  implicit none
  private

  public :: hcomp_plan, hcomp_report
  public :: hcomp_plan_create, hcomp_plan_free
  public :: hcomp_all_reduce, hcomp_reduce_scatter, hcomp_all_gather
  public :: hcomp_plan_shard, hcomp_plan_set_mean, hcomp_comm_set, hcomp_last_error, hcomp_version
  public :: hcomp_plan_get_residual, hcomp_plan_set_residual, hcomp_plan_set_draws

  integer, parameter, public :: HCOMP_OK = 0
  integer, parameter, public :: HCOMP_INVALID_ARGUMENT = 1
  integer, parameter, public :: HCOMP_DISAGREEMENT = 2
  integer, parameter, public :: HCOMP_NONFINITE = 3
  integer, parameter, public :: HCOMP_DAMAGED = 4
  integer, parameter, public :: HCOMP_TRANSPORT = 5
  integer, parameter, public :: HCOMP_OTHER = 6
  integer, parameter, public :: HCOMP_NOT_RUNNING = 7

  !> Reduces vectors of one size with one codec over one communicator.
  type :: hcomp_plan
    private
    type(c_ptr) :: handle = c_null_ptr
  end type hcomp_plan

  !> Statistics of one call on this rank.
  type, bind(C) :: hcomp_report
    integer(c_int64_t) :: bytes_sent  !< headers included
    integer(c_int64_t) :: weight      !< number of ranks in the result
    real(c_double) :: seconds         !< of the call
    real(c_double) :: seconds_codec   !< of that: encoding, merging, decoding
    real(c_double) :: error           !< bound on any value's error; NaN if the codec has none
    real(c_double) :: dominance       !< 1/16 to 1; near 1, one value turns the rest to noise; or 0
    real(c_double) :: residual        !< energy of error feedback's residual, relative to x; or 0
    integer(c_int) :: shared_memory   !< 1: added in memory that a node's ranks share; 0: messages
  end type hcomp_report

  !> Creates a plan for vectors of `values` reals of single or double precision. Collective over
  !> `comm`.
  interface hcomp_plan_create
    module procedure create, create_long
  end interface hcomp_plan_create

  !> All-reduces x, an array of any rank, in place. Collective.
  interface hcomp_all_reduce
    module procedure all_reduce_single, all_reduce_double
  end interface hcomp_all_reduce

  !> Reduce-scatter in place: each rank keeps only its part of x, see hcomp_plan_shard. Collective.
  interface hcomp_reduce_scatter
    module procedure reduce_scatter_single, reduce_scatter_double
  end interface hcomp_reduce_scatter

  !> All-gathers the parts of x. Collective.
  interface hcomp_all_gather
    module procedure all_gather_single, all_gather_double
  end interface hcomp_all_gather

  !> Copies this rank's residual, which the next call adds, for a checkpoint. The array has the size
  !> and kind of x.
  interface hcomp_plan_get_residual
    module procedure get_residual_single, get_residual_double
  end interface hcomp_plan_get_residual

  !> Replaces this rank's residual.
  interface hcomp_plan_set_residual
    module procedure set_residual_single, set_residual_double
  end interface hcomp_plan_set_residual

  interface
    function c_create(comm, values, value_bytes, codec, plan) bind(C, name="hcomp_plan_create_f")
      import :: c_char, c_int, c_ptr, c_size_t
      integer(c_int), value :: comm, value_bytes
      integer(c_size_t), value :: values
      character(kind=c_char), intent(in) :: codec(*)
      type(c_ptr), intent(out) :: plan
      integer(c_int) :: c_create
    end function c_create
    function c_free(plan) bind(C, name="hcomp_plan_free")
      import :: c_int, c_ptr
      type(c_ptr), intent(inout) :: plan
      integer(c_int) :: c_free
    end function c_free
    function c_all_reduce(plan, x, values, value_bytes, report) &
        bind(C, name="hcomp_all_reduce_sized")
      import :: c_int, c_ptr, c_size_t, hcomp_report
      type(c_ptr), value :: plan, x
      integer(c_size_t), value :: values
      integer(c_int), value :: value_bytes
      type(hcomp_report), intent(out), optional :: report
      integer(c_int) :: c_all_reduce
    end function c_all_reduce
    function c_reduce_scatter(plan, x, values, value_bytes, report) &
        bind(C, name="hcomp_reduce_scatter_sized")
      import :: c_int, c_ptr, c_size_t, hcomp_report
      type(c_ptr), value :: plan, x
      integer(c_size_t), value :: values
      integer(c_int), value :: value_bytes
      type(hcomp_report), intent(out), optional :: report
      integer(c_int) :: c_reduce_scatter
    end function c_reduce_scatter
    function c_all_gather(plan, x, values, value_bytes, report) &
        bind(C, name="hcomp_all_gather_sized")
      import :: c_int, c_ptr, c_size_t, hcomp_report
      type(c_ptr), value :: plan, x
      integer(c_size_t), value :: values
      integer(c_int), value :: value_bytes
      type(hcomp_report), intent(out), optional :: report
      integer(c_int) :: c_all_gather
    end function c_all_gather
    function c_shard(plan, first, count) bind(C, name="hcomp_plan_shard")
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: plan
      integer(c_size_t), intent(out) :: first, count
      integer(c_int) :: c_shard
    end function c_shard
    function c_set_mean(plan, mean) bind(C, name="hcomp_plan_set_mean")
      import :: c_int, c_ptr
      type(c_ptr), value :: plan
      integer(c_int), value :: mean
      integer(c_int) :: c_set_mean
    end function c_set_mean
    function c_get_residual(plan, residual, values, value_bytes) &
        bind(C, name="hcomp_plan_get_residual_sized")
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: plan, residual
      integer(c_size_t), value :: values
      integer(c_int), value :: value_bytes
      integer(c_int) :: c_get_residual
    end function c_get_residual
    function c_set_residual(plan, residual, values, value_bytes) &
        bind(C, name="hcomp_plan_set_residual_sized")
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: plan, residual
      integer(c_size_t), value :: values
      integer(c_int), value :: value_bytes
      integer(c_int) :: c_set_residual
    end function c_set_residual
    function c_set_draws(plan, vector, step) bind(C, name="hcomp_plan_set_draws")
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: plan
      integer(c_int64_t), value :: vector, step
      integer(c_int) :: c_set_draws
    end function c_set_draws
    function c_comm_set(comm, settings) bind(C, name="hcomp_comm_set_f")
      import :: c_char, c_int
      integer(c_int), value :: comm
      character(kind=c_char), intent(in), optional :: settings(*)
      integer(c_int) :: c_comm_set
    end function c_comm_set
    function c_last_error() bind(C, name="hcomp_last_error")
      import :: c_ptr
      type(c_ptr) :: c_last_error
    end function c_last_error
    function c_version(major, minor, patch) bind(C, name="hcomp_version")
      import :: c_int
      integer(c_int), intent(out) :: major, minor, patch
      integer(c_int) :: c_version
    end function c_version
    pure function c_strlen(text) bind(C, name="strlen")
      import :: c_ptr, c_size_t
      type(c_ptr), value, intent(in) :: text
      integer(c_size_t) :: c_strlen
    end function c_strlen
  end interface

contains

  subroutine create_long(plan, comm, values, real_kind, codec, code)
    type(hcomp_plan), intent(out) :: plan
    integer, intent(in) :: comm
    integer(c_int64_t), intent(in) :: values
    integer, intent(in) :: real_kind         !< kind(x)
    character(len=*), intent(in) :: codec   !< "thc:bits=4"
    integer, intent(out), optional :: code
    integer(c_int) :: value_bytes

    value_bytes = 0  ! all ranks refuse it
    if (real_kind == c_float) value_bytes = 4
    if (real_kind == c_double) value_bytes = 8
    call finish(c_create(int(comm, c_int), int(values, c_size_t), value_bytes, in_c(codec), &
      plan%handle), code)
  end subroutine create_long

  subroutine create(plan, comm, values, real_kind, codec, code)
    type(hcomp_plan), intent(out) :: plan
    integer, intent(in) :: comm
    integer(c_int), intent(in) :: values
    integer, intent(in) :: real_kind
    character(len=*), intent(in) :: codec
    integer, intent(out), optional :: code

    call create_long(plan, comm, int(values, c_int64_t), real_kind, codec, code)
  end subroutine create

  !> Frees the plan. No effect if it was not created or is already freed. Collective.
  subroutine hcomp_plan_free(plan, code)
    type(hcomp_plan), intent(inout) :: plan
    integer, intent(out), optional :: code

    call finish(c_free(plan%handle), code)
  end subroutine hcomp_plan_free

  subroutine all_reduce_single(plan, x, report, code)
    type(hcomp_plan), intent(in) :: plan
    real(c_float), intent(inout), contiguous, target :: x(..)
    type(hcomp_report), intent(out), optional :: report
    integer, intent(out), optional :: code

    call finish(c_all_reduce(plan%handle, c_loc(x), size(x, kind=c_size_t), 4_c_int, report), code)
  end subroutine all_reduce_single

  subroutine all_reduce_double(plan, x, report, code)
    type(hcomp_plan), intent(in) :: plan
    real(c_double), intent(inout), contiguous, target :: x(..)
    type(hcomp_report), intent(out), optional :: report
    integer, intent(out), optional :: code

    call finish(c_all_reduce(plan%handle, c_loc(x), size(x, kind=c_size_t), 8_c_int, report), code)
  end subroutine all_reduce_double

  subroutine reduce_scatter_single(plan, x, report, code)
    type(hcomp_plan), intent(in) :: plan
    real(c_float), intent(inout), contiguous, target :: x(..)
    type(hcomp_report), intent(out), optional :: report
    integer, intent(out), optional :: code

    call finish( &
      c_reduce_scatter(plan%handle, c_loc(x), size(x, kind=c_size_t), 4_c_int, report), code)
  end subroutine reduce_scatter_single

  subroutine reduce_scatter_double(plan, x, report, code)
    type(hcomp_plan), intent(in) :: plan
    real(c_double), intent(inout), contiguous, target :: x(..)
    type(hcomp_report), intent(out), optional :: report
    integer, intent(out), optional :: code

    call finish( &
      c_reduce_scatter(plan%handle, c_loc(x), size(x, kind=c_size_t), 8_c_int, report), code)
  end subroutine reduce_scatter_double

  subroutine all_gather_single(plan, x, report, code)
    type(hcomp_plan), intent(in) :: plan
    real(c_float), intent(inout), contiguous, target :: x(..)
    type(hcomp_report), intent(out), optional :: report
    integer, intent(out), optional :: code

    call finish(c_all_gather(plan%handle, c_loc(x), size(x, kind=c_size_t), 4_c_int, report), code)
  end subroutine all_gather_single

  subroutine all_gather_double(plan, x, report, code)
    type(hcomp_plan), intent(in) :: plan
    real(c_double), intent(inout), contiguous, target :: x(..)
    type(hcomp_report), intent(out), optional :: report
    integer, intent(out), optional :: code

    call finish(c_all_gather(plan%handle, c_loc(x), size(x, kind=c_size_t), 8_c_int, report), code)
  end subroutine all_gather_double

  !> This rank's part: x(first : last), with x as a vector from index 1.
  subroutine hcomp_plan_shard(plan, first, last, code)
    type(hcomp_plan), intent(in) :: plan
    integer(c_int64_t), intent(out) :: first, last
    integer, intent(out), optional :: code
    integer(c_size_t) :: before, count

    before = 0
    count = 0
    call finish(c_shard(plan%handle, before, count), code)
    first = before + 1
    last = before + count
  end subroutine hcomp_plan_shard

  !> Selects mean or sum over the ranks for all_reduce and reduce_scatter. Default: sum. Must be
  !> equal on all ranks.
  subroutine hcomp_plan_set_mean(plan, mean, code)
    type(hcomp_plan), intent(in) :: plan
    logical, intent(in) :: mean
    integer, intent(out), optional :: code

    call finish(c_set_mean(plan%handle, merge(1_c_int, 0_c_int, mean)), code)
  end subroutine hcomp_plan_set_mean

  subroutine get_residual_single(plan, residual, code)
    type(hcomp_plan), intent(in) :: plan
    real(c_float), intent(inout), contiguous, target :: residual(..)
    integer, intent(out), optional :: code

    call finish(c_get_residual( &
      plan%handle, c_loc(residual), size(residual, kind=c_size_t), 4_c_int), code)
  end subroutine get_residual_single

  subroutine get_residual_double(plan, residual, code)
    type(hcomp_plan), intent(in) :: plan
    real(c_double), intent(inout), contiguous, target :: residual(..)
    integer, intent(out), optional :: code

    call finish(c_get_residual( &
      plan%handle, c_loc(residual), size(residual, kind=c_size_t), 8_c_int), code)
  end subroutine get_residual_double

  subroutine set_residual_single(plan, residual, code)
    type(hcomp_plan), intent(in) :: plan
    real(c_float), intent(in), contiguous, target :: residual(..)
    integer, intent(out), optional :: code

    call finish(c_set_residual( &
      plan%handle, c_loc(residual), size(residual, kind=c_size_t), 4_c_int), code)
  end subroutine set_residual_single

  subroutine set_residual_double(plan, residual, code)
    type(hcomp_plan), intent(in) :: plan
    real(c_double), intent(in), contiguous, target :: residual(..)
    integer, intent(out), optional :: code

    call finish(c_set_residual( &
      plan%handle, c_loc(residual), size(residual, kind=c_size_t), 8_c_int), code)
  end subroutine set_residual_double

  !> Sets the random draws: the next call uses those of step `step` of vector `vector`, later calls
  !> those of the following steps. A run that resumes from a checkpoint needs it. Must be equal on
  !> all ranks.
  subroutine hcomp_plan_set_draws(plan, vector, step, code)
    type(hcomp_plan), intent(in) :: plan
    integer(c_int64_t), intent(in) :: vector, step
    integer, intent(out), optional :: code

    call finish(c_set_draws(plan%handle, vector, step), code)
  end subroutine hcomp_plan_set_draws

  !> Sets rules for MPI's own reductions on this communicator. Needs a preloaded libhcomp_pmpi.so.
  !> Without `settings` the program's settings apply again. Collective.
  subroutine hcomp_comm_set(comm, settings, code)
    integer, intent(in) :: comm
    character(len=*), intent(in), optional :: settings
    integer, intent(out), optional :: code

    if (present(settings)) then
      call finish(c_comm_set(int(comm, c_int), in_c(settings)), code)
    else
      call finish(c_comm_set(int(comm, c_int)), code)
    end if
  end subroutine hcomp_comm_set

  !> Text of the last failed call in this thread.
  function hcomp_last_error() result(words)
    character(len=:), allocatable :: words
    type(c_ptr) :: text
    character(kind=c_char), pointer :: letters(:)
    integer(c_size_t) :: i

    text = c_last_error()
    call c_f_pointer(text, letters, [c_strlen(text)])
    allocate (character(len=size(letters)) :: words)
    do i = 1, size(letters, kind=c_size_t)
      words(i:i) = letters(i)
    end do
  end function hcomp_last_error

  subroutine hcomp_version(major, minor, patch)
    integer, intent(out) :: major, minor, patch
    integer(c_int) :: in_c(3), code

    code = c_version(in_c(1), in_c(2), in_c(3))
    major = in_c(1)
    minor = in_c(2)
    patch = in_c(3)
  end subroutine hcomp_version

  pure function in_c(text)
    character(len=*), intent(in) :: text
    character(kind=c_char, len=:), allocatable :: in_c

    in_c = trim(text) // c_null_char
  end function in_c

  subroutine finish(result, code)
    integer(c_int), intent(in) :: result
    integer, intent(out), optional :: code

    if (present(code)) then
      code = result
    else if (result /= HCOMP_OK) then
      error stop hcomp_last_error()
    end if
  end subroutine finish

end module hcomp
