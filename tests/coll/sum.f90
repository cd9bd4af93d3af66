! A program in Fortran that knows nothing of hcomp: sums by mpi_f08, whose calls of the C library
! cannot be interposed in C.
program sum
  use mpi_f08
  use, intrinsic :: iso_fortran_env, only: real32, real64
  implicit none
  integer, parameter :: n = 50000
  real(real32) :: x(n), y(n)
  real(real64) :: z(n)
  integer :: rank, ranks, i
  logical :: good

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)

  x = [(real(mod(i, 7) * (rank + 1), real32), i = 1, n)]
  call MPI_Allreduce(x, y, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
  good = all(y == [(real(mod(i, 7) * (ranks * (ranks + 1) / 2), real32), i = 1, n)])

  z = x
  call MPI_Allreduce(MPI_IN_PLACE, z, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  good = good .and. all(z == y)

  if (.not. good) error stop "a sum is not what it should be"
  call MPI_Finalize()
end program sum
