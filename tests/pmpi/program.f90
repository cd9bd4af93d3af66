! A Fortran program that does not use hcomp. CMake compiles it twice: with mpi_f08, and with -DMPIF
! for mpif.h. It reduces vectors with every function that the drop-in library intercepts.
!
!   program exact        results must equal those of adding in rank order: MPI_REAL bit for bit;
!                        MPI_DOUBLE_PRECISION, which MPI adds in its own order, within 1e-14
!   program within B     no value of a result may be off by more than B
#ifdef MPIF
#define TYPE_OF(name) integer
#else
#define TYPE_OF(name) type(name)
#endif

module sums
#ifndef MPIF
  use mpi_f08
#endif
  implicit none
#ifdef MPIF
  include 'mpif.h'
#endif
  integer, parameter :: double = kind(1d0)
  integer :: failures = 0, me, ranks
  real(double) :: tolerance_real = 0, tolerance_double = 1d-14

contains

  ! Value i of a rank's vector: mostly 0.
  pure real(double) function value_at(rank, i, vector)
    integer, intent(in) :: rank, i, vector
    integer :: hash
    hash = mod(i * 7919 + rank * 40503 + vector * 31, 65521)
    value_at = 0
    if (mod(hash, 4) == 0) value_at = (mod(hash / 4, 9) - 4) * 0.37d0 + rank * 0.011d0
  end function

  subroutine fail(what, n, i, is, should_be)
    character(*), intent(in) :: what
    integer, intent(in) :: n, i
    real(double), intent(in) :: is, should_be
    write (0, '(a, i0, 3a, i0, a, i0, 2(a, es23.15))') 'rank ', me, ', ', what, ' of ', n, &
      ': value ', i, ' is ', is, ', should be ', should_be
    failures = failures + 1
  end subroutine

#define KIND_OF_REAL 4
#define REAL_TYPE MPI_REAL
#define SUM_EVERYWHERE reduce_everywhere_real
#define FILLED filled_real
#define CHECK check_real
#define TOLERANCE tolerance_real
#include "program_of_type.inc"
#undef KIND_OF_REAL
#undef REAL_TYPE
#undef SUM_EVERYWHERE
#undef FILLED
#undef CHECK
#undef TOLERANCE

#define KIND_OF_REAL 8
#define REAL_TYPE MPI_DOUBLE_PRECISION
#define SUM_EVERYWHERE reduce_everywhere_double
#define FILLED filled_double
#define CHECK check_double
#define TOLERANCE tolerance_double
#include "program_of_type.inc"

end module sums

program unmodified
  use sums
  implicit none
  character(32) :: mode, number
  integer :: error, provided, sizes(4) = [0, 7, 1000, 50021], s, all

  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided, error)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, mode)
  if (mode == 'within') then
    call get_command_argument(2, number)
    read (number, *) tolerance_real
    tolerance_double = tolerance_real
  end if
  do s = 1, size(sizes)
    call reduce_everywhere_real(sizes(s))
    call reduce_everywhere_double(sizes(s))
  end do

  call MPI_Allreduce(failures, all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  if (me == 0 .and. all == 0) print '(a)', 'as it should be'
  call MPI_Finalize(error)
  if (all > 0) error stop 1
end program
